#include <flextile/ir/error.hpp>

#include "rules.hpp"
#include "structure.hpp"

namespace flextile::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Function& function)
      : function_(function),
        visible_(function.value_count(), false),
        defined_(function.value_count(), false),
        used_blocks_(function.block_count(), false),
        used_operations_(function.operation_count(), false) {}

  Fault run() {
    if (function_.block_count() == 0) return {"the function has no body", {}};
    if (function_.num_warps < 1 || function_.num_warps > 32)
      return {join("num_warps is ", function_.num_warps, ": must be from 1 to 32"), {}};
    if (function_.occupancy < 1 || function_.occupancy > 32 || function_.occupancy * function_.num_warps > 64)
      return {join("occupancy is ", function_.occupancy, " with ", function_.num_warps, " warps: must be from 1 to 32, and at most 64 warps together"), {}};
    const std::vector<Value>& arguments = function_.block(function_.body()).arguments;
    if (arguments.size() != function_.parameters.size()) {
      return {join("the function has ", function_.parameters.size(), " parameters, its body ", arguments.size(), " arguments"), {}};
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].index >= function_.value_count()) return {join("parameter ", i, " is no value of this function"), {}};
      const Type& type = function_.type(arguments[i]);
      if (type != function_.parameters[i].type)
        return {join("parameter ", i, " is ", function_.parameters[i].type, ", its value is ", type), {}};
      if (std::string wrong = type_violation(type); !wrong.empty()) return {join("parameter ", i, " is ", type, ": ", wrong), {}};
    }
    check_block(function_.body(), {});
    return std::move(fault_);
  }

 private:
  bool fail(OperationId operation, std::string sentence) {
    if (fault_.sentence.empty()) fault_ = {std::move(sentence), operation};
    return false;
  }

  // Makes `value` visible until the end of the block that is being checked.
  bool define(Value value, OperationId operation, std::vector<Value>& scope, OperationId defining, BlockId block, std::size_t position) {
    if (value.index >= function_.value_count()) return fail(operation, "defines a value that is not in this function");
    if (defined_[value.index]) return fail(operation, join("defines value ", value.index, " a second time"));
    const Definition& definition = function_.definition(value);
    if (definition.operation != defining || definition.block != block || definition.position != position) {
      return fail(operation, join("value ", value.index, " is recorded as defined elsewhere"));
    }
    if (int layout = function_.layout_of(value); layout >= 0) {
      std::string which = join("value ", value.index, ": ");
      if (layout >= static_cast<int>(function_.layouts.size()))
        return fail(operation, join(which, "layout ", layout, " is not in the table"));
      std::string wrong = layout_violation(function_.layouts[layout], function_.type(value), function_.num_warps);
      if (!wrong.empty()) return fail(operation, which + wrong);
    }
    defined_[value.index] = visible_[value.index] = true;
    scope.push_back(value);
    return true;
  }

  bool check_block(BlockId id, OperationId holder) {
    if (id.index >= function_.block_count()) return fail(holder, "has a block that is not in this function");
    if (used_blocks_[id.index]) return fail(holder, "has a block that is used twice");
    used_blocks_[id.index] = true;
    const Block& block = function_.block(id);
    std::vector<Value> scope;
    for (std::size_t i = 0; i < block.arguments.size(); ++i) {
      if (!define(block.arguments[i], holder, scope, {}, id, i)) return false;
    }
    if (block.operations.empty())
      return fail(holder, holder ? "has an empty block: a block ends in yield or condition" : "the body is empty: it ends in return");
    for (std::size_t i = 0; i < block.operations.size(); ++i) {
      if (!check_operation(block.operations[i], id, holder, i + 1 == block.operations.size(), scope)) return false;
    }
    for (Value value : scope) visible_[value.index] = false;
    return true;
  }

  bool check_operation(OperationId id, BlockId block, OperationId holder, bool last, std::vector<Value>& scope) {
    if (id.index >= function_.operation_count()) return fail(holder, "its block names an operation that is not in this function");
    if (used_operations_[id.index]) return fail(id, "stands in the function twice");
    used_operations_[id.index] = true;
    const Operation& operation = function_.operation(id);
    if (static_cast<int>(operation.opcode) >= opcode_count) return fail(id, "is no operation");
    if (has(operation.opcode, terminator) != last)
      return fail(id, last ? "ends a block and is no terminator" : "is a terminator and does not end its block");
    if (last && (operation.opcode == Opcode::return_) != !holder)
      return fail(id, holder ? "stands in a loop or branch: only the body returns" : "ends the body, which must end in return");
    for (std::size_t i = 0; i < operation.operands.size(); ++i) {
      Value operand = operation.operands[i];
      if (operand.index >= function_.value_count()) return fail(id, join("operand ", i, " is no value of this function"));
      if (!visible_[operand.index]) {
        return fail(id, join("operand ", i, " is value ", operand.index, ", which is ",
                             defined_[operand.index] ? "not visible here" : "not defined before it"));
      }
    }
    if (std::string sentence = rule_violation(function_, operation); !sentence.empty()) return fail(id, std::move(sentence));
    if (operation.location.file != 0 && operation.location.file >= function_.files.size())
      return fail(id, join("names file ", operation.location.file, ", which is not in the table"));
    for (BlockId inner : operation.blocks) {
      if (!check_block(inner, id)) return false;
    }
    for (std::size_t i = 0; i < operation.results.size(); ++i) {
      if (!define(operation.results[i], id, scope, id, block, i)) return false;
    }
    return true;
  }

  const Function& function_;
  std::vector<bool> visible_, defined_, used_blocks_, used_operations_;
  Fault fault_;
};

}  // namespace

Fault find_fault(const Function& function) { return Verifier(function).run(); }

void verify(const Function& function, std::string_view after) {
  Fault fault = find_fault(function);
  if (fault.sentence.empty()) return;
  std::string message = join("flextile: internal error ", after, ": kernel \"", function.name, "\"");
  if (fault.operation) {
    const Location& location = function.operation(fault.operation).location;
    if (location.line != 0 && location.file < function.files.size())
      message += join(", ", function.files[location.file], ":", location.line);
    message += join("\n  ", print(function, fault.operation));
  }
  throw InternalError(join(message, "\n  ", fault.sentence));
}

}  // namespace flextile::ir
