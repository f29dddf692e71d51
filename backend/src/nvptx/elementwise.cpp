// Element-wise operations: one LLVM expression per register. f16 and bf16 compute in f32 and round; 8-bit floats are their bits, and
// only converted.
#include <algorithm>
#include <limits>

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

#include <flextile/ir/error.hpp>

#include "llvm/float8.hpp"
#include "nvptx/bit_masks.hpp"
#include "nvptx/exact_sums.hpp"
#include "nvptx/lowering.hpp"
#include "nvptx/turns.hpp"
#include "nvptx/wgmma.hpp"
#include "passes/fold.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // lower_operation sends here what is listed; the rest is a fault that throws

namespace flextile::backend {
namespace {

using ir::Opcode;
using llvm::Intrinsic::ID;

constexpr int least_to_skip = 8;   // registers: a vote and a branch cost as much as a few selects
constexpr int least_to_hide = 16;  // registers: a number for them costs two instructions

bool is_small_float(ElementType element) { return element == ElementType::f16 || element == ElementType::bf16; }

llvm::Value* widen(Lowering& l, llvm::Value* value) {
  return value->getType()->isHalfTy() || value->getType()->isBFloatTy() ? l.b.CreateFPExt(value, l.b.getFloatTy()) : value;
}

bool converts_float8(const Lowering& l) { return l.target.sm >= 89; }

/// Two f32 as 8-bit floats in an i16, the first one in its lower half.
llvm::Value* float8_pair(Lowering& l, ElementType element, llvm::Value* first, llvm::Value* second) {
  return call(l, element == ElementType::f8e4m3 ? llvm::Intrinsic::nvvm_ff_to_e4m3x2_rn : llvm::Intrinsic::nvvm_ff_to_e5m2x2_rn, {second, first});
}
/// Two 8-bit floats in an i16 as <2 x half>.
llvm::Value* halves_of_pair(Lowering& l, ElementType element, llvm::Value* pair) {
  return call(l, element == ElementType::f8e4m3 ? llvm::Intrinsic::nvvm_e4m3x2_to_f16x2_rn : llvm::Intrinsic::nvvm_e5m2x2_to_f16x2_rn, {pair});
}

llvm::Value* convert(Lowering& l, llvm::Value* value, ElementType from, ElementType to);

/// f16 holds every number of eight bits.
llvm::Value* from_float8(Lowering& l, llvm::Value* bits, ElementType from, ElementType to) {
  if (!converts_float8(l)) return convert(l, float_of_float8(l.b, from, bits), ElementType::f32, to);
  llvm::Value* pair = halves_of_pair(l, from, l.b.CreateZExt(bits, l.b.getInt16Ty()));
  return convert(l, l.b.CreateExtractElement(pair, std::uint64_t{0}), ElementType::f16, to);
}

llvm::Value* to_float8(Lowering& l, llvm::Value* value, ElementType from, ElementType to) {
  value = convert(l, value, from, ElementType::f32);
  if (!converts_float8(l)) return float8_of_float(l.b, to, round_to_float8(l.b, to, value));
  return l.b.CreateTrunc(float8_pair(l, to, value, llvm::ConstantFP::get(value->getType(), 0.0)), l.b.getInt8Ty());
}

llvm::Value* convert(Lowering& l, llvm::Value* value, ElementType from, ElementType to) {
  llvm::Type* type = element_type(l, to);
  if (from == to) return value;
  if (is_float8(from)) return from_float8(l, value, from, to);
  if (is_float8(to)) return to_float8(l, value, from, to);
  if (to == ElementType::i1) {
    return is_float(from) ? l.b.CreateFCmpUNE(widen(l, value), llvm::ConstantFP::get(is_small_float(from) ? l.b.getFloatTy() : value->getType(), 0.0))
                          : l.b.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0));
  }
  if (is_float(from) && is_float(to)) {
    if (is_small_float(from) && is_small_float(to)) return l.b.CreateFPTrunc(widen(l, value), type);
    if (from == ElementType::f64 && to == ElementType::bf16) value = l.b.CreateFPTrunc(value, l.b.getFloatTy());
    return l.b.CreateFPCast(value, type);
  }
  if (is_float(from)) {
    value = widen(l, value);
    const ID id = is_unsigned(to) ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return call(l, id, {value}, {type, value->getType()});
  }
  if (is_float(to)) {
    llvm::Type* wide = is_small_float(to) ? l.b.getFloatTy() : type;
    value = is_unsigned(from) ? l.b.CreateUIToFP(value, wide) : l.b.CreateSIToFP(value, wide);
    return is_small_float(to) ? l.b.CreateFPTrunc(value, type) : value;
  }
  return is_unsigned(from) ? l.b.CreateZExtOrTrunc(value, type) : l.b.CreateSExtOrTrunc(value, type);
}

