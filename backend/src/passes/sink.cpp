#include "passes/sink.hpp"

#include <algorithm>
#include <unordered_map>

#include <flextile/ir/rewriter.hpp>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed stay where they are

namespace flextile::backend {
namespace {

using ir::BlockId;
using ir::Opcode;
using ir::OperationId;
using ir::Value;

/// Where each operation goes. Operations are looked at from the last one on, so that what uses them has its place already.
class Descent {
 public:
  explicit Descent(const ir::Function& function)
      : function_(function), owners_(function.block_count()), parents_(function.block_count()), uses_(function.value_count()), sunk_(function.operation_count()) {
    visit(function.body());
  }

  bool is_sunk(OperationId id) const { return sunk_[id.index]; }

  /// What is now computed at the start of the block whose first operation this is, in order.
  const std::vector<OperationId>& arrivals_before(OperationId first) const {
    static const std::vector<OperationId> nothing;
    const auto found = arrivals_.find(first.index);
    return found == arrivals_.end() ? nothing : found->second;
  }

 private:
  void visit(BlockId block) {
    const std::vector<OperationId>& operations = function_.block(block).operations;
    for (auto id = operations.rbegin(); id != operations.rend(); ++id) {
      const ir::Operation& operation = function_.operation(*id);
      for (BlockId inner : operation.blocks) {
        owners_[inner.index] = *id;
        parents_[inner.index] = block;
        visit(inner);
      }
      std::vector<BlockId> places{block};
      if (may_sink(operation)) {
        if (const std::vector<BlockId> branches = branches_below(block, uses_[operation.results[0].index]); !branches.empty()) {
          places = branches;
          sunk_[id->index] = true;
          for (BlockId branch : branches) {
            auto& arrivals = arrivals_[function_.block(branch).operations.front().index];
            arrivals.insert(arrivals.begin(), *id);
          }
        }
      }
      for (Value operand : operation.operands) {
        auto& uses = uses_[operand.index];
        uses.insert(uses.end(), places.begin(), places.end());
      }
    }
  }

  static bool may_sink(const ir::Operation& operation) {
    if (operation.results.size() != 1 || operation.operands.empty() || !operation.blocks.empty()) return false;
    switch (operation.opcode) {
      case Opcode::broadcast:
      case Opcode::expand_dims:
      case Opcode::reshape:
      case Opcode::transpose: return true;
      default: return ir::has(operation.opcode, ir::elementwise) && ir::has(operation.opcode, ir::pure);
    }
  }

  /// The blocks with uses, if branches alone lie between them and `block`; of blocks that contain each other the outer one. None
  /// where every path of a branch needs the value: nothing would be saved.
  std::vector<BlockId> branches_below(BlockId block, const std::vector<BlockId>& uses) const {
    std::vector<BlockId> result;
    for (BlockId use : uses) {
      for (BlockId at = use; at != block; at = parents_[at.index]) {
        if (!owners_[at.index] || function_.operation(owners_[at.index]).opcode != Opcode::if_) return {};
      }
      if (use == block) return {};
      if (std::find(result.begin(), result.end(), use) == result.end()) result.push_back(use);
    }
    std::erase_if(result, [&](BlockId inner) {
      for (BlockId at = inner; at != block;) {
        at = parents_[at.index];
        if (std::find(uses.begin(), uses.end(), at) != uses.end()) return true;
      }
      return false;
    });
    for (BlockId branch : result) {
      const std::vector<BlockId>& sides = function_.operation(owners_[branch.index]).blocks;
      if (std::all_of(sides.begin(), sides.end(), [&](BlockId side) { return std::find(result.begin(), result.end(), side) != result.end(); })) return {};
    }
    return result;
  }

  const ir::Function& function_;
  std::vector<OperationId> owners_;                                          // of each block: the operation that has it
  std::vector<BlockId> parents_;                                             // of each block: the block that holds its owner
  std::vector<std::vector<BlockId>> uses_;                                   // of each value: the blocks where it is needed after the pass
  std::vector<bool> sunk_;
  std::unordered_map<std::uint32_t, std::vector<OperationId>> arrivals_;     // by a block's first operation
};

}  // namespace

ir::Function sink(const ir::Function& function, const Target&) {
  const Descent descent(function);
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    for (OperationId arrival : descent.arrivals_before(id)) rewriter.copy(arrival);
    return descent.is_sunk(id);
  });
  return rewriter.take();
}

}  // namespace flextile::backend
