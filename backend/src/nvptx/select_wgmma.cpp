// Which dots become products of warpgroups (wgmma), on sm_90a.
//
//   B     lies in shared memory, in swizzled panels of 128 bytes. 16-bit elements may have K along their rows or across them; the
//         instruction turns no others around, so those have K along their rows: they are read as trans(load of [N, K])
//   A     lies there with K along its rows, or in registers
//   f32   the instruction cuts the low 13 bits off. To round instead, operands come by the copy engine, which rounds them to
//         tf32, or from registers, where a conversion does
#include "nvptx/fragments.hpp"
#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/shared.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;

std::vector<OperationId> products(const Function& function, ProductWidth width) {
  std::vector<OperationId> result;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (OperationId id : function.block({block}).operations) {
      const Operation& operation = function.operation(id);
      if (operation.opcode == Opcode::dot && product_width(function, operation) == width) result.push_back(id);
    }
  }
  return result;
}

/// A tile from memory or shared memory, perhaps turned around.
struct Source {
  bool loaded = false;
  bool turned = false;
};

Source source_of(const Function& function, const Operation& dot, int operand) {
  const Operation* operation = function.defining(dot.operands[static_cast<std::size_t>(operand)]);
  Source result;
  if (operation && operation->opcode == Opcode::transpose) {
    result.turned = true;
    operation = function.defining(operation->operands[0]);
  }
  result.loaded = operation && (operation->opcode == Opcode::view_load || operation->opcode == Opcode::shared_load);
  return result;
}

/// What is wrong with types, shape and the way that operands are read.
std::string obstacle_of_shape(const Function& function, const Operation& dot) {
  const Type& sum = function.type(dot.results[0]);
  if (instruction_of(function, dot).name == "fma") return "no matrix instruction has its types, precision and shape";
  if (function.num_warps % 4 != 0) return "the program's " + std::to_string(function.num_warps) + " warps are no groups of four";
  if (sum.extents[0] % (16 * function.num_warps) != 0)
    return "its " + std::to_string(sum.extents[0]) + " rows must be a multiple of 16 for each of " + std::to_string(function.num_warps) + " warps";
  if (sum.extents[1] > 256) return "its " + std::to_string(sum.extents[1]) + " columns must be at most 256";
  if (product_width(function, dot) == ProductWidth::half) return "";
  const Source a = source_of(function, dot, 0), b = source_of(function, dot, 1);
  if (!b.loaded) return "its right operand is not read from memory";
  if (!b.turned) return "of 8- and 32-bit elements the right operand must lie in memory with K along its rows: read it as trans(load of [N, K])";
  if (a.loaded && a.turned) return "of 8- and 32-bit elements the left operand must lie in memory with K along its rows";
  return "";
}

/// Whether the value is computed in the block where `user` stands, or carried into it.
bool changes_with(const Function& function, ir::Value value, const Operation& user) {
  return function.definition(value).block == function.definition(user.results[0]).block;
}

bool in_panels(const Function& function, const FragmentSource& source) {
  const Operation& buffer = *function.defining(source.load->operands[0]);
  const Type& type = function.type(buffer.results[0]);
  return buffer.attributes.integer(AttributeName::swizzle) == 128 && type.rank == 2 && type.extents[1] % panel_columns(type.element) == 0 && type.extents[0] % 8 == 0;
}

/// All that fills the buffer rounds.
bool is_rounded(const Function& function, ir::Value buffer) {
  bool filled = false;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (OperationId id : function.block({block}).operations) {
      const Operation& operation = function.operation(id);
      if ((operation.opcode != Opcode::bulk_copy && operation.opcode != Opcode::async_copy && operation.opcode != Opcode::shared_store) || operation.operands[0] != buffer) continue;
      if (operation.attributes.string(AttributeName::precision) != "tf32") return false;
      filled = true;
    }
  }
  return filled;
}

/// What is wrong with the places where the operands have come to lie. Those in registers must be of the same iteration: ptxas (13.0)
/// moves its copies of invariant ones in front of the loop and then gives their registers to others.
std::string obstacle_of_places(const Function& function, const Operation& dot) {
  const FragmentSource a = shared_source(function, dot, 0), b = shared_source(function, dot, 1);
  if (!b.load || !in_panels(function, b)) return "its right operand does not lie in shared memory in rows of whole 128 bytes";
  if (a.load && (a.transposed || !in_panels(function, a))) return "its left operand does not lie in shared memory in rows of whole 128 bytes along K";
  if (!a.load && !changes_with(function, dot.operands[0], dot)) return "its left operand is held in registers and does not change in the loop";
  if (!is_zero(function, dot.operands[2]) && !changes_with(function, dot.operands[2], dot)) return "what it adds to does not change in the loop";
  for (const FragmentSource& source : {a, b}) {
    if (!source.load || function.type(dot.operands[0]).element != ElementType::f32 || is_rounded(function, source.load->operands[0])) continue;
    return "the copy engine, which rounds f32 to tf32, does not fetch its operands";
  }
  return "";
}

}  // namespace

ProductWidth product_width(const Function& function, const Operation& dot) {
  return bit_width(function.type(dot.operands[0]).element) == 16 ? ProductWidth::half : ProductWidth::other;
}

std::string wgmma_obstacle(const Function& function, ProductWidth width) {
  for (OperationId id : products(function, width)) {
    if (const std::string obstacle = obstacle_of_shape(function, function.operation(id)); !obstacle.empty()) return "[dot] is no wgmma: " + obstacle;
  }
  return "";
}

/// Where a product stays as it is, its attribute says why.
Function select_wgmma(const Function& function, const Target& target) {
  if (!has_wgmma(target)) return function;
  Function result = function;
  for (const ProductWidth width : {ProductWidth::half, ProductWidth::other}) {
    std::vector<std::string> obstacles;
    bool all = true;
    for (OperationId id : products(function, width)) {
      std::string& obstacle = obstacles.emplace_back(obstacle_of_shape(function, function.operation(id)));
      if (obstacle.empty()) obstacle = obstacle_of_places(function, function.operation(id));
      all = all && obstacle.empty();
    }
    std::size_t next = 0;
    for (OperationId id : products(function, width)) {
      const std::string& own = obstacles[next++];
      Operation& dot = result.operation(id);
      if (all) dot.attributes.set(AttributeName::instruction, std::string("wgmma"));
      else if (instruction_of(function, dot).name != "fma") dot.attributes.set(AttributeName::schedule, "no wgmma: " + (own.empty() ? "another product of the kernel is none" : own));
    }
  }
  return result;
}

}  // namespace flextile::backend