llvm::Value* compare(Lowering& l, Opcode opcode, llvm::Value* a, llvm::Value* b, bool floating, bool unsigned_) {
  using P = llvm::CmpInst::Predicate;
  auto pick = [&](P of_float, P of_unsigned, P of_signed) { return floating ? of_float : unsigned_ ? of_unsigned : of_signed; };
  P predicate = P::ICMP_EQ;
  if (opcode == Opcode::eq) predicate = pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
  if (opcode == Opcode::ne) predicate = pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
  if (opcode == Opcode::lt) predicate = pick(P::FCMP_OLT, P::ICMP_ULT, P::ICMP_SLT);
  if (opcode == Opcode::le) predicate = pick(P::FCMP_OLE, P::ICMP_ULE, P::ICMP_SLE);
  if (opcode == Opcode::gt) predicate = pick(P::FCMP_OGT, P::ICMP_UGT, P::ICMP_SGT);
  if (opcode == Opcode::ge) predicate = pick(P::FCMP_OGE, P::ICMP_UGE, P::ICMP_SGE);
  return floating ? l.b.CreateFCmp(predicate, a, b) : l.b.CreateICmp(predicate, a, b);
}

/// A shift by the width or more leaves nothing but the sign.
llvm::Value* shift(Lowering& l, Opcode opcode, llvm::Value* x, llvm::Value* amount, bool unsigned_) {
  llvm::Type* type = x->getType();
  const unsigned width = type->getIntegerBitWidth();
  llvm::Value* inside = l.b.CreateICmpULT(amount, llvm::ConstantInt::get(type, width));
  llvm::Value* most = llvm::ConstantInt::get(type, width - 1);
  llvm::Value* safe = l.b.CreateSelect(inside, amount, most);
  if (opcode == Opcode::shr && !unsigned_) return l.b.CreateAShr(x, safe);
  llvm::Value* shifted = opcode == Opcode::shl ? l.b.CreateShl(x, safe) : l.b.CreateLShr(x, safe);
  return l.b.CreateSelect(inside, shifted, llvm::ConstantInt::get(type, 0));
}

/// Division by zero gives 0 and overflow wraps: no undefined behaviour for LLVM to build on.
llvm::Value* divide(Lowering& l, Opcode opcode, llvm::Value* a, llvm::Value* b, bool unsigned_) {
  llvm::Type* type = a->getType();
  llvm::Value* one = llvm::ConstantInt::get(type, 1);
  llvm::Value* zero = llvm::ConstantInt::get(type, 0);
  llvm::Value* bad = l.b.CreateICmpEQ(b, zero);
  if (unsigned_) {
    llvm::Value* safe = l.b.CreateSelect(bad, one, b);
    llvm::Value* result = opcode == Opcode::div ? l.b.CreateUDiv(a, safe) : l.b.CreateURem(a, safe);
    return l.b.CreateSelect(bad, zero, result);
  }
  llvm::Value* minus = l.b.CreateICmpEQ(b, llvm::ConstantInt::getAllOnesValue(type));
  llvm::Value* safe = l.b.CreateSelect(l.b.CreateOr(bad, minus), one, b);
  llvm::Value* result = opcode == Opcode::div ? l.b.CreateSDiv(a, safe) : l.b.CreateSRem(a, safe);
  if (opcode == Opcode::div) result = l.b.CreateSelect(minus, l.b.CreateNeg(a), result);
  return l.b.CreateSelect(bad, zero, result);
}

