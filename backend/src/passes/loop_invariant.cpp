#include "passes/loop_invariant.hpp"

#include <algorithm>
#include <unordered_map>

#include <flextile/ir/rewriter.hpp>

#include "effects.hpp"
#include "passes/fold.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed stay where they are

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::OperationId;
using ir::Value;

/// Finds the outermost loop that each operation can leave, and the block where it then stands.
///
/// An operation leaves a loop where its operands are computed outside and nothing is lost when the loop never runs:
/// pure operations, and loads from views (which check their bounds) when the loop writes nothing. It stays inside
/// branches, but see leaves_branches(). A result that many registers hold for the whole loop is dearer than its
/// recomputation: only matmuls, reductions and loads move whatever their size. Constants and shape operations cost
/// nothing where they stand: they move only with what uses them.
class Motion {
 public:
  Motion(const ir::Function& function, const Target& target)
      : function_(function),
        gpu_(target.is_gpu()),
        largest_(target.is_gpu() ? std::int64_t{8} * 32 * function.num_warps : std::int64_t{4096}),
        owners_(function.block_count()),
        parents_(function.block_count()),
        homes_(function.value_count()) {
    for (const Value parameter : function.block(function.body()).arguments) homes_[parameter.index] = function.body();
    visit(function.body());
  }

  /// Operations that stand directly before the loop, in order.
  const std::vector<OperationId>& moved_before(OperationId loop) const {
    static const std::vector<OperationId> nothing;
    const auto found = moved_.find(loop.index);
    return found == moved_.end() ? nothing : found->second;
  }

 private:
  void visit(ir::BlockId block) {
    for (const OperationId id : function_.block(block).operations) {
      const ir::Operation& operation = function_.operation(id);
      place(id, operation, block);
      for (const ir::BlockId inner : operation.blocks) {
        owners_[inner.index] = id;
        parents_[inner.index] = block;
        for (const Value argument : function_.block(inner).arguments) homes_[argument.index] = inner;
        visit(inner);
      }
    }
  }

  void place(OperationId id, const ir::Operation& operation, ir::BlockId block) {
    ir::BlockId home = block;
    OperationId left_loop;
    if (can_move(operation)) {
      for (ir::BlockId at = block; const OperationId owner = owners_[at.index]; at = parents_[at.index]) {
        if (uses_value_of(operation, at)) break;
        const Opcode opcode = function_.operation(owner).opcode;
        if (opcode == Opcode::for_ || opcode == Opcode::while_) {
          if (ir::has(operation.opcode, ir::reads) && changes_memory(function_, function_.operation(owner))) break;
          left_loop = owner;
          home = parents_[at.index];
        } else if (opcode != Opcode::if_ || !leaves_branches(operation)) {
          break;
        }
      }
    }
    for (const Value result : operation.results) homes_[result.index] = home;
    if (!left_loop) return;
    if (is_free(operation)) {
      free_.emplace(id.index, left_loop);
    } else {
      move(id, left_loop);
    }
  }

  /// Appends the operation to its loop's list, and before it the free operations that it needs, transitively.
  void move(OperationId id, OperationId loop) {
    for (const Value operand : function_.operation(id).operands) {
      const OperationId defining = function_.definition(operand).operation;
      const auto free = defining ? free_.find(defining.index) : free_.end();
      if (free == free_.end()) continue;
      const OperationId its_loop = free->second;
      free_.erase(free);
      move(defining, its_loop);
    }
    moved_[loop.index].push_back(id);
  }

  bool can_move(const ir::Operation& operation) const {
    if (!operation.blocks.empty() || operation.results.size() != 1) return false;
    const std::int64_t size = function_.type(operation.results[0]).elements();
    switch (operation.opcode) {
      case Opcode::dot:
      case Opcode::reduce:
      case Opcode::view_load: return true;
      case Opcode::gather: return leaves_branches(operation);
      case Opcode::div:
      case Opcode::rem: return size <= largest_ && divides_safely(operation);
      default: return ir::has(operation.opcode, ir::pure) && (size <= largest_ || is_free(operation));
    }
  }

  /// What a mod reads and computes for rows alone stands in the branch of the tiles that need a mask, and is the same in
  /// every step of the loop. On a GPU, where such a tile is a few registers and a gather guards its own bounds, it leaves
  /// the branch with the loop. The host's checked mode reports indices that a branch may have excluded: there it stays.
  bool leaves_branches(const ir::Operation& operation) const {
    if (!gpu_) return false;
    if (is_free(operation)) return true;
    if (operation.opcode != Opcode::gather && !ir::has(operation.opcode, ir::elementwise)) return false;
    return function_.type(operation.results[0]).elements() <= branch_limit;
  }

  /// Division of integers is undefined for a zero that the loop's bounds may exclude.
  bool divides_safely(const ir::Operation& operation) const {
    if (is_float(function_.type(operation.results[0]).element)) return true;
    Element divisor;
    return constant_element(function_, operation.operands[1], divisor) && divisor.integer != 0 && divisor.integer != -1;
  }

  static bool is_free(const ir::Operation& operation) {
    switch (operation.opcode) {
      case Opcode::constant:
      case Opcode::arange:
      case Opcode::broadcast:
      case Opcode::expand_dims:
      case Opcode::reshape:
      case Opcode::transpose: return true;
      default: return false;
    }
  }

  bool uses_value_of(const ir::Operation& operation, ir::BlockId block) const {
    return std::any_of(operation.operands.begin(), operation.operands.end(), [&](Value operand) { return homes_[operand.index] == block; });
  }

  static constexpr std::int64_t branch_limit = 256;         // elements of a result that leaves a branch

  const ir::Function& function_;
  bool gpu_;
  std::int64_t largest_;                                    // elements of an element-wise result that may move
  std::vector<OperationId> owners_;                         // of each block: the operation that has it
  std::vector<ir::BlockId> parents_;                        // of each block: the block that holds its owner
  std::vector<ir::BlockId> homes_;                          // of each value: the block where it is computed after the pass
  std::unordered_map<std::uint32_t, OperationId> free_;     // free operations that could move, and before which loop
  std::unordered_map<std::uint32_t, std::vector<OperationId>> moved_;
};

}  // namespace

ir::Function loop_invariant(const ir::Function& function, const Target& target) {
  const Motion motion(function, target);
  std::vector<bool> done(function.operation_count());
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    if (done[id.index]) return true;
    for (const OperationId moved : motion.moved_before(id)) {
      rewriter.copy(moved);
      done[moved.index] = true;
    }
    return false;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
