#include "nvptx/lowering.hpp"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

namespace flextile::backend {
namespace {

/// Sum over digits of (index / place % size) * stride on `axis`.
llvm::Value* decode(llvm::IRBuilder<>& b, const std::vector<Digit>& digits, llvm::Value* index, int axis) {
  llvm::Value* sum = nullptr;
  int place = 1;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const Digit& digit = digits[i];
    if (digit.axis == axis && digit.size > 1) {
      llvm::Value* value = place == 1 ? index : b.CreateUDiv(index, b.getInt32(place));
      if (i + 1 < digits.size()) value = b.CreateURem(value, b.getInt32(digit.size));
      if (digit.stride != 1) value = b.CreateMul(value, b.getInt32(digit.stride), "", true, true);
      sum = sum ? b.CreateAdd(sum, value, "", true, true) : value;
    }
    place *= digit.size;
  }
  return sum;
}

}  // namespace

void known_here(Lowering& l, const std::vector<ir::Value>& values) {
  llvm::BasicBlock* block = l.b.GetInsertBlock();
  const Place here{block, block->empty() ? nullptr : &block->back(), ++l.place_count};
  for (ir::Value value : values) l.places[value.index] = here;
}

HoistedTo::HoistedTo(Lowering& l, const std::vector<ir::Value>& values) : guard_(l.b) {
  Place latest{l.prologue, nullptr, 0};
  for (ir::Value value : values) {
    if (l.places[value.index].number > latest.number) latest = l.places[value.index];
  }
  if (latest.number == 0) l.b.SetInsertPoint(l.prologue);
  else if (!latest.last || llvm::isa<llvm::PHINode>(latest.last)) l.b.SetInsertPoint(latest.block, latest.block->getFirstInsertionPt());
  else l.b.SetInsertPoint(latest.block, std::next(latest.last->getIterator()));
}

llvm::Type* element_type(Lowering& l, ElementType element) {
  switch (element) {
    case ElementType::i1: return l.b.getInt1Ty();
    case ElementType::f16: return l.b.getHalfTy();
    case ElementType::bf16: return l.b.getBFloatTy();
    case ElementType::f32: return l.b.getFloatTy();
    case ElementType::f64: return l.b.getDoubleTy();
    case ElementType::f8e4m3:
    case ElementType::f8e5m2:   // their bits
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64: return l.b.getIntNTy(bit_width(element));
  }
  return nullptr;
}

llvm::Constant* float_constant(Lowering& l, ElementType element, double value) {
  llvm::Type* type = element_type(l, element);
  if (element == ElementType::f8e4m3) return llvm::ConstantInt::get(type, f8e4m3(static_cast<float>(value)).bits);
  if (element == ElementType::f8e5m2) return llvm::ConstantInt::get(type, f8e5m2(static_cast<float>(value)).bits);
  return llvm::ConstantFP::get(type, value);
}

llvm::Type* register_type(Lowering& l, const ir::Type& type) {
  return type.is_pointer() ? llvm::PointerType::get(l.b.getContext(), 1) : element_type(l, type.element);
}

const Layout& layout_of(Lowering& l, ir::Value value) {
  static const Layout scalar;
  if (l.type(value).rank == 0) return scalar;
  const int index = l.f.layout_of(value);
  if (index < 0) throw InternalError("flextile: internal error after pass choose_layouts: value %" + std::to_string(value.index) + " has no layout");
  return l.f.layouts[index];
}

llvm::Value* thread_offset(Lowering& l, const Layout& layout, int axis) {
  const bool listed = !l.f.layouts.empty() && &layout >= l.f.layouts.data() && &layout < l.f.layouts.data() + l.f.layouts.size();
  llvm::Value* found = nullptr;
  llvm::Value*& result = listed ? l.thread_offsets[{static_cast<int>(&layout - l.f.layouts.data()), axis}] : found;
  if (result) return result;
  llvm::IRBuilder<> b(l.prologue);
  llvm::Value* lanes = decode(b, layout.lanes, l.lane, axis);
  llvm::Value* warps = decode(b, layout.warps, l.warp, axis);
  if (lanes && warps) result = b.CreateAdd(lanes, warps, "", true, true);
  else result = lanes ? lanes : warps ? warps : b.getInt32(0);
  return result;
}

llvm::Value* coordinate(Lowering& l, const Layout& layout, int rank, int register_index, int axis) {
  const int fixed = digit_offset(layout.registers, register_index, rank)[axis];
  return l.b.CreateAdd(thread_offset(l, layout, axis), l.b.getInt32(fixed), "", true, true);
}

