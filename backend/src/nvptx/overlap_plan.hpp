// Which loops have two products of which the second can run an iteration late, and what of an iteration goes where.
// overlap_products.cpp makes it so.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "nvptx/product_loops.hpp"

namespace flextile::backend {

class OverlapPlan : protected ProductLoops {
 protected:
  explicit OverlapPlan(Function& function) : ProductLoops(function) {}

  /// False where the loop stays as it is.
  bool plan(OperationId loop_id);

  bool is_release(OperationId id) const { return f_.operation(id).opcode == Opcode::ring_release; }
  /// Of its own iteration: not late, no part of the update, and no release, which find their places by themselves.
  bool is_early(OperationId id) const {
    return !is_release(id) && !late_.contains(id.index) && !update_.contains(id.index) && id != cast_ && !ir::has(f_.operation(id).opcode, ir::terminator);
  }

  OperationId first_, second_;                 // products
  std::size_t slot_ = 0;                       // of the sum among the carried values
  std::set<std::uint32_t> late_, update_;      // operations of the body
  std::set<std::uint32_t> repeated_;           // what costs nothing: for the update once more
  std::vector<Value> needs_;                   // of the body, by the update
  bool update_first_ = false;                  // in the next iteration, while its first product runs
  OperationId cast_;                           // the late operand's last conversion
  Value meanwhile_;                            // what two warpgroups compute, by half, before they wait for the late product; none for more
  OperationId branch_;                         // decided at the iteration's start
  std::set<std::uint32_t> decides_;            // operations of the body that decide it
  std::vector<OperationId> read_ahead_;        // of these: what reads memory, an iteration ahead
  std::set<std::uint32_t> in_front_;           // operations that then stand in front of it
  std::vector<OperationId> tiles_ahead_[2];    // of each side: tiles that it reads from memory, bits of its mask, and what these need, before the first product

 private:
  bool is_half(OperationId dot) const;
  bool explain(OperationId loop, const std::string& reason);
  bool carries_sums(const Operation& loop);
  bool find_late_operations();
  bool find_update();
  void find_needs();
  void find_meanwhile();
  void find_branch();
  void find_tiles_ahead(std::size_t side);
  bool is_kept_as_bits(Value condition, const std::vector<BlockId>& inside, std::set<std::uint32_t>& needed);
  bool keep_as_bits(Value condition, const std::set<std::uint32_t>& needed);
  bool collect_tile(Value value, const std::vector<BlockId>& inside, std::set<std::uint32_t>& slice) const;
  bool is_known_early(Value value, bool writes, std::set<std::uint32_t>& slice) const;
  std::int64_t spare_registers() const;
};

}  // namespace flextile::backend
