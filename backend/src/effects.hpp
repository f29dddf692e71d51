// What operations do to memory, those in their blocks included. Shared memory is memory.
#pragma once
#include <algorithm>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// `accept` picks the operation or one in its blocks.
template <class Accept> bool any_inside(const ir::Function& function, const ir::Operation& operation, const Accept& accept) {
  return accept(operation) || std::any_of(operation.blocks.begin(), operation.blocks.end(), [&](ir::BlockId block) {
    const auto& inner = function.block(block).operations;
    return std::any_of(inner.begin(), inner.end(), [&](ir::OperationId id) { return any_inside(function, function.operation(id), accept); });
  });
}

/// Loads on the two sides of it may differ: it writes, or waits for others who do.
inline bool changes_memory(const ir::Function& function, const ir::Operation& operation) {
  return any_inside(function, operation, [](const ir::Operation& each) { return ir::has(each.opcode, ir::writes) || ir::has(each.opcode, ir::sync); });
}

/// An operation of the block writes.
inline bool writes_memory(const ir::Function& function, ir::BlockId block) {
  const auto& operations = function.block(block).operations;
  return std::any_of(operations.begin(), operations.end(), [&](ir::OperationId id) {
    return any_inside(function, function.operation(id), [](const ir::Operation& each) { return ir::has(each.opcode, ir::writes); });
  });
}

/// A read of memory that the kernel may not write: its pointer or view comes from a parameter to const.
inline bool reads_constant_memory(const ir::Function& function, const ir::Operation& read) {
  ir::Value from = read.operands[0];
  while (const ir::Operation* source = function.defining(from)) {
    if (source->opcode != ir::Opcode::offset && source->opcode != ir::Opcode::view_base) return false;
    from = source->operands[0];
  }
  const ir::Definition& definition = function.definition(from);
  return definition.block == function.body() && function.parameters[definition.position].read_only;
}

}  // namespace flextile::backend
