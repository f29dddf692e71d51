#include "passes/simplify_control.hpp"

#include <unordered_set>

#include "passes/fold.hpp"
#include "passes/trim.hpp"

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::OperationId;
using ir::Value;

class ControlRules {
 public:
  explicit ControlRules(ir::Rewriter& rewriter) : rewriter_(rewriter), source_(rewriter.source()), trimmer_(rewriter) {}

  /// True: handled.
  bool visit(OperationId id) {
    if (inlined_terminators_.contains(id.index)) return true;
    if (trimmer_.terminator(id)) return true;
    const bool simpler = simplify(id, source_.operation(id));
    changed_ = changed_ || simpler;
    return simpler;
  }
  bool changed() const { return changed_; }

 private:
  bool simplify(OperationId id, const ir::Operation& operation) {
    if (operation.opcode == Opcode::if_) return choose_branch(operation);
    if (operation.opcode == Opcode::for_) return never_or_once(operation) || drop_invariants(id, operation);
    return operation.opcode == Opcode::while_ && drop_invariants(id, operation);
  }

  const ir::Operation& terminator(ir::BlockId block) const { return source_.operation(source_.block(block).operations.back()); }

  /// The integer that `value` of the source is known to be, after what was replaced so far.
  bool known(Value value, std::int64_t& number) const {
    Element element;
    if (!constant_element(rewriter_.builder().function(), rewriter_[value], element)) return false;
    number = element.integer;
    return true;
  }

  /// Puts a block's operations here; its yielded values stand for `results`.
  void inline_block(ir::BlockId block, const std::vector<Value>& results) {
    inlined_terminators_.insert(source_.block(block).operations.back().index);
    rewriter_.rewrite_block(block);
    const ir::Operation& last = terminator(block);
    for (std::size_t i = 0; i < results.size(); ++i) rewriter_.replace(results[i], rewriter_[last.operands[i]]);
  }

  bool choose_branch(const ir::Operation& operation) {
    std::int64_t condition = 0;
    if (!known(operation.operands[0], condition)) return false;
    inline_block(operation.blocks[condition ? 0 : 1], operation.results);
    return true;
  }

  bool never_or_once(const ir::Operation& operation) {
    std::int64_t lower = 0, upper = 0, step = 0;
    const bool empty = rewriter_[operation.operands[0]] == rewriter_[operation.operands[1]];
    const bool bounds = known(operation.operands[0], lower) && known(operation.operands[1], upper);
    if (empty || (bounds && lower >= upper)) {
      for (std::size_t i = 0; i < operation.results.size(); ++i) rewriter_.replace(operation.results[i], rewriter_[operation.operands[3 + i]]);
      return true;
    }
    if (!bounds || !known(operation.operands[2], step)) return false;
    const auto distance = static_cast<std::uint64_t>(upper) - static_cast<std::uint64_t>(lower);
    if (step <= 0 || static_cast<std::uint64_t>(step) < distance) return false;
    const std::vector<Value>& arguments = source_.block(operation.blocks[0]).arguments;
    rewriter_.replace(arguments[0], rewriter_[operation.operands[0]]);
    for (std::size_t i = 0; i < operation.results.size(); ++i) rewriter_.replace(arguments[1 + i], rewriter_[operation.operands[3 + i]]);
    inline_block(operation.blocks[0], operation.results);
    return true;
  }

  /// A carried value that every block passes on as it came is the initial value.
  bool drop_invariants(OperationId id, const ir::Operation& operation) {
    const std::size_t first_operand = operation.opcode == Opcode::for_ ? 3 : 0;
    std::vector<bool> keep(operation.results.size(), false);
    std::vector<Value> initial(operation.results.size());
    bool any = false;
    for (std::size_t i = 0; i < keep.size(); ++i) {
      for (const ir::BlockId block : operation.blocks) {
        const ir::Operation& last = terminator(block);
        const std::size_t passed = i + (last.opcode == Opcode::condition ? 1 : 0);
        const std::size_t argument = i + (operation.opcode == Opcode::for_ ? 1 : 0);
        keep[i] = keep[i] || last.operands[passed] != source_.block(block).arguments[argument];
      }
      if (!keep[i]) initial[i] = rewriter_[operation.operands[first_operand + i]];
      any = any || !keep[i];
    }
    if (!any) return false;
    trimmer_.copy(id, keep, initial);
    for (std::size_t i = 0; i < keep.size(); ++i) {
      if (!keep[i]) rewriter_.replace(operation.results[i], initial[i]);
    }
    return true;
  }

  ir::Rewriter& rewriter_;
  const ir::Function& source_;
  Trimmer trimmer_;
  std::unordered_set<std::uint32_t> inlined_terminators_;
  bool changed_ = false;
};

}  // namespace

// Repeated until nothing changes: a branch that is chosen can make a carried value invariant, a loop that runs once can decide a branch.
ir::Function simplify_control(const ir::Function& function, const Target&) {
  ir::Function current = function;
  for (bool changed = true; changed;) {
    ir::Rewriter rewriter(current);
    ControlRules rules(rewriter);
    rewriter.run([&](OperationId id) { return rules.visit(id); });
    ir::Function next = rewriter.take();
    changed = rules.changed();
    current = std::move(next);
  }
  return current;
}

}  // namespace flextile::backend
