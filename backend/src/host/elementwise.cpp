// Element-wise operations on scalars and vectors. Floats of 8 and 16 bits are held in f32 and rounded to their type at the end.
#include <cmath>

#include "host/lowering.hpp"
#include "llvm/float8.hpp"

namespace flextile::backend::host {

using ir::Opcode;
using ir::Operation;

namespace {

llvm::Type* like(llvm::Type* element, const llvm::Value* shape) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape->getType());
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

llvm::Value* unary_intrinsic(Lowering& l, llvm::Intrinsic::ID id, llvm::Value* x) { return l.builder.CreateUnaryIntrinsic(id, x); }

/// Division by zero (0 is the result) and of the lowest number by -1 do not stop the program: the divisor 1 takes their place.
llvm::Value* safe_divisor(Lowering& l, llvm::Value* a, llvm::Value* divisor, bool is_signed) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Value* bad = b.CreateICmpEQ(divisor, llvm::Constant::getNullValue(divisor->getType()));
  if (is_signed) {
    const unsigned bits = divisor->getType()->getScalarSizeInBits();
    llvm::Value* lowest = llvm::ConstantInt::get(divisor->getType(), llvm::APInt::getSignedMinValue(bits));
    llvm::Value* wraps = b.CreateAnd(b.CreateICmpEQ(a, lowest), b.CreateICmpEQ(divisor, llvm::Constant::getAllOnesValue(divisor->getType())));
    bad = b.CreateOr(bad, wraps);
  }
  return b.CreateSelect(bad, llvm::ConstantInt::get(divisor->getType(), 1), divisor);
}

/// Counts from the width on shift everything out.
llvm::Value* emit_shift(Lowering& l, Opcode opcode, llvm::Value* x, llvm::Value* count, bool is_signed) {
  llvm::IRBuilder<>& b = l.builder;
  const unsigned bits = x->getType()->getScalarSizeInBits();
  llvm::Value* width = llvm::ConstantInt::get(count->getType(), bits);
  llvm::Value* small = b.CreateICmpULT(count, width);
  llvm::Value* most = llvm::ConstantInt::get(count->getType(), bits - 1);
  llvm::Value* clamped = b.CreateSelect(small, count, most);
  if (opcode == Opcode::shr && is_signed) return b.CreateAShr(x, clamped);
  llvm::Value* shifted = opcode == Opcode::shl ? b.CreateShl(x, clamped) : b.CreateLShr(x, clamped);
  return b.CreateSelect(small, shifted, llvm::Constant::getNullValue(x->getType()));
}

