// The matrix instructions of mma.sync and the layouts that a dot with one of them needs.
#pragma once
#include <string>
#include <string_view>

#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

#include "nvptx/layouts.hpp"

namespace flextile::backend {

/// One matrix instruction: m16 n8 k, `packed` elements of an operand in one 32-bit register.
struct MatrixInstruction {
  std::string_view name;     // the `instruction` attribute of the dot
  int k = 0;
  int packed = 1;
};

/// The instruction that a dot's attribute names; name "fma" stands for scalar multiply-adds.
MatrixInstruction instruction_of(const ir::Function& function, const ir::Operation& dot);
/// Hopper's products of warpgroups: sm_90a alone.
bool has_wgmma(const Target& target);
/// Products of 16-bit types are wgmma all or none, and so are the others: two instructions would hold their rows in different threads.
enum class ProductWidth { half, other };
ProductWidth product_width(const ir::Function& function, const ir::Operation& dot);
/// Why the function's products of this width cannot be wgmma, wherever their operands come to lie; empty where they can.
std::string wgmma_obstacle(const ir::Function& function, ProductWidth width);
/// A constant 0.
bool is_zero(const ir::Function& function, ir::Value value);
/// What select_matmul picks for a dot.
MatrixInstruction pick_instruction(const ir::Function& function, const ir::Operation& dot);

struct DotLayouts {
  Layout left;
  Layout right;
  Layout accumulator;
  WarpGrid grid;
};

/// `rows_only`: all warps along M, so that a row lies in one warp.
DotLayouts dot_layouts(const ir::Function& function, const ir::Operation& dot, bool rows_only);

/// A row reduction in the function makes rows that lie in one warp worth more than square warp tiles.
bool prefers_rows(const ir::Function& function);

}  // namespace flextile::backend