/// Sums keep their numbers outermost: what is left is the same for all registers of a row or a column, and computed once.
llvm::Value* add_or_subtract(Lowering& l, bool subtracts, llvm::Value* a, llvm::Value* b) {
  auto join = [&](llvm::Value* x, llvm::Value* y) {
    llvm::Value*& known = l.joined[subtracts][{x, y}];
    if (!known) known = subtracts ? l.b.CreateSub(x, y) : l.b.CreateAdd(x, y);
    return known;
  };
  const WithNumber left = split_number(a), right = split_number(b);
  if (!left.rest || (!right.rest && !left.number)) return subtracts ? l.b.CreateSub(a, b) : l.b.CreateAdd(a, b);
  llvm::Value* rest = right.rest ? join(left.rest, right.rest) : left.rest;
  if (!left.number && !right.number) return rest;
  llvm::Constant* zero = llvm::ConstantInt::get(a->getType(), 0);
  llvm::Constant* first = left.number ? left.number : zero;
  llvm::Constant* second = right.number ? right.number : zero;
  llvm::Value* sum = l.b.CreateAdd(rest, subtracts ? l.b.CreateSub(first, second) : l.b.CreateAdd(first, second));
  if (subtracts && right.rest) note_difference(l, rest, left.rest, right.rest), note_difference(l, sum, a, b);
  return sum;
}

llvm::Value* integer_operation(Lowering& l, Opcode opcode, const Registers& x, bool unsigned_) {
  llvm::Type* type = x[0]->getType();
  auto intrinsic = [&](ID of_unsigned, ID of_signed) { return call(l, unsigned_ ? of_unsigned : of_signed, {x[0], x[1]}, {type}); };
  switch (opcode) {
    case Opcode::neg: return l.b.CreateNeg(x[0]);
    case Opcode::bit_not: return l.b.CreateNot(x[0]);
    case Opcode::unlikely: return x[0];
    case Opcode::abs: return unsigned_ ? x[0] : call(l, llvm::Intrinsic::abs, {x[0], l.b.getFalse()}, {type});
    case Opcode::add: return add_or_subtract(l, false, x[0], x[1]);
    case Opcode::sub: return add_or_subtract(l, true, x[0], x[1]);
    case Opcode::mul: return l.b.CreateMul(x[0], x[1]);
    case Opcode::fma: return l.b.CreateAdd(l.b.CreateMul(x[0], x[1]), x[2]);
    case Opcode::div:
    case Opcode::rem: return divide(l, opcode, x[0], x[1], unsigned_);
    case Opcode::min: return intrinsic(llvm::Intrinsic::umin, llvm::Intrinsic::smin);
    case Opcode::max: return intrinsic(llvm::Intrinsic::umax, llvm::Intrinsic::smax);
    case Opcode::bit_and: return l.b.CreateAnd(x[0], x[1]);
    case Opcode::bit_or: return l.b.CreateOr(x[0], x[1]);
    case Opcode::bit_xor: return l.b.CreateXor(x[0], x[1]);
    case Opcode::shl:
    case Opcode::shr: return shift(l, opcode, x[0], x[1], unsigned_);
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round:
    case Opcode::trunc: return x[0];
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(opcode)) + "] has no lowering for integers");
  }
}

/// a b + u (x + number), where u and x are the same for many registers: a b + (u number + u x), of which the second part is the same
/// for all registers with that number, as along the diagonals of a product's tile.
llvm::Value* multiply_add(Lowering& l, const Registers& x) {
  llvm::Type* type = x[0]->getType();
  auto fma = [&](llvm::Value* a, llvm::Value* b, llvm::Value* c) { return call(l, llvm::Intrinsic::fma, {a, b, c}, {type}); };
  auto* product = llvm::dyn_cast<llvm::BinaryOperator>(x[2]);
  if (!product || product->getOpcode() != llvm::Instruction::FMul) return fma(x[0], x[1], x[2]);
  for (unsigned i : {0u, 1u}) {
    auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(product->getOperand(i));
    if (!sum || sum->getOpcode() != llvm::Instruction::FAdd || !llvm::isa<llvm::ConstantFP>(sum->getOperand(1)) || !llvm::isa<llvm::SIToFPInst>(sum->getOperand(0))) continue;
    llvm::Value* factor = product->getOperand(1 - i);
    return fma(x[0], x[1], fma(factor, sum->getOperand(1), l.b.CreateFMul(factor, sum->getOperand(0))));
  }
  return fma(x[0], x[1], x[2]);
}

