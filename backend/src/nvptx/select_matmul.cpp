#include <utility>

#include <flextile/ir/error.hpp>

#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"

namespace flextile::backend {
namespace {

constexpr MatrixInstruction instructions[] = {
    {"fma", 1, 1},
    {"mma.m16n8k16", 16, 2},        // bf16, f16
    {"mma.m16n8k8.tf32", 8, 1},
    {"mma.m16n8k32", 32, 4},        // i8, u8, f8e4m3, f8e5m2
};

}  // namespace

MatrixInstruction instruction_of(const ir::Function& function, const ir::Operation& dot) {
  const std::string_view name = dot.attributes.string(ir::AttributeName::instruction);
  if (name == "wgmma") {   // of any type: 32 bytes of K
    const int bytes = byte_size(function.type(dot.operands[0]).element);
    return {"wgmma", 32 / bytes, 4 / bytes};
  }
  for (const MatrixInstruction& instruction : instructions) {
    if (instruction.name == name) return instruction;
  }
  throw InternalError("flextile: internal error: [dot] has no matrix instruction \"" + std::string(name) + "\"; select_matmul did not run");
}

bool has_wgmma(const Target& target) { return target.is_gpu() && target.sm == 90 && target.arch_specific; }

bool is_zero(const ir::Function& function, ir::Value value) {
  const ir::Operation* constant = function.defining(value);
  return constant && constant->opcode == ir::Opcode::constant && constant->attributes.number(ir::AttributeName::value, 1) == 0;
}

MatrixInstruction pick_instruction(const ir::Function& function, const ir::Operation& dot) {
  const ir::Type& left = function.type(dot.operands[0]);
  const ir::Type& accumulator = function.type(dot.operands[2]);
  const int m = accumulator.extents[0], n = accumulator.extents[1], k = left.extents[1];
  if (m % 16 != 0 || n % 8 != 0) return instructions[0];
  auto fits = [&](const MatrixInstruction& candidate) { return k % candidate.k == 0 ? candidate : instructions[0]; };
  switch (left.element) {
    case ElementType::bf16:
    case ElementType::f16: return fits(instructions[1]);
    case ElementType::f32: return dot.attributes.string(ir::AttributeName::precision) == "ieee" ? instructions[0] : fits(instructions[2]);
    case ElementType::f8e4m3:
    case ElementType::f8e5m2:
    case ElementType::i8:
    case ElementType::u8: return fits(instructions[3]);
    case ElementType::i1:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64:
    case ElementType::f64: return instructions[0];
  }
  return instructions[0];
}

bool prefers_rows(const ir::Function& function) {
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    const ir::Operation& operation = function.operation({i});
    if (operation.opcode == ir::Opcode::reduce && function.type(operation.operands[0]).rank == 2) return true;
  }
  return false;
}

DotLayouts dot_layouts(const ir::Function& function, const ir::Operation& dot, bool rows_only) {
  const ir::Type& left = function.type(dot.operands[0]);
  const ir::Type& accumulator = function.type(dot.operands[2]);
  const int m = accumulator.extents[0], n = accumulator.extents[1], k = left.extents[1];
  const MatrixInstruction instruction = instruction_of(function, dot);
  if (instruction.name == "fma") {
    return {blocked_layout({m, k}, function.num_warps, 1), blocked_layout({k, n}, function.num_warps, 1),
            blocked_layout({m, n}, function.num_warps, 4), {}};
  }
  const bool warpgroups = instruction.name == "wgmma";
  const WarpGrid grid = warpgroups ? WarpGrid{function.num_warps, 1, true} : warp_grid(m, n, function.num_warps, rows_only);
  return {left_operand_layout(m, k, function.num_warps, grid, instruction.packed),
          right_operand_layout(k, n, function.num_warps, grid, instruction.packed),
          accumulator_layout(m, n, function.num_warps, grid), grid};
}

namespace {

/// Instructions for 8-bit floats came with sm_89. Elsewhere, and where the shape fits none, they multiply as f16, which holds every
/// number of theirs.
void widen_float8(ir::Function& function, const Target& target) {
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    std::vector<ir::OperationId> order;
    for (ir::OperationId id : std::exchange(function.block({block}).operations, {})) {
      const ir::Operation dot = function.operation(id);
      const bool narrow = dot.opcode == ir::Opcode::dot && is_float8(function.type(dot.operands[0]).element);
      for (std::size_t i = 0; narrow && i < 2 && (target.sm < 89 || pick_instruction(function, dot).name == "fma"); ++i) {
        const ir::OperationId cast = function.append({block}, {ir::Opcode::cast, {dot.operands[i]}, {}, {}, {}, dot.location}, {function.type(dot.operands[i]).with_element(ElementType::f16)});
        function.block({block}).operations.pop_back();
        function.operation(id).operands[i] = function.operation(cast).results[0];
        order.push_back(cast);
      }
      order.push_back(id);
    }
    function.block({block}).operations = std::move(order);
  }
}

}  // namespace

ir::Function select_matmul(const ir::Function& function, const Target& target) {
  ir::Function result = function;
  widen_float8(result, target);
  for (std::uint32_t i = 0; i < result.operation_count(); ++i) {
    ir::Operation& operation = result.operation({i});
    if (operation.opcode != ir::Opcode::dot) continue;
    operation.attributes.set(ir::AttributeName::instruction, std::string(pick_instruction(result, operation).name));
  }
  return result;
}

}  // namespace flextile::backend
