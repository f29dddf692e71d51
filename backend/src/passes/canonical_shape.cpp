// Shape operations: each chain becomes its shortest form, and tiles of one value stay constants or broadcasts.
#include "passes/canonical.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed are no shape operations

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using ir::Value;

bool is_identity(const std::vector<std::int64_t>& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

Value simplify_broadcast(Canonical& canonical, const Candidate& candidate) {
  if (const ir::Operation* inner = canonical.defined_by(candidate.operands[0], Opcode::broadcast)) {
    return canonical.emit({.opcode = Opcode::broadcast, .operands = {inner->operands[0]}, .type = candidate.type});
  }
  return {};
}

Value simplify_reshape(Canonical& canonical, const Candidate& candidate) {
  const ir::Operation* inner = canonical.defining(candidate.operands[0]);
  if (inner && (inner->opcode == Opcode::reshape || inner->opcode == Opcode::expand_dims)) {
    return canonical.emit({.opcode = Opcode::reshape, .operands = {inner->operands[0]}, .type = candidate.type});
  }
  return {};
}

Value simplify_transpose(Canonical& canonical, const Candidate& candidate) {
  const std::vector<std::int64_t>& permutation = candidate.attributes.list(AttributeName::permutation);
  if (is_identity(permutation)) return candidate.operands[0];
  const ir::Operation* inner = canonical.defining(candidate.operands[0]);
  if (inner && inner->opcode == Opcode::transpose) {
    const std::vector<std::int64_t>& first = inner->attributes.list(AttributeName::permutation);
    std::vector<std::int64_t> both;
    for (std::int64_t axis : permutation) both.push_back(first[static_cast<std::size_t>(axis)]);
    return canonical.emit({.opcode = Opcode::transpose,
                           .operands = {inner->operands[0]},
                           .type = candidate.type,
                           .attributes = {{AttributeName::permutation, std::move(both)}}});
  }
  if (inner && inner->opcode == Opcode::expand_dims && canonical.type(inner->operands[0]).rank == 1) {   // a row becomes a column
    return canonical.emit({.opcode = Opcode::expand_dims,
                           .operands = {inner->operands[0]},
                           .type = candidate.type,
                           .attributes = {{AttributeName::axis, std::int64_t{1} - inner->attributes.integer(AttributeName::axis)}}});
  }
  return {};
}

}  // namespace

Value simplify_shape(Canonical& canonical, Candidate& candidate) {
  const Value operand = candidate.operands[0];
  if (canonical.type(operand) == candidate.type && candidate.opcode != Opcode::transpose) return operand;
  if (Element element; canonical.constant_element(operand, element)) return canonical.constant(candidate.type, element);
  if (const ir::Operation* inner = canonical.defined_by(operand, Opcode::broadcast)) {
    const Value scalar = inner->operands[0];                                        // one value everywhere, in any shape
    if (canonical.type(scalar).rank == 0) return canonical.emit({.opcode = Opcode::broadcast, .operands = {scalar}, .type = candidate.type});
  }
  switch (candidate.opcode) {
    case Opcode::broadcast: return simplify_broadcast(canonical, candidate);
    case Opcode::reshape: return simplify_reshape(canonical, candidate);
    case Opcode::transpose: return simplify_transpose(canonical, candidate);
    default: return {};
  }
}

}  // namespace flextile::backend