llvm::Value* emit_comparison(Lowering& l, Opcode opcode, llvm::Value* x, llvm::Value* y, const ir::Type& type) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    Opcode opcode;
    P floating, with_sign, without_sign;
  };
  static constexpr Row rows[] = {
      {Opcode::eq, P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {Opcode::ne, P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {Opcode::lt, P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {Opcode::le, P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {Opcode::gt, P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {Opcode::ge, P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row& row : rows) {
    if (row.opcode != opcode) continue;
    if (type.is_number() && is_float(type.element)) return l.builder.CreateFCmp(row.floating, x, y);
    return l.builder.CreateICmp(type.is_pointer() || is_unsigned(type.element) ? row.without_sign : row.with_sign, x, y);
  }
  return nullptr;
}

llvm::Value* emit_cast(Lowering& l, llvm::Value* x, ElementType from, const ir::Type& to) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Type* type = like(compute_type(l, to), x);
  if (is_float(from) && is_float(to.element)) return b.CreateFPCast(x, type);
  if (to.element == ElementType::i1) {
    llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
    return is_float(from) ? b.CreateFCmpUNE(x, zero) : b.CreateICmpNE(x, zero);
  }
  if (is_float(from)) {
    const auto id = is_unsigned(to.element) ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return b.CreateIntrinsic(id, {type, x->getType()}, {x});
  }
  if (is_float(to.element)) return is_unsigned(from) ? b.CreateUIToFP(x, type) : b.CreateSIToFP(x, type);
  return is_unsigned(from) ? b.CreateZExtOrTrunc(x, type) : b.CreateSExtOrTrunc(x, type);
}

llvm::Value* emit_bitcast(Lowering& l, llvm::Value* x, const ir::Type& from, const ir::Type& to) {
  if (from.is_pointer() || to.is_pointer()) return x;
  llvm::Value* bits = l.builder.CreateBitCast(encode(l, from.element, x), like(memory_type(l, to.element), x));
  return decode(l, to.element, bits);
}

llvm::Value* emit_integer(Lowering& l, Opcode opcode, llvm::Value* x, llvm::Value* y, const ir::Type& type) {
  llvm::IRBuilder<>& b = l.builder;
  const bool with_sign = !is_unsigned(type.element);
  if (opcode == Opcode::add) return b.CreateAdd(x, y);
  if (opcode == Opcode::sub) return b.CreateSub(x, y);
  if (opcode == Opcode::mul) return b.CreateMul(x, y);
  if (opcode == Opcode::div) {
    llvm::Value* divisor = safe_divisor(l, x, y, with_sign);
    llvm::Value* zero = llvm::Constant::getNullValue(y->getType());
    return b.CreateSelect(b.CreateICmpEQ(y, zero), zero, with_sign ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor));
  }
  if (opcode == Opcode::rem) return with_sign ? b.CreateSRem(x, safe_divisor(l, x, y, true)) : b.CreateURem(x, safe_divisor(l, x, y, false));
  if (opcode == Opcode::min) return b.CreateBinaryIntrinsic(with_sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
  if (opcode == Opcode::max) return b.CreateBinaryIntrinsic(with_sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
  if (opcode == Opcode::bit_and) return b.CreateAnd(x, y);
  if (opcode == Opcode::bit_or) return b.CreateOr(x, y);
  if (opcode == Opcode::bit_xor) return b.CreateXor(x, y);
  if (opcode == Opcode::shl || opcode == Opcode::shr) return emit_shift(l, opcode, x, y, with_sign);
  if (opcode == Opcode::neg) return b.CreateNeg(x);
  if (opcode == Opcode::bit_not) return b.CreateNot(x);
  if (opcode == Opcode::unlikely) return x;
  if (opcode == Opcode::abs) return with_sign ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
  return nullptr;
}

llvm::Value* emit_floating(Lowering& l, Opcode opcode, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilder<>& b = l.builder;
  if (opcode == Opcode::add) return b.CreateFAdd(x, y);
  if (opcode == Opcode::sub) return b.CreateFSub(x, y);
  if (opcode == Opcode::mul) return b.CreateFMul(x, y);
  if (opcode == Opcode::div) return b.CreateFDiv(x, y);
  if (opcode == Opcode::rem) return b.CreateFRem(x, y);
  if (opcode == Opcode::min) return b.CreateMinNum(x, y);
  if (opcode == Opcode::max) return b.CreateMaxNum(x, y);
  if (opcode == Opcode::pow) return b.CreateBinaryIntrinsic(llvm::Intrinsic::pow, x, y);
  if (opcode == Opcode::neg) return b.CreateFNeg(x);
  if (opcode == Opcode::abs) return unary_intrinsic(l, llvm::Intrinsic::fabs, x);
  if (opcode == Opcode::ceil) return unary_intrinsic(l, llvm::Intrinsic::ceil, x);
  if (opcode == Opcode::floor) return unary_intrinsic(l, llvm::Intrinsic::floor, x);
  if (opcode == Opcode::round) return unary_intrinsic(l, llvm::Intrinsic::roundeven, x);
  if (opcode == Opcode::trunc) return unary_intrinsic(l, llvm::Intrinsic::trunc, x);
  if (opcode == Opcode::sqrt) return unary_intrinsic(l, llvm::Intrinsic::sqrt, x);
  if (opcode == Opcode::rsqrt) return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), unary_intrinsic(l, llvm::Intrinsic::sqrt, x));
  return emit_math(l, opcode, x);
}

bool keeps_rounding(Opcode opcode) {
  return opcode == Opcode::neg || opcode == Opcode::abs || opcode == Opcode::min || opcode == Opcode::max || opcode == Opcode::select ||
         opcode == Opcode::bitcast || opcode == Opcode::floor || opcode == Opcode::trunc || opcode == Opcode::bit_and;
}

}  // namespace

llvm::Value* round_to(Lowering& l, ElementType element, llvm::Value* value) {
  llvm::IRBuilder<>& b = l.builder;
  if (element == ElementType::f16) return b.CreateFPExt(b.CreateFPTrunc(value, like(b.getHalfTy(), value)), value->getType());
  if (is_float8(element)) return round_to_float8(b, element, value);
  if (element != ElementType::bf16) return value;
  llvm::Type* bits_type = like(b.getInt32Ty(), value);
  llvm::Value* bits = b.CreateBitCast(value, bits_type);
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), llvm::ConstantInt::get(bits_type, 1));
  llvm::Value* rounded = b.CreateAdd(bits, b.CreateAdd(odd, llvm::ConstantInt::get(bits_type, 0x7fff)));
  llvm::Value* quiet = b.CreateOr(bits, llvm::ConstantInt::get(bits_type, 0x400000));
  llvm::Value* chosen = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  return b.CreateBitCast(b.CreateAnd(chosen, llvm::ConstantInt::get(bits_type, 0xffff0000u)), value->getType());
}

llvm::Value* emit_elementwise(Lowering& l, const Operation& operation, const std::vector<llvm::Value*>& operands, const ir::Type& operand_type,
                              const ir::Type& result) {
  llvm::IRBuilder<>& b = l.builder;
  const Opcode opcode = operation.opcode;
  llvm::Value* x = operands[0];
  llvm::Value* y = operands.size() > 1 ? operands[1] : nullptr;
  if (ir::is_comparison(opcode)) return emit_comparison(l, opcode, x, y, operand_type);
  if (opcode == Opcode::select) return b.CreateSelect(x, y, operands[2]);
  if (opcode == Opcode::bitcast) return emit_bitcast(l, x, l.type(operation.operands[0]), result);
  llvm::Value* value = nullptr;
  if (opcode == Opcode::cast) {
    value = emit_cast(l, x, operand_type.element, result);
  } else if (opcode == Opcode::fma) {
    value = is_float(result.element) ? b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, operands[2]}) : b.CreateAdd(b.CreateMul(x, y), operands[2]);
  } else {
    value = is_float(result.element) ? emit_floating(l, opcode, x, y) : emit_integer(l, opcode, x, y, result);
  }
  if (!value) fail(l, operation, "no element-wise operation on this element type");
  return keeps_rounding(opcode) ? value : round_to(l, result.element, value);
}

}  // namespace flextile::backend::host
