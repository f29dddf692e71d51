#include "nvptx/fragments.hpp"

#include <algorithm>

namespace flextile::backend {

using ir::AttributeName;
using ir::Opcode;

namespace {

int use_count(const ir::Function& function, ir::Value value) {
  int count = 0;
  for (std::uint32_t i = 0; i < function.block_count(); ++i) {
    for (ir::OperationId id : function.block({i}).operations) {
      const auto& operands = function.operation(id).operands;
      count += static_cast<int>(std::count(operands.begin(), operands.end(), value));
    }
  }
  return count;
}

/// Nothing between the definition and the use, both in one block, writes shared memory or orders threads.
bool is_undisturbed(const ir::Function& function, const ir::Operation& load, const ir::Operation& use) {
  const ir::BlockId block = function.definition(load.results[0]).block;
  bool between = false;
  for (ir::OperationId id : function.block(block).operations) {
    const ir::Operation& operation = function.operation(id);
    if (&operation == &load) between = true;
    else if (&operation == &use) return between;
    else if (between && (ir::has(operation.opcode, ir::sync) || ir::has(operation.opcode, ir::regions) || operation.opcode == Opcode::shared_store ||
                         operation.opcode == Opcode::async_copy)) return false;
  }
  return false;
}

}  // namespace

FragmentSource shared_source(const ir::Function& function, const ir::Operation& dot, int operand) {
  ir::Value value = dot.operands[operand];
  const ir::Operation* operation = function.defining(value);
  bool transposed = operand == 1;   // B's rows are K
  if (operation && operation->opcode == Opcode::transpose && use_count(function, value) == 1) {
    transposed = !transposed;
    value = operation->operands[0];
    operation = function.defining(value);
  }
  if (!operation || operation->opcode != Opcode::shared_load || use_count(function, value) != 1) return {};
  if (function.type(operation->operands[0]).rank != 2 || !is_undisturbed(function, *operation, dot)) return {};
  return {operation, transposed};
}

FragmentSource fragment_source(const ir::Function& function, const ir::Operation& dot, int operand) {
  const std::string_view instruction = dot.attributes.string(AttributeName::instruction);
  const ElementType element = function.type(dot.operands[operand]).element;
  if (instruction == "fma") return shared_source(function, dot, operand);
  if (bit_width(element) != 16 && instruction != "wgmma") return {};
  const FragmentSource source = shared_source(function, dot, operand);
  if (!source.load || function.type(source.load->operands[0]).extents[1] * byte_size(element) % 16 != 0) return {};
  return source;
}

bool is_read_by_fragments(const ir::Function& function, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  if (use_count(function, result) != 1) return false;
  for (ir::OperationId id : function.block(function.definition(result).block).operations) {
    const ir::Operation& user = function.operation(id);
    if (std::find(user.operands.begin(), user.operands.end(), result) == user.operands.end()) continue;
    if (operation.opcode == Opcode::shared_load && user.opcode == Opcode::transpose) return is_read_by_fragments(function, user);
    if (user.opcode != Opcode::dot) return false;
    for (int i : {0, 1}) {
      if (user.operands[i] == result && fragment_source(function, user, i).load) return true;
    }
    return false;
  }
  return false;
}

}  // namespace flextile::backend
