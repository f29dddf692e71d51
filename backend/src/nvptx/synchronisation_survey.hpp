// A scheduled kernel as check_synchronisation looks at it: which operations have a rule, its rings, its buffers' bytes and last
// uses, what dots read, and where the sums of products in flight go.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nvptx/synchronisation_state.hpp"

namespace flextile::backend {

class SynchronisationSurvey {
 protected:
  explicit SynchronisationSurvey(const ir::Function& function);

  // ---- sentences
  /// Throws InternalError that names the operation.
  [[noreturn]] void fail(ir::OperationId id, const std::string& sentence) const;
  std::string name(ir::Value value) const;
  /// "%202 = dot" or "ring_release %65".
  std::string name(ir::OperationId id) const;
  std::string place(const Access& access) const;
  std::string turn_of(const Affine& turn, ir::Value buffer) const;

  // ---- buffers
  Access whole(ir::Value buffer, ir::OperationId by) const;
  /// The mbarriers behind a ring's stages.
  Access barriers_of(ir::Value buffer, ir::OperationId by) const;
  bool is_ring(ir::Value buffer) const { return ring_of_[buffer.index] >= 0; }
  bool is_of_scalars(ir::Value buffer) const { return f_.defining(buffer)->attributes.integer(ir::AttributeName::readers) != 0; }
  /// Who releases a stage.
  enum class Readers { consumers, both_roles, one_producer, unknown };
  Readers readers_of(ir::Value buffer) const;
  Ring& ring_of(State& state, ir::Value buffer) const { return state.rings[static_cast<std::size_t>(ring_of_[buffer.index])]; }
  const Ring& ring_of(const State& state, ir::Value buffer) const { return state.rings[static_cast<std::size_t>(ring_of_[buffer.index])]; }
  bool is_used_after(ir::Value buffer, ir::OperationId id) const { return last_use_[buffer.index] > end_[id.index]; }

  // ---- operations
  /// The operation, or one in its blocks, has a rule.
  bool matters(ir::OperationId id) const { return matters_[id.index]; }
  std::int64_t scratch_of(ir::OperationId id);
  bool is_wgmma(const ir::Operation& dot) const;
  bool is_async(const ir::Operation& dot) const;
  /// The wgmma groups that a product is.
  std::int64_t batches(ir::Value sum) const;
  /// What the dot reads its operands with, where they come from shared memory; else null.
  const std::array<const ir::Operation*, 2>& loads_of(ir::OperationId dot) const { return loads_.at(dot.index); }
  /// The shared_load is the left operand of products and nothing else: each warpgroup reads its own rows.
  bool reads_own_rows(ir::OperationId load) const { return reads_own_rows_[load.index]; }
  /// A product's left operand, if it is in registers.
  ir::Value register_operand(ir::OperationId dot) const { return loads_of(dot)[0] ? ir::Value{} : f_.operation(dot).operands[0]; }
  /// The products whose sums, not waited for, the value may be.
  const std::set<std::uint32_t>& sources(ir::Value value) const { return sources_[value.index]; }

  const ir::Function& f_;
  Numbers numbers_;
  std::vector<ir::Value> rings_;

 private:
  bool survey(ir::BlockId block);
  bool has_rule(ir::OperationId id);
  void find_own_rows();
  void find_sources();
  void check_sums(ir::OperationId id) const;

  std::vector<std::int64_t> scratch_;                    // of each operation, once it was asked for
  std::vector<bool> matters_;
  std::vector<bool> reads_own_rows_;                     // of each shared_load
  std::vector<int> end_;                                 // of each operation: its place in the text, behind its blocks
  std::vector<int> last_use_;                            // of each buffer: likewise
  std::vector<int> ring_of_;                             // of each buffer: its place in rings_, or -1
  std::map<std::uint32_t, std::array<const ir::Operation*, 2>> loads_;
  std::vector<std::set<std::uint32_t>> sources_;
  // While the text is gone through:
  int clock_ = 0;
  std::vector<ir::OperationId> loops_;                   // around what is looked at
  std::map<std::uint32_t, std::size_t> depth_of_;        // of a buffer: how many loops it lies in
  std::map<std::uint32_t, std::set<std::uint32_t>> lives_through_;   // of a loop: buffers of before that it uses
};

}  // namespace flextile::backend
