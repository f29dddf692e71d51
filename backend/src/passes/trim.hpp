// Copies loops and branches without some of their carried values. Used inside a Rewriter's visit.
#pragma once
#include <unordered_map>
#include <vector>

#include <flextile/ir/rewriter.hpp>

namespace flextile::backend {

class Trimmer {
 public:
  explicit Trimmer(ir::Rewriter& rewriter) : rewriter_(rewriter) {}

  /// Copies a for, while or if; carried value i stays where keep[i]. The caller has given (or later gives) the results that
  /// go a replacement if they have uses; `replacement`, where set, stands for the block arguments that go.
  void copy(ir::OperationId id, const std::vector<bool>& keep, const std::vector<ir::Value>& replacement);
  /// To be called for every operation visited: true when it is a trimmed block's terminator, which is then emitted.
  bool terminator(ir::OperationId id);

 private:
  ir::Rewriter& rewriter_;
  std::unordered_map<std::uint32_t, std::vector<bool>> kept_operands_;   // by terminator: one flag per operand
};

}  // namespace flextile::backend
