// The algebra of layouts: which ones there are, how one follows from another across an operation, and where an element lies.
// A layout's three numbers (register, lane, warp) are read as mixed-radix digits; see flextile/ir/layout.hpp.
#pragma once
#include <optional>
#include <vector>

#include <flextile/ir/layout.hpp>
#include <flextile/ir/type.hpp>

namespace flextile::backend {

using ir::Digit;
using ir::Layout;
using ir::Shape;

inline constexpr int lanes_per_warp = 32;

/// Registers that a thread holds.
int register_count(const Layout& layout);
/// Coordinates that digits of the number `index` add up to.
Shape digit_offset(const std::vector<Digit>& digits, int index, int rank);
/// The element that (register, lane, warp) holds.
Shape coordinates(const Layout& layout, int rank, int register_index, int lane, int warp);
/// Row-major number of a coordinate.
int linear_index(const Shape& coordinate, const Shape& shape);
/// Inverse of linear_index.
Shape coordinate_of(int linear, const Shape& shape);

/// Neighbouring digits that count on become one, digits of size 1 go, registers hold no copies.
Layout canonical(Layout layout);
/// Every thread holds the whole tile: the layout of a scalar.
Layout replicated_layout(const Shape& shape, int num_warps);
/// Neighbouring threads hold neighbouring runs of `vector` elements of the axis `fastest` (-1: the last one).
Layout blocked_layout(const Shape& shape, int num_warps, int vector, int fastest = -1);

/// How the warps of a program share an M x N accumulator: rows * columns divides the number of warps. The 16-row blocks of a
/// warp are neighbours; in warpgroups the four warps of a group hold 64 neighbouring rows, which then repeat.
struct WarpGrid {
  int rows = 1;
  int columns = 1;
  bool warpgroups = false;
};
WarpGrid warp_grid(int m, int n, int num_warps, bool rows_only);
/// The accumulator of mma.sync m16n8 over an M x N tile (M a multiple of 16, N of 8).
Layout accumulator_layout(int m, int n, int num_warps, WarpGrid grid);
/// The M x K left operand of mma.sync for the same grid; `packed` elements share one 32-bit register.
Layout left_operand_layout(int m, int k, int num_warps, WarpGrid grid, int packed);
/// The K x N right operand.
Layout right_operand_layout(int k, int n, int num_warps, WarpGrid grid, int packed);

/// The layout that a reduction along `axis` leaves: threads along the axis hold copies, the axis is gone.
Layout reduced_layout(const Layout& layout, int axis);
/// The operand's layout of expand_dims {axis} whose result has `layout`.
Layout without_axis(const Layout& layout, int axis);
/// The result's layout of expand_dims {axis} whose operand has `layout`.
Layout with_axis(const Layout& layout, int axis);
/// The operand's layout of a broadcast from `shape`: what moved along a stretched axis holds copies.
Layout projected_layout(const Layout& layout, const Shape& shape);
/// The operand's layout of a transpose {permutation} whose result has `layout`.
Layout untransposed_layout(const Layout& layout, const std::vector<std::int64_t>& permutation);
/// The result's layout of a transpose {permutation} whose operand has `layout`.
Layout transposed_layout(const Layout& layout, const std::vector<std::int64_t>& permutation);
/// The same threads and registers for the same row-major order in another shape; none where digits do not fit.
std::optional<Layout> reshaped_layout(const Layout& layout, const Shape& from, const Shape& to);

/// Of a tile whose rows lie in lanes by fours, two neighbouring columns each (the results of matrix instructions): the layout in
/// which each of the four holds eight neighbouring columns, so that 16-bit numbers are stored 16 bytes at a time.
std::optional<Layout> layout_of_wide_rows(const Layout& layout);

/// Of a tile that many lanes hold copies of: the layout in which each of these lanes holds a part, in the order of the copies. Its
/// elements are read from memory once a warp and then handed around. None where that saves few reads.
std::optional<Layout> layout_of_shared_reads(const Layout& layout);

/// How a warp's lanes get the elements of one layout from lanes that hold another: register i of all lanes is register `source[i].reg`
/// of the lane whose number has the bits `kept` of the reader's own and the others from `source[i].lane`.
struct LaneMove {
  struct Source {
    int reg, lane;
  };
  int kept = 0;
  std::vector<Source> source;
};

/// Empty where lanes need elements of other warps, or of lanes that no such rule names.
std::optional<LaneMove> lane_move(const Layout& source, const Layout& target, const Shape& shape);

/// The longest run of elements along the last axis that consecutive registers hold and that starts at a multiple of
/// its length, at most `limit`.
int register_run(const Layout& layout, int axis, int limit);

/// Row-major element numbers that the digits of 0 .. count-1 add; a register's, a lane's and a warp's numbers add up.
std::vector<int> linear_offsets(const std::vector<Digit>& digits, int count, const Shape& shape);

/// Where a thread finds, among its own registers of `source`, the element of each register of `target`; empty if some
/// thread lacks one or threads disagree. `element[i]` is the source's row-major number of the target's element i
/// (empty: the same).
std::vector<int> register_map(const Layout& source, const Shape& source_shape, const Layout& target, const Shape& target_shape,
                              const std::vector<int>& element, int num_warps);

/// True when every element of `shape` is held by some thread and none lies outside.
bool covers(const Layout& layout, const Shape& shape, int num_warps);

}  // namespace flextile::backend
