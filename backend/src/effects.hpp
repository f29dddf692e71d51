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

}  // namespace flextile::backend
