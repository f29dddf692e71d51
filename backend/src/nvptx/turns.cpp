#include "nvptx/turns.hpp"

#include <algorithm>
#include <optional>

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using llvm::Value;

std::optional<std::int64_t> constant_of(const Lowering& l, ir::Value value) {
  const ir::Operation* operation = l.f.defining(value);
  if (!operation || operation->opcode != Opcode::constant || l.type(value).rank != 0 || is_float(l.type(value).element)) return std::nullopt;
  return operation->attributes.integer(AttributeName::value);
}

/// root + offset.
struct Shifted {
  ir::Value root;
  std::int64_t offset = 0;
};

Shifted without_constants(const Lowering& l, ir::Value value) {
  Shifted result{value};
  while (const ir::Operation* operation = l.f.defining(result.root)) {
    if (operation->opcode != Opcode::add && operation->opcode != Opcode::sub) break;
    const std::optional<std::int64_t> number = constant_of(l, operation->operands[1]);
    if (!number) break;
    result = {operation->operands[0], result.offset + (operation->opcode == Opcode::add ? *number : -*number)};
  }
  return result;
}

class Counting {
 public:
  Counting(Lowering& l, const OpenLoop& loop) : l_(l), loop_(loop), body_(loop.operation->blocks[0]), index_(l.f.block(body_).arguments[0]) {}

  /// In each iteration one more than in the last.
  bool by_one(ir::Value value) const {
    const std::optional<std::int64_t> step = constant_of(l_, loop_.operation->operands[2]);
    if (!step || *step < 1) return false;
    if (moves_with_index(value)) return *step == 1;
    const ir::Operation* operation = l_.f.defining(value);
    if (operation && operation->opcode == Opcode::add && is_fixed(operation->operands[1])) return by_one(operation->operands[0]);
    return operation && operation->opcode == Opcode::div && moves_with_index(operation->operands[0]) && constant_of(l_, operation->operands[1]) == step;
  }

  /// What `value` is in the first iteration, computed in front of the loop.
  Value* first(ir::Value value) const {
    if (value == index_) return l_.scalar(loop_.operation->operands[0]);
    if (const std::optional<std::int64_t> number = constant_of(l_, value)) return l_.b.getInt32(static_cast<int>(*number));
    if (l_.f.definition(value).block != body_) return l_.scalar(value);
    const ir::Operation* operation = l_.f.defining(value);
    Value *a = first(operation->operands[0]), *b = first(operation->operands[1]);
    switch (operation->opcode) {
      case Opcode::add: return l_.b.CreateAdd(a, b);
      case Opcode::sub: return l_.b.CreateSub(a, b);
      default: return l_.b.CreateUDiv(a, b);
    }
  }

 private:
  /// The index plus or minus what does not change in the loop.
  bool moves_with_index(ir::Value value) const {
    if (value == index_) return true;
    const ir::Operation* operation = l_.f.defining(value);
    if (!operation || l_.f.definition(value).block != body_ || (operation->opcode != Opcode::add && operation->opcode != Opcode::sub)) return false;
    return moves_with_index(operation->operands[0]) && is_fixed(operation->operands[1]);
  }
  /// Known in front of the loop.
  bool is_fixed(ir::Value value) const { return constant_of(l_, value).has_value() || l_.f.definition(value).block != body_; }

  Lowering& l_;
  const OpenLoop& loop_;
  ir::BlockId body_;
  ir::Value index_;
};

/// The counter for root + shift, where 0 <= shift < stages; null where no open loop counts root.
Counter* counter_of(Lowering& l, ir::Value root, int stages, std::int64_t shift) {
  for (OpenLoop& loop : l.loops) {
    if (l.f.definition(root).block != loop.operation->blocks[0]) continue;
    const Counting counting(l, loop);
    if (!counting.by_one(root)) return nullptr;
    for (Counter& counter : loop.counters) {
      if (counter.root == root && counter.stages == stages && counter.shift == shift) return &counter;
    }
    llvm::IRBuilder<>::InsertPointGuard guard(l.b);
    Counter counter{root, stages, shift};
    llvm::Value* count = l.b.getInt32(stages);
    l.b.SetInsertPoint(loop.before->getTerminator());
    Value* start = l.b.CreateAdd(counting.first(root), l.b.getInt32(static_cast<int>(shift)));
    Value* stage = l.b.CreateURem(start, count);
    Value* parity = l.b.CreateAnd(l.b.CreateUDiv(start, count), l.b.getInt32(1));
    l.b.SetInsertPoint(loop.body, loop.body->begin());
    counter.stage = l.b.CreatePHI(l.b.getInt32Ty(), 2);
    counter.parity = l.b.CreatePHI(l.b.getInt32Ty(), 2);
    counter.stage->addIncoming(stage, loop.before);
    counter.parity->addIncoming(parity, loop.before);
    counter.start = start;
    return &loop.counters.emplace_back(counter);
  }
  return nullptr;
}