llvm::Value* owner(Lowering& l, const Layout& layout) {
  llvm::Value* result = nullptr;
  auto require_zero = [&](const std::vector<Digit>& digits, llvm::Value* index) {
    int place = 1;
    for (const Digit& digit : digits) {
      if (digit.axis < 0 && digit.size > 1) {
        llvm::Value* value = l.b.CreateURem(l.b.CreateUDiv(index, l.b.getInt32(place)), l.b.getInt32(digit.size));
        llvm::Value* zero = l.b.CreateICmpEQ(value, l.b.getInt32(0));
        result = result ? l.b.CreateAnd(result, zero) : zero;
      }
      place *= digit.size;
    }
  };
  require_zero(layout.lanes, l.lane);
  require_zero(layout.warps, l.warp);
  return result;
}

llvm::Value* call(Lowering& l, llvm::Intrinsic::ID id, const Registers& arguments, const std::vector<llvm::Type*>& overloads) {
  return l.b.CreateIntrinsic(id, overloads, arguments);
}

llvm::Value* assembly(Lowering& l, llvm::Type* result, const std::string& text, const std::string& constraints, const Registers& arguments, bool memory) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  auto* function = llvm::FunctionType::get(result, types, false);
  auto* code = llvm::InlineAsm::get(function, text, memory ? constraints + (constraints.empty() ? "~{memory}" : ",~{memory}") : constraints, memory);
  llvm::CallInst* instruction = l.b.CreateCall(function, code, arguments);
  instruction->setConvergent();
  instruction->setDoesNotThrow();
  return instruction;
}

llvm::Value* pure_assembly(Lowering& l, llvm::Type* result, const std::string& text, const std::string& constraints, const Registers& arguments) {
  auto* instruction = llvm::cast<llvm::CallInst>(assembly(l, result, text, constraints, arguments, false));
  instruction->setNotConvergent();
  instruction->setDoesNotAccessMemory();
  return instruction;
}

void barrier(Lowering& l) {
  // Each thread's own writes, and copies that have landed, before anybody's wgmma.
  if (l.async_proxy) assembly(l, l.b.getVoidTy(), "fence.proxy.async.shared::cta;", "", {}, true);
  if (l.launched_warps == l.f.num_warps) return barrier_of_all(l);
  constexpr const char* number = "15";   // the lowest ones are for turns
  assembly(l, l.b.getVoidTy(), std::string("bar.sync ") + number + ", " + std::to_string(lanes_per_warp * l.f.num_warps) + ";", "", {}, true);
}

void barrier_of_all(Lowering& l) { call(l, llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {l.b.getInt32(0)}); }

namespace {

/// A value of any width, through what shuffles one word of 32 bits.
template <class Shuffle> llvm::Value* by_words(Lowering& l, llvm::Value* value, Shuffle one) {
  llvm::Type* type = value->getType();
  llvm::Type* i32 = l.b.getInt32Ty();
  const unsigned bits = type->getPrimitiveSizeInBits();
  if (bits == 64) {
    llvm::Value* pair = l.b.CreateBitCast(value, llvm::FixedVectorType::get(i32, 2));
    for (std::uint64_t i : {0, 1}) pair = l.b.CreateInsertElement(pair, one(l.b.CreateExtractElement(pair, i)), i);
    return l.b.CreateBitCast(pair, type);
  }
  if (bits == 32) return l.b.CreateBitCast(one(l.b.CreateBitCast(value, i32)), type);
  llvm::Type* narrow = l.b.getIntNTy(bits);
  llvm::Value* word = l.b.CreateZExt(l.b.CreateBitCast(value, narrow), i32);
  return l.b.CreateBitCast(l.b.CreateTrunc(one(word), narrow), type);
}

}  // namespace

llvm::Value* shuffle_xor(Lowering& l, llvm::Value* value, int mask) {
  return by_words(l, value, [&](llvm::Value* word) {
    return call(l, llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {l.b.getInt32(-1), word, l.b.getInt32(mask), l.b.getInt32(31)});
  });
}

llvm::Value* shuffle_from(Lowering& l, llvm::Value* value, int lane, int kept) {
  return by_words(l, value, [&](llvm::Value* word) {   // the last operand: bits of a lane's number that stay, and the largest number
    return call(l, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {l.b.getInt32(-1), word, l.b.getInt32(lane), l.b.getInt32(kept << 8 | 31)});
  });
}

llvm::Value* shared_address(Lowering& l, std::int64_t offset, llvm::Value* bytes) {
  llvm::Value* address = l.shared;
  if (bytes) address = l.b.CreateGEP(l.b.getInt8Ty(), address, bytes);
  return offset == 0 ? address : l.b.CreateGEP(l.b.getInt8Ty(), address, l.b.getInt32(static_cast<int>(offset)));
}

llvm::Value* to_memory(Lowering& l, llvm::Value* value) {
  return value->getType()->isIntegerTy(1) ? l.b.CreateZExt(value, l.b.getInt8Ty()) : value;
}

llvm::Value* from_memory(Lowering& l, llvm::Value* value, ElementType element) {
  return element == ElementType::i1 ? l.b.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0)) : value;
}

}  // namespace flextile::backend
