#include "passes/dead_code.hpp"

#include "passes/trim.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // only what carries values differs

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::OperationId;
using ir::Value;

/// What is needed: memory effects, synchronisation and the returned values, and from there everything they depend on.
/// A carried value is needed where its result or its block argument is.
class Liveness {
 public:
  explicit Liveness(const ir::Function& function)
      : function_(function),
        live_operations_(function.operation_count()),
        live_values_(function.value_count()),
        owners_(function.block_count()),
        homes_(function.operation_count()) {
    visit(function.body());
    for (const OperationId id : effects_) mark(id);
    while (!pending_.empty()) {
      const Value value = pending_.back();
      pending_.pop_back();
      reach(value);
    }
  }

  bool is_live(OperationId id) const { return live_operations_[id.index]; }
  bool is_live(Value value) const { return live_values_[value.index]; }
  /// One flag per result of a for, while or if.
  std::vector<bool> kept(const ir::Operation& operation) const {
    std::vector<bool> flags;
    for (Value result : operation.results) flags.push_back(is_live(result));
    return flags;
  }

 private:
  void visit(ir::BlockId block) {
    for (const OperationId id : function_.block(block).operations) {
      const ir::Operation& operation = function_.operation(id);
      homes_[id.index] = block;
      for (const ir::BlockId inner : operation.blocks) {
        owners_[inner.index] = id;
        visit(inner);
      }
      if (ir::has(operation.opcode, ir::writes) || ir::has(operation.opcode, ir::sync) || operation.opcode == Opcode::roles) effects_.push_back(id);
      if (operation.opcode == Opcode::return_) mark_all(operation.operands);
    }
  }

  void mark(Value value) {
    if (live_values_[value.index]) return;
    live_values_[value.index] = true;
    pending_.push_back(value);
  }
  void mark_all(const std::vector<Value>& values) {
    for (Value value : values) mark(value);
  }

  /// An operation is needed, and with it what holds its block and what steers it.
  void mark(OperationId id) {
    if (live_operations_[id.index]) return;
    live_operations_[id.index] = true;
    const ir::Operation& operation = function_.operation(id);
    switch (operation.opcode) {
      case Opcode::for_:
        for (int i = 0; i < 3; ++i) mark(operation.operands[i]);
        break;
      case Opcode::if_: mark(operation.operands[0]); break;
      case Opcode::while_: mark(terminator(operation.blocks[0]).operands[0]); break;
      default:
        mark_all(operation.operands);
        for (const ir::BlockId inner : operation.blocks) mark_all(terminator(inner).operands);
    }
    if (const OperationId owner = owners_[homes_[id.index].index]) mark(owner);
  }

  void reach(Value value) {
    const ir::Definition& definition = function_.definition(value);
    if (definition.operation) {
      mark(definition.operation);
      carry(definition.operation, definition.position);
    } else if (const OperationId owner = owners_[definition.block.index]) {
      mark(owner);
      const bool loop = function_.operation(owner).opcode == Opcode::for_;
      if (!loop || definition.position > 0) carry(owner, definition.position - (loop ? 1 : 0));
    }
  }

  /// Carried value i of a loop or branch is needed: all its places are.
  void carry(OperationId id, std::size_t i) {
    const ir::Operation& operation = function_.operation(id);
    if (operation.opcode != Opcode::for_ && operation.opcode != Opcode::while_ && operation.opcode != Opcode::if_) return;
    mark(operation.results[i]);
    if (operation.opcode == Opcode::for_) mark(operation.operands[3 + i]);
    if (operation.opcode == Opcode::while_) mark(operation.operands[i]);
    for (const ir::BlockId block : operation.blocks) {
      const ir::Operation& last = terminator(block);
      mark(last.operands[i + (last.opcode == Opcode::condition ? 1 : 0)]);
    }
  }

  const ir::Operation& terminator(ir::BlockId block) const { return function_.operation(function_.block(block).operations.back()); }

  const ir::Function& function_;
  std::vector<bool> live_operations_;
  std::vector<bool> live_values_;
  std::vector<OperationId> owners_;       // of each block: the operation that has it
  std::vector<ir::BlockId> homes_;        // of each operation: the block that it stands in
  std::vector<OperationId> effects_;      // needed whatever uses them
  std::vector<Value> pending_;
};

bool carries(Opcode opcode) { return opcode == Opcode::for_ || opcode == Opcode::while_ || opcode == Opcode::if_; }

}  // namespace

ir::Function dead_code(const ir::Function& function, const Target&) {
  const Liveness liveness(function);
  ir::Rewriter rewriter(function);
  Trimmer trimmer(rewriter);
  rewriter.run([&](OperationId id) {
    const ir::Operation& operation = function.operation(id);
    if (trimmer.terminator(id)) return true;
    if (ir::has(operation.opcode, ir::terminator)) return false;
    if (!liveness.is_live(id)) return true;
    if (!carries(operation.opcode)) return false;
    trimmer.copy(id, liveness.kept(operation), {});
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