/// A ring counts in it, and turns are never negative.
bool is_turn(const Lowering& l, const Shifted& number) {
  for (std::uint32_t i = 0; i < l.f.operation_count(); ++i) {
    const ir::Operation& operation = l.f.operation({i});
    if (operation.opcode != Opcode::ring_wait) continue;
    const Shifted turn = without_constants(l, operation.operands[1]);
    if (turn.root == number.root && turn.offset == number.offset) return true;
  }
  return false;
}

std::int64_t floored_remainder(std::int64_t value, std::int64_t divisor) { return (value % divisor + divisor) % divisor; }

}  // namespace

Slot slot_of(Lowering& l, ir::Value turn, int stages) {
  const Shifted shifted = without_constants(l, turn);
  const std::int64_t shift = floored_remainder(shifted.offset, stages);
  if (const Counter* counter = counter_of(l, shifted.root, stages, shift)) {
    const bool odd = (shifted.offset - shift) / stages % 2 != 0;
    return {counter->stage, odd ? l.b.CreateXor(counter->parity, l.b.getInt32(1)) : counter->parity};
  }
  Value* count = l.b.getInt32(stages);
  return {l.b.CreateURem(l.scalar(turn), count), l.b.CreateAnd(l.b.CreateUDiv(l.scalar(turn), count), l.b.getInt32(1))};
}

Value* counted_remainder(Lowering& l, const ir::Operation& operation) {
  if (operation.opcode != Opcode::rem || l.type(operation.results[0]).rank != 0 || l.type(operation.results[0]).element != ElementType::i32) return nullptr;
  const std::optional<std::int64_t> divisor = constant_of(l, operation.operands[1]);
  if (!divisor || *divisor < 2 || *divisor > 64) return nullptr;
  const Shifted shifted = without_constants(l, operation.operands[0]);
  const std::int64_t shift = floored_remainder(shifted.offset, *divisor);
  const Counter* counter = counter_of(l, shifted.root, static_cast<int>(*divisor), shift);
  if (!counter) return nullptr;
  if (is_turn(l, shifted)) return counter->stage;
  const auto* start = llvm::dyn_cast<llvm::ConstantInt>(counter->start);   // of root + shift; a negative number has another remainder
  return start && start->getSExtValue() - shift + shifted.offset >= 0 ? counter->stage : nullptr;
}

void open_loop(Lowering& l, const ir::Operation& loop, llvm::BasicBlock* before, llvm::BasicBlock* body) { l.loops.push_back({&loop, before, body, {}}); }

void close_loop(Lowering& l, llvm::BasicBlock* latch) {
  const OpenLoop loop = std::move(l.loops.back());
  l.loops.pop_back();
  llvm::IRBuilder<>::InsertPointGuard guard(l.b);
  l.b.SetInsertPoint(latch->getTerminator());
  for (const Counter& counter : loop.counters) {
    const auto ahead = std::find_if(loop.counters.begin(), loop.counters.end(), [&](const Counter& other) {
      return other.root == counter.root && other.stages == counter.stages && other.shift == counter.shift + 1;
    });
    if (ahead != loop.counters.end()) {   // it is already where this one comes to
      counter.stage->addIncoming(ahead->stage, latch);
      counter.parity->addIncoming(ahead->parity, latch);
      continue;
    }
    Value* next = l.b.CreateAdd(counter.stage, l.b.getInt32(1));
    Value* wraps = l.b.CreateICmpEQ(next, l.b.getInt32(counter.stages));
    counter.stage->addIncoming(l.b.CreateSelect(wraps, l.b.getInt32(0), next), latch);
    counter.parity->addIncoming(l.b.CreateXor(counter.parity, l.b.CreateZExt(wraps, l.b.getInt32Ty())), latch);
  }
}

}  // namespace flextile::backend