llvm::Value* float_operation(Lowering& l, Opcode opcode, const Registers& x) {
  llvm::Type* type = x[0]->getType();
  auto intrinsic = [&](ID id) { return call(l, id, x, {type}); };
  switch (opcode) {
    case Opcode::neg: return l.b.CreateFNeg(x[0]);
    case Opcode::abs: return intrinsic(llvm::Intrinsic::fabs);
    case Opcode::ceil: return intrinsic(llvm::Intrinsic::ceil);
    case Opcode::floor: return intrinsic(llvm::Intrinsic::floor);
    case Opcode::round: return intrinsic(llvm::Intrinsic::roundeven);
    case Opcode::trunc: return intrinsic(llvm::Intrinsic::trunc);
    case Opcode::sqrt: return intrinsic(llvm::Intrinsic::sqrt);
    case Opcode::add: return l.b.CreateFAdd(x[0], x[1]);
    case Opcode::sub: return l.b.CreateFSub(x[0], x[1]);
    case Opcode::mul: return l.b.CreateFMul(x[0], x[1]);
    case Opcode::div: return divide_floats(l, x[0], x[1]);
    case Opcode::rem: return lower_math(l, opcode, x[0], x[1]);
    case Opcode::min: return intrinsic(llvm::Intrinsic::minnum);
    case Opcode::max: return intrinsic(llvm::Intrinsic::maxnum);
    case Opcode::fma: return multiply_add(l, x);
    default: return lower_math(l, opcode, x[0], x.size() > 1 ? x[1] : nullptr);
  }
}

/// What is allowed to an operation that is marked approximate, where it pays; else null.
llvm::Value* approximation(Lowering& l, Opcode opcode, const Registers& x, ElementType from) {
  llvm::Type* f32 = l.b.getFloatTy();
  if (opcode == Opcode::tanh && l.target.sm >= 75) return pure_assembly(l, f32, "tanh.approx.f32 $0, $1;", "=f,f", x);
  if (opcode == Opcode::div) {
    const auto* divisor = llvm::dyn_cast<llvm::ConstantFP>(x[1]);
    if (!divisor || from != ElementType::f32) return nullptr;
    llvm::Constant* reciprocal = llvm::ConstantFP::get(f32, 1 / divisor->getValueAPF().convertToFloat());
    // (score * scale) / number: the two numbers first, once for all elements.
    auto* product = llvm::dyn_cast<llvm::BinaryOperator>(x[0]);
    if (!product || product->getOpcode() != llvm::Instruction::FMul) return l.b.CreateFMul(x[0], reciprocal);
    return l.b.CreateFMul(product->getOperand(0), l.b.CreateFMul(product->getOperand(1), reciprocal));
  }
  if (opcode == Opcode::cast && from == ElementType::i32) {   // the number of a sum apart: an addition with a literal
    const WithNumber sum = split_number(x[0]);
    return sum.rest && sum.number ? l.b.CreateFAdd(l.b.CreateSIToFP(sum.rest, f32), llvm::ConstantFP::get(f32, static_cast<double>(sum.number->getSExtValue()))) : nullptr;
  }
  return nullptr;
}

/// LLVM makes a select on `a and b` into two selects, a third for `and c`: where the condition is such a term we spell the one
/// instruction ourselves.
llvm::Value* choose(Lowering& l, const ir::Operation& operation, const Registers& x) {
  const ir::Operation* condition = l.f.defining(operation.operands[0]);
  const bool joined = condition && !l.bits.contains(operation.operands[0].index) && (condition->opcode == Opcode::bit_and || condition->opcode == Opcode::bit_or);
  llvm::Type* type = x[1]->getType();
  if (!joined || !(type->isFloatTy() || type->isIntegerTy(32))) return l.b.CreateSelect(x[0], x[1], x[2]);
  const bool real = type->isFloatTy();
  return pure_assembly(l, type, real ? "selp.f32 $0, $1, $2, $3;" : "selp.b32 $0, $1, $2, $3;", real ? "=f,f,f,b" : "=r,r,r,b", {x[1], x[2], x[0]});
}

