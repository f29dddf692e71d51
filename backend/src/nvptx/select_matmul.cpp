#include <string>

#include <flextile/ir/error.hpp>

#include "nvptx/fragments.hpp"
#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"

namespace flextile::backend {
namespace {

constexpr MatrixInstruction instructions[] = {
    {"fma", 1, 1},
    {"mma.m16n8k16", 16, 2},        // bf16, f16
    {"mma.m16n8k8.tf32", 8, 1},
    {"mma.m16n8k32", 32, 4},        // i8, u8
    {"wgmma", 16, 2},               // bf16, f16 from shared memory
};

}  // namespace

MatrixInstruction instruction_of(const ir::Operation& dot) {
  const std::string_view name = dot.attributes.string(ir::AttributeName::instruction);
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
  const MatrixInstruction instruction = instruction_of(dot);
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

/// Whether the value is computed in the block where `user` stands, or carried into it.
bool changes_with(const ir::Function& function, ir::Value value, const ir::Operation& user) {
  return function.definition(value).block == function.definition(user.results[0]).block;
}

std::string number(int value) { return std::to_string(value); }

/// wgmma reads B from swizzled panels of shared memory, and A from there with K last, or from registers. Operands in registers
/// must be of the same iteration: ptxas (13.0) moves its copies of invariant ones in front of the loop and then gives their
/// registers to others. Returns why a product of 16-bit numbers cannot be one; "": it can.
std::string reason_against_wgmma(const ir::Function& function, const ir::Operation& dot) {
  const ir::Type& left = function.type(dot.operands[0]);
  const ir::Type& accumulator = function.type(dot.operands[2]);
  const int m = accumulator.extents[0], n = accumulator.extents[1], k = left.extents[1], rows = 16 * function.num_warps;
  if (instruction_of(dot).name != "mma.m16n8k16") return "M must be a multiple of 16, N of 8 and K of 16";
  if (function.num_warps % 4 != 0) return number(function.num_warps) + " warps are no whole warpgroups of 4";
  if (m % rows != 0) return "M (" + number(m) + ") must be a multiple of 16 rows for each of " + number(function.num_warps) + " warps";
  if (n > 256) return "N (" + number(n) + ") must be at most 256";
  if (k % 16 != 0) return "K (" + number(k) + ") must be a multiple of 16";
  auto in_panels = [&](const FragmentSource& source) {
    const ir::Operation& buffer = *function.defining(source.load->operands[0]);
    const ir::Type& type = function.type(buffer.results[0]);
    return buffer.attributes.integer(ir::AttributeName::swizzle) == 128 && type.rank == 2 && type.extents[1] * 2 % 128 == 0 && type.extents[0] % 8 == 0;
  };
  const FragmentSource a = fragment_source(function, dot, 0), b = fragment_source(function, dot, 1);
  if (!b.load || !in_panels(b)) return "its right operand does not come through shared memory in panels of 64 columns";
  if (a.load && a.transposed) return "its left operand lies transposed in shared memory";
  if (a.load && !in_panels(a)) return "its left operand does not come through shared memory in panels of 64 columns";
  if (!a.load && !changes_with(function, dot.operands[0], dot)) return "its left operand is in registers and does not change in the loop";
  if (!is_zero(function, dot.operands[2]) && !changes_with(function, dot.operands[2], dot)) return "its accumulator does not change in the loop";
  return "";
}

}  // namespace

/// All products of 16-bit types or none: two instructions would hold their rows in different threads.
ir::Function select_wgmma(const ir::Function& function, const Target& target) {
  if (!has_wgmma(target)) return function;
  std::vector<ir::OperationId> dots;
  std::vector<std::string> reasons;
  bool all = true;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (ir::OperationId id : function.block({block}).operations) {
      const ir::Operation& operation = function.operation(id);
      if (operation.opcode != ir::Opcode::dot || bit_width(function.type(operation.operands[0]).element) != 16) continue;
      dots.push_back(id);
      reasons.push_back(reason_against_wgmma(function, operation));
      all = all && reasons.back().empty();
    }
  }
  ir::Function result = function;
  for (std::size_t i = 0; i < dots.size(); ++i) {
    ir::Attributes& attributes = result.operation(dots[i]).attributes;
    if (all) attributes.set(ir::AttributeName::instruction, std::string("wgmma"));
    else attributes.set(ir::AttributeName::schedule, "not wgmma: " + (reasons[i].empty() ? "another product of 16-bit numbers in this kernel cannot be" : reasons[i]));
  }
  return result;
}

ir::Function select_matmul(const ir::Function& function, const Target&) {
  ir::Function result = function;
  for (std::uint32_t i = 0; i < result.operation_count(); ++i) {
    ir::Operation& operation = result.operation({i});
    if (operation.opcode != ir::Opcode::dot) continue;
    operation.attributes.set(ir::AttributeName::instruction, std::string(pick_instruction(result, operation).name));
  }
  return result;
}

}  // namespace flextile::backend
