// How the tiles that live in slots are stored: in which element type, row by row or in panels.
#include <algorithm>

#include "host/plan.hpp"

namespace flextile::backend::host {

using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {

bool below_a_dot(ElementType element) {
  return element == ElementType::bf16 || element == ElementType::f16 || element == ElementType::i8 || element == ElementType::u8 || is_float8(element);
}

void widen_carried(const Function& function, const Operation& operation, Plan& plan) {
  if (operation.opcode != Opcode::for_ && operation.opcode != Opcode::while_) return;
  for (std::size_t i = 0; i < operation.results.size(); ++i) {
    std::vector<Value> names{operation.results[i]};
    for (ir::BlockId nested : operation.blocks) names.push_back(function.block(nested).arguments[operation.opcode == Opcode::for_ ? i + 1 : i]);
    const bool wide = std::any_of(names.begin(), names.end(), [&](Value name) { return plan.wide[name.index]; });
    for (Value name : names) plan.wide[name.index] = wide;
  }
}

/// Narrow values that a dot reads as its left or right operand are kept in the dot's own type.
void mark_wide(const Function& function, Plan& plan) {
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (OperationId id : function.block({block}).operations) {
      const Operation& operation = function.operation(id);
      if (operation.opcode == Opcode::reduce) {   // sums of narrow floats are kept in f32 until they are complete
        for (Value result : operation.results) {
          const ElementType element = function.type(result).element;
          if (is_tile(function.type(result)) && is_float(element) && bit_width(element) < 32) plan.wide[result.index] = true;
        }
      }
      if (operation.opcode != Opcode::dot) continue;
      const DotShape shape = dot_shape(function, operation, Machine{});
      for (Value value : {shape.left, shape.right}) {
        std::vector<Value> leaves;
        append_leaves(function, plan, value, leaves);
        for (Value leaf : leaves) {
          if (below_a_dot(function.type(leaf).element) && function.type(leaf).is_number()) plan.wide[leaf.index] = true;
        }
      }
    }
  }
  // What one slot holds is wide in all its names; inner loops come after outer ones, so a second round reaches both ways.
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t block = 0; block < function.block_count(); ++block) {
      for (OperationId id : function.block({block}).operations) widen_carried(function, function.operation(id), plan);
    }
  }
}

/// Tiles that sweeps compute and dots read only as right operands, not transposed, are stored packed by the sweep itself.
void mark_panels(const Function& function, const Machine& machine, Plan& plan) {
  std::vector<bool> barred(function.value_count(), false);
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (OperationId id : function.block({block}).operations) {
      const Operation& operation = function.operation(id);
      for (std::size_t i = 0; i < operation.operands.size(); ++i) {
        const Value operand = operation.operands[i];
        if (operation.opcode != Opcode::dot || i != 1) {
          if (operation.opcode != Opcode::transpose && !ir::has(operation.opcode, ir::elementwise)) barred[operand.index] = true;
          if (operation.opcode == Opcode::transpose || operation.results.empty() || function.type(operation.results[0]).shape() != function.type(operand).shape()) {
            barred[operand.index] = true;
          }
          continue;
        }
        const DotShape shape = dot_shape(function, operation, machine);
        const Operation* defining = function.defining(operand);
        const bool swept = defining && !plan.lazy[operand.index] && defining->blocks.empty() && defining->opcode != Opcode::dot && defining->opcode != Opcode::reduce;
        if (swept && !shape.right_transposed && shape.right == operand) plan.panel[operand.index] = shape.panel;
        else barred[operand.index] = true;
      }
    }
  }
  for (std::size_t i = 0; i < barred.size(); ++i) {
    if (barred[i]) plan.panel[i] = 0;
  }
}

}  // namespace

void append_leaves(const Function& function, const Plan& plan, Value value, std::vector<Value>& leaves) {
  if (!plan.lazy[value.index]) {
    leaves.push_back(value);
    return;
  }
  for (Value operand : function.defining(value)->operands) append_leaves(function, plan, operand, leaves);
}

std::int64_t stored_bytes(const Function& function, const Plan& plan, Value value) {
  const ir::Type& type = function.type(value);
  if (type.is_pointer()) return 8;
  return plan.wide[value.index] ? 4 : byte_size(type.element);
}

DotShape dot_shape(const Function& function, const Operation& operation, const Machine& machine) {
  const auto below_transposes = [&](Value value, bool& transposed) {
    transposed = false;
    for (const Operation* defining = function.defining(value); defining && defining->opcode == Opcode::transpose; defining = function.defining(value)) {
      if (defining->attributes.list(ir::AttributeName::permutation) == std::vector<std::int64_t>{1, 0}) transposed = !transposed;
      value = defining->operands[0];
    }
    return value;
  };
  DotShape shape;
  const ir::Type& left = function.type(operation.operands[0]);
  const ir::Type& right = function.type(operation.operands[1]);
  shape.m = left.extents[0], shape.k = left.extents[1], shape.n = right.extents[1];
  shape.left = below_transposes(operation.operands[0], shape.left_transposed);
  shape.right = below_transposes(operation.operands[1], shape.right_transposed);
  shape.element_bytes = left.element == ElementType::f64 ? 8 : 4;
  shape.panel = machine.lanes * 2 * 4 / static_cast<int>(shape.element_bytes);
  return shape;
}

void choose_storage(const Function& function, const Machine& machine, Plan& plan) {
  plan.wide.assign(function.value_count(), false);
  plan.panel.assign(function.value_count(), 0);
  mark_wide(function, plan);
  mark_panels(function, machine, plan);
}

}  // namespace flextile::backend::host