/// Whether the condition of a select is said to be unlikely; it may have been broadcast since.
bool is_unlikely(const Lowering& l, ir::Value condition) {
  const ir::Operation* from = l.f.defining(condition);
  while (from && (from->opcode == Opcode::broadcast || from->opcode == Opcode::expand_dims)) from = l.f.defining(from->operands[0]);
  return from && from->opcode == Opcode::unlikely;
}

/// select(condition, a, b) where the condition seldom holds: a warp without an element where it does goes past. LLVM sinks what
/// only `a` needs into the branch.
void lower_unlikely_select(Lowering& l, const Registers& condition, const Registers& a, const Registers& b, Registers& out) {
  llvm::Value* here = l.b.getFalse();
  for (std::size_t i = 0; i < condition.size(); ++i) {   // a condition per row is the same value along the columns
    if (std::find(condition.begin(), condition.begin() + i, condition[i]) == condition.begin() + i) here = l.b.CreateOr(here, condition[i]);
  }
  llvm::Value* anywhere = call(l, llvm::Intrinsic::nvvm_vote_any_sync, {l.b.getInt32(-1), here});
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  llvm::BasicBlock* taken = nullptr;
  Registers chosen;
  when(l, anywhere, [&] {
    for (std::size_t i = 0; i < out.size(); ++i) chosen.push_back(l.b.CreateSelect(condition[i], a[i], b[i]));
    taken = l.b.GetInsertBlock();
  });
  before->getTerminator()->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(l.b.getContext()).createUnlikelyBranchWeights());   // out of the way
  for (std::size_t i = 0; i < out.size(); ++i) {
    llvm::PHINode* phi = l.b.CreatePHI(chosen[i]->getType(), 2);
    phi->addIncoming(chosen[i], taken);
    phi->addIncoming(b[i], before);
    out[i] = phi;
  }
}

/// A mask in a kernel of warpgroups: select(condition, x, -inf) of many registers.
bool hides(const Lowering& l, const ir::Operation& operation, int count) {
  if (operation.opcode != Opcode::select || count < least_to_hide || !uses_wgmma(l.f)) return false;
  const ir::Type& type = l.type(operation.results[0]);
  Element other;
  return type.element == ElementType::f32 && l.type(operation.operands[0]).rank == type.rank && l.type(operation.operands[1]).rank == type.rank &&
         constant_element(l.f, operation.operands[2], other) && other.real == -std::numeric_limits<double>::infinity();
}

/// A select is two clocks of the pipe that compares and tests bits, which a mask keeps busy; a multiply-add under the predicate is one of another pipe:
/// a number from 0 to 1 times a constant, less infinity. The constants differ, or the assembler would do that once, and select it.
void lower_hiding_select(Lowering& l, const Registers& condition, const Registers& x, Registers& out) {
  llvm::Type* real = l.b.getFloatTy();
  llvm::Value* finite = pure_assembly(l, real, "cvt.sat.f32.f32 $0, $1;", "=f,f", {x[0]});
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = pure_assembly(l, real, "@!$2 fma.rn.f32 $0, $3, $4, 0fFF800000;", "=f,0,b,f,f", {x[i], condition[i], finite, llvm::ConstantFP::get(real, double(i + 1))});
}

}  // namespace

llvm::Value* lower_element(Lowering& l, const ir::Operation& operation, const Registers& operands) {
  const ir::Type& result = l.type(operation.results[0]);
  const ir::Type& first = l.type(operation.operands[0]);
  const Opcode opcode = operation.opcode;
  if (opcode == Opcode::offset) {
    llvm::Value* index = l.b.CreateIntCast(operands[1], l.b.getInt64Ty(), !is_unsigned(l.type(operation.operands[1]).element));
    llvm::Type* unit = first.element == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, first.element);
    return l.b.CreateGEP(unit, operands[0], index);
  }
  if (opcode == Opcode::select) return choose(l, operation, operands);
  const bool approximate = operation.attributes.integer(ir::AttributeName::approximate) != 0;
  if (approximate && result.element == ElementType::f32) {
    if (llvm::Value* value = approximation(l, opcode, operands, first.element)) return value;
  }
  if (opcode == Opcode::cast) return convert(l, operands[0], first.element, result.element);
  if (opcode == Opcode::bitcast) return l.b.CreateBitCast(operands[0], element_type(l, result.element));
  if (first.is_pointer()) return compare(l, opcode, operands[0], operands[1], false, true);
  Registers wide = operands;
  if (is_small_float(first.element)) {
    for (llvm::Value*& value : wide) value = widen(l, value);
  }
  if (ir::is_comparison(opcode)) return compare(l, opcode, wide[0], wide[1], is_float(first.element), is_unsigned(first.element));
  if (!is_float(first.element)) return integer_operation(l, opcode, wide, is_unsigned(first.element));
  llvm::Value* value = float_operation(l, opcode, wide);
  return is_small_float(result.element) ? l.b.CreateFPTrunc(value, element_type(l, result.element)) : value;
}

