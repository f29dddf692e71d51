// Atomics, one element each. Floats (and whatever the CPU has no instruction for) are a compare-and-exchange loop on the bits.
// Every scope is the whole system: programs of one launch run on different threads.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;

namespace {

llvm::AtomicOrdering ordering(const Operation& operation) {
  const std::string_view order = operation.attributes.string(AttributeName::order);
  if (order == "acquire") return llvm::AtomicOrdering::Acquire;
  if (order == "release") return llvm::AtomicOrdering::Release;
  if (order == "acq_rel") return llvm::AtomicOrdering::AcquireRelease;
  return llvm::AtomicOrdering::Monotonic;
}

llvm::AtomicOrdering on_failure(llvm::AtomicOrdering success) {
  const bool acquires = success == llvm::AtomicOrdering::Acquire || success == llvm::AtomicOrdering::AcquireRelease;
  return acquires ? llvm::AtomicOrdering::Acquire : llvm::AtomicOrdering::Monotonic;
}

class Atomic {
 public:
  Atomic(Lowering& l, const Operation& operation) : l_(l), operation_(operation), element_(l.type(operation.operands[0]).element) {
    bits_ = l.builder.getIntNTy(static_cast<unsigned>(byte_size(element_)) * 8);
  }

  llvm::Value* emit(llvm::Value* pointer, llvm::Value* value, llvm::Value* desired) {
    llvm::IRBuilder<>& b = l_.builder;
    if (operation_.opcode == Opcode::atomic_cas) {
      const llvm::AtomicOrdering order = ordering(operation_);
      llvm::Value* pair = b.CreateAtomicCmpXchg(pointer, to_bits(value), to_bits(desired), align(), order, on_failure(order));
      return from_bits(b.CreateExtractValue(pair, 0));
    }
    const std::string_view kind = operation_.attributes.string(AttributeName::kind);
    if (kind == "exchange") return from_bits(b.CreateAtomicRMW(llvm::AtomicRMWInst::Xchg, pointer, to_bits(value), align(), ordering(operation_)));
    if (!is_float(element_)) return from_bits(b.CreateAtomicRMW(integer_kind(kind), pointer, to_bits(value), align(), ordering(operation_)));
    return exchange_loop(kind, pointer, value);
  }

 private:
  llvm::Align align() const { return llvm::Align(static_cast<std::uint64_t>(byte_size(element_))); }
  llvm::Value* to_bits(llvm::Value* value) { return l_.builder.CreateBitCast(encode(l_, element_, value), bits_); }
  llvm::Value* from_bits(llvm::Value* bits) { return decode(l_, element_, l_.builder.CreateBitCast(bits, memory_type(l_, element_))); }

  llvm::AtomicRMWInst::BinOp integer_kind(std::string_view kind) const {
    using Kind = llvm::AtomicRMWInst;
    const bool with_sign = !is_unsigned(element_);
    if (kind == "add") return Kind::Add;
    if (kind == "max") return with_sign ? Kind::Max : Kind::UMax;
    if (kind == "min") return with_sign ? Kind::Min : Kind::UMin;
    if (kind == "and") return Kind::And;
    if (kind == "or") return Kind::Or;
    if (kind == "xor") return Kind::Xor;
    fail(l_, operation_, "unknown kind");
  }

  llvm::Value* exchange_loop(std::string_view kind, llvm::Value* pointer, llvm::Value* value) {
    llvm::IRBuilder<>& b = l_.builder;
    llvm::LoadInst* first = b.CreateAlignedLoad(bits_, pointer, align());
    first->setAtomic(llvm::AtomicOrdering::Monotonic);
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::BasicBlock* loop = llvm::BasicBlock::Create(l_.context, "exchange", l_.program);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(l_.context, "exchanged", l_.program);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* old = b.CreatePHI(bits_, 2);
    old->addIncoming(first, before);
    llvm::Value* number = from_bits(old);
    llvm::Value* next = nullptr;
    if (kind == "max") next = b.CreateMaxNum(number, value);
    else if (kind == "min") next = b.CreateMinNum(number, value);
    else if (kind == "add") next = round_to(l_, element_, b.CreateFAdd(number, value));
    else fail(l_, operation_, "this kind needs integers");
    const llvm::AtomicOrdering order = ordering(operation_);
    llvm::Value* pair = b.CreateAtomicCmpXchg(pointer, old, to_bits(next), align(), order, on_failure(order));
    old->addIncoming(b.CreateExtractValue(pair, 0), loop);
    b.CreateCondBr(b.CreateExtractValue(pair, 1), after, loop);
    b.SetInsertPoint(after);
    return from_bits(old);
  }

  Lowering& l_;
  const Operation& operation_;
  ElementType element_;
  llvm::Type* bits_;
};

}  // namespace

llvm::Value* emit_atomic(Lowering& l, const Operation& operation, llvm::Value* pointer, llvm::Value* value, llvm::Value* desired, llvm::Value* mask) {
  llvm::IRBuilder<>& b = l.builder;
  if (!mask) return Atomic(l, operation).emit(pointer, value, desired);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* live = llvm::BasicBlock::Create(l.context, "live", l.program);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(l.context, "after", l.program);
  b.CreateCondBr(mask, live, after);
  b.SetInsertPoint(live);
  llvm::Value* old = Atomic(l, operation).emit(pointer, value, desired);
  llvm::BasicBlock* end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(old->getType(), 2);
  result->addIncoming(old, end);
  result->addIncoming(llvm::Constant::getNullValue(old->getType()), before);
  return result;
}

}  // namespace flextile::backend::host