void lower_elementwise(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  const int count = register_count(layout_of(l, result));
  const ElementType to = l.type(result).element;
  Registers& out = l.of(result);
  if (llvm::Value* remainder = counted_remainder(l, operation)) {
    out = {remainder};
    return;
  }
  struct Forget {   // what is computed once is so for one operation
    Lowering& l;
    ~Forget() {
      for (auto& known : l.joined) known.clear();
    }
  } forget{l};
  if (to == ElementType::i1 && lower_to_bits(l, operation)) return;
  out.resize(count);
  if (operation.opcode == Opcode::cast && is_small_float(to) && l.type(operation.operands[0]).element == ElementType::f32 && count % 2 == 0) {
    // Two at a time, by cvt.rn.bf16x2.f32: as an intrinsic, since LLVM would move a plain conversion behind the end of a branch.
    const Registers& in = l.of(operation.operands[0]);
    const llvm::Intrinsic::ID rounds = to == ElementType::bf16 ? llvm::Intrinsic::nvvm_ff2bf16x2_rn : llvm::Intrinsic::nvvm_ff2f16x2_rn;
    for (int i = 0; i < count; i += 2) {
      llvm::Value* rounded = call(l, rounds, {in[i + 1], in[i]});
      for (std::uint64_t k : {0, 1}) out[i + k] = l.b.CreateExtractElement(rounded, k);
    }
    return;
  }
  if (operation.opcode == Opcode::cast && count % 2 == 0 && converts_float8(l)) {
    const Registers& in = l.of(operation.operands[0]);
    const ElementType from = l.type(operation.operands[0]).element;
    const bool narrows = is_float8(to) && !is_float8(from), widens = is_float8(from) && from != to;
    for (int i = 0; i < count && (narrows || widens); i += 2) {
      llvm::Value* pair = nullptr;
      if (narrows) {
        pair = float8_pair(l, to, convert(l, in[i], from, ElementType::f32), convert(l, in[i + 1], from, ElementType::f32));
        pair = l.b.CreateBitCast(pair, llvm::FixedVectorType::get(l.b.getInt8Ty(), 2));
        for (std::uint64_t k : {0, 1}) out[i + k] = l.b.CreateExtractElement(pair, k);
        continue;
      }
      pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(l.b.getInt8Ty(), 2));
      for (std::uint64_t k : {0, 1}) pair = l.b.CreateInsertElement(pair, in[i + k], k);
      pair = halves_of_pair(l, from, l.b.CreateBitCast(pair, l.b.getInt16Ty()));
      for (std::uint64_t k : {0, 1}) out[i + k] = convert(l, l.b.CreateExtractElement(pair, k), ElementType::f16, to);
    }
    if (narrows || widens) return;
  }
  if (operation.opcode == Opcode::select && count >= least_to_skip && is_unlikely(l, operation.operands[0])) {
    const Registers condition = l.of(operation.operands[0]), a = l.of(operation.operands[1]), b = l.of(operation.operands[2]);
    return lower_unlikely_select(l, condition, a, b, out);
  }
  if (hides(l, operation, count)) return lower_hiding_select(l, l.of(operation.operands[0]), l.of(operation.operands[1]), out);
  for (int i = 0; i < count; ++i) {
    Registers operands;
    for (ir::Value operand : operation.operands) operands.push_back(l.of(operand)[l.type(operand).rank == 0 ? 0 : i]);
    out[i] = lower_element(l, operation, operands);
    if (operation.attributes.integer(ir::AttributeName::position) != 0) note_position(l, out[i]);
  }
  if (to == ElementType::i1) keep_bits(l, operation);
}

}  // namespace flextile::backend
