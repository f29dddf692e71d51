#include "nvptx/layouts.hpp"

#include <algorithm>
#include <numeric>

namespace flextile::backend {
namespace {

int product(const std::vector<Digit>& digits) {
  int result = 1;
  for (const Digit& digit : digits) result *= digit.size;
  return result;
}

std::vector<Digit> merged(const std::vector<Digit>& digits, bool keep_copies) {
  std::vector<Digit> result;
  for (const Digit& digit : digits) {
    if (digit.size == 1 || (digit.axis < 0 && !keep_copies)) continue;
    if (!result.empty()) {
      Digit& last = result.back();
      const bool copies = last.axis < 0 && digit.axis < 0;
      if (copies || (last.axis == digit.axis && last.stride * last.size == digit.stride)) {
        last.size *= digit.size;
        continue;
      }
    }
    result.push_back(digit.axis < 0 ? Digit{digit.size, -1, 0} : digit);
  }
  return result;
}

template <class Change> Layout changed(Layout layout, Change change) {
  for (auto* digits : {&layout.registers, &layout.lanes, &layout.warps}) {
    for (Digit& digit : *digits) {
      if (digit.axis >= 0) change(digit);
    }
  }
  return canonical(layout);
}

void make_copies(Digit& digit) { digit = {digit.size, -1, 0}; }

/// Lanes and warps that nothing was left for hold copies.
void fill_up(std::vector<Digit>& digits, int count) {
  const int missing = count / product(digits);
  if (missing > 1) digits.push_back({missing, -1, 0});
}

bool split_digit(const Digit& digit, const Shape& from, const Shape& to, std::vector<Digit>& result) {
  if (digit.axis < 0) return result.push_back(digit), true;
  std::int64_t stride = digit.stride;
  for (std::size_t axis = digit.axis + 1; axis < from.size(); ++axis) stride *= from[axis];
  std::int64_t left = digit.size;
  std::int64_t unit = 1;
  for (int axis = static_cast<int>(to.size()) - 1; axis >= 0 && left > 1; --axis) {
    const std::int64_t end = unit * to[axis];
    if (stride < end) {
      if (stride % unit != 0) return false;
      if (stride * left <= end) {
        result.push_back({static_cast<int>(left), axis, static_cast<int>(stride / unit)});
        return true;
      }
      if (end % stride != 0 || left % (end / stride) != 0) return false;
      const std::int64_t here = end / stride;
      result.push_back({static_cast<int>(here), axis, static_cast<int>(stride / unit)});
      left /= here;
      stride = end;
    }
    unit = end;
  }
  return left == 1;
}

}  // namespace

int register_count(const Layout& layout) { return product(layout.registers); }

Shape digit_offset(const std::vector<Digit>& digits, int index, int rank) {
  Shape result(rank, 0);
  for (const Digit& digit : digits) {
    if (digit.axis >= 0) result[digit.axis] += index % digit.size * digit.stride;
    index /= digit.size;
  }
  return result;
}

Shape coordinates(const Layout& layout, int rank, int register_index, int lane, int warp) {
  Shape result = digit_offset(layout.registers, register_index, rank);
  const Shape lanes = digit_offset(layout.lanes, lane, rank);
  const Shape warps = digit_offset(layout.warps, warp, rank);
  for (int axis = 0; axis < rank; ++axis) result[axis] += lanes[axis] + warps[axis];
  return result;
}

int linear_index(const Shape& coordinate, const Shape& shape) {
  int result = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) result = result * shape[axis] + coordinate[axis];
  return result;
}

Shape coordinate_of(int linear, const Shape& shape) {
  Shape result(shape.size(), 0);
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
    result[axis] = linear % shape[axis];
    linear /= shape[axis];
  }
  return result;
}

Layout canonical(Layout layout) {
  return {merged(layout.registers, false), merged(layout.lanes, true), merged(layout.warps, true)};
}

Layout replicated_layout(const Shape& shape, int num_warps) {
  Layout result;
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) result.registers.push_back({shape[axis], axis, 1});
  fill_up(result.lanes, lanes_per_warp);
  fill_up(result.warps, num_warps);
  return canonical(result);
}

Layout blocked_layout(const Shape& shape, int num_warps, int vector, int fastest) {
  const int rank = static_cast<int>(shape.size());
  if (rank == 0) return replicated_layout(shape, num_warps);
  if (fastest < 0) fastest = rank - 1;
  std::vector<int> order{fastest};
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (axis != fastest) order.push_back(axis);
  }
  Layout result;
  Shape left = shape;
  Shape stride(rank, 1);
  auto take = [&](std::vector<Digit>& digits, int axis, int size) {
    if (size == 1) return;
    digits.push_back({size, axis, stride[axis]});
    stride[axis] *= size;
    left[axis] /= size;
  };
  take(result.registers, fastest, std::gcd(vector, left[fastest]));
  int lanes = lanes_per_warp;
  for (int axis : order) {
    const int size = std::gcd(lanes, left[axis]);
    take(result.lanes, axis, size);
    lanes /= size;
  }
  int warps = num_warps;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    const int size = std::gcd(warps, left[*axis]);
    take(result.warps, *axis, size);
    warps /= size;
  }
  for (int axis : order) take(result.registers, axis, left[axis]);
  fill_up(result.lanes, lanes_per_warp);
  fill_up(result.warps, num_warps);
  return canonical(result);
}

WarpGrid warp_grid(int m, int n, int num_warps, bool rows_only) {
  WarpGrid best{std::gcd(num_warps, m / 16), 1};
  best.columns = std::gcd(num_warps / best.rows, n / 8);
  if (rows_only) return best;
  auto traffic = [&](WarpGrid grid) { return m / grid.rows + n / grid.columns; };
  for (int rows = 1; rows <= num_warps; ++rows) {
    if (num_warps % rows != 0 || m / 16 % rows != 0) continue;
    const WarpGrid grid{rows, std::gcd(num_warps / rows, n / 8)};
    const int used = grid.rows * grid.columns, most = best.rows * best.columns;
    if (used > most || (used == most && traffic(grid) < traffic(best))) best = grid;
  }
  return best;
}

namespace {

/// Rows from one 16-row block of a warp to its next.
int row_repeat(WarpGrid grid) { return grid.warpgroups ? 64 : 16; }

/// Where the warps' rows start, `rows` blocks of 16 to a warp.
std::vector<Digit> warp_rows(WarpGrid grid, int rows) {
  if (!grid.warpgroups) return {{grid.rows, 0, 16 * rows}};
  return {{4, 0, 16}, {grid.rows / 4, 0, 64 * rows}};
}

}  // namespace

Layout accumulator_layout(int m, int n, int num_warps, WarpGrid grid) {
  const int rows = m / 16 / grid.rows, columns = n / 8 / grid.columns;   // instructions per warp
  Layout result;
  result.registers = {{2, 1, 1}, {2, 0, 8}, {columns, 1, 8}, {rows, 0, row_repeat(grid)}};
  result.lanes = {{4, 1, 2}, {8, 0, 1}};
  result.warps = warp_rows(grid, rows);
  result.warps.push_back({grid.columns, 1, 8 * columns});
  fill_up(result.warps, num_warps);
  return canonical(result);
}

Layout left_operand_layout(int m, int k, int num_warps, WarpGrid grid, int packed) {
  const int rows = m / 16 / grid.rows;
  Layout result;
  result.registers = {{packed, 1, 1}, {2, 0, 8}, {2, 1, 4 * packed}, {k / (8 * packed), 1, 8 * packed}, {rows, 0, row_repeat(grid)}};
  result.lanes = {{4, 1, packed}, {8, 0, 1}};
  result.warps = warp_rows(grid, rows);
  result.warps.push_back({grid.columns, -1, 0});
  fill_up(result.warps, num_warps);
  return canonical(result);
}

Layout right_operand_layout(int k, int n, int num_warps, WarpGrid grid, int packed) {
  const int columns = n / 8 / grid.columns;
  Layout result;
  result.registers = {{packed, 0, 1}, {2, 0, 4 * packed}, {k / (8 * packed), 0, 8 * packed}, {columns, 1, 8}};
  result.lanes = {{4, 0, packed}, {8, 1, 1}};
  result.warps = {{grid.rows, -1, 0}, {grid.columns, 1, 8 * columns}};
  fill_up(result.warps, num_warps);
  return canonical(result);
}

Layout reduced_layout(const Layout& layout, int axis) {
  return changed(layout, [axis](Digit& digit) {
    if (digit.axis == axis) make_copies(digit);
    else if (digit.axis > axis) --digit.axis;
  });
}

Layout without_axis(const Layout& layout, int axis) { return reduced_layout(layout, axis); }

Layout with_axis(const Layout& layout, int axis) {
  return changed(layout, [axis](Digit& digit) {
    if (digit.axis >= axis) ++digit.axis;
  });
}

Layout projected_layout(const Layout& layout, const Shape& shape) {
  return changed(layout, [&](Digit& digit) {
    if (shape.empty() || shape[digit.axis] == 1) make_copies(digit);
  });
}

Layout untransposed_layout(const Layout& layout, const std::vector<std::int64_t>& permutation) {
  return changed(layout, [&](Digit& digit) { digit.axis = static_cast<int>(permutation[digit.axis]); });
}

Layout transposed_layout(const Layout& layout, const std::vector<std::int64_t>& permutation) {
  return changed(layout, [&](Digit& digit) {
    digit.axis = static_cast<int>(std::find(permutation.begin(), permutation.end(), digit.axis) - permutation.begin());
  });
}

std::optional<Layout> reshaped_layout(const Layout& layout, const Shape& from, const Shape& to) {
  Layout result;
  for (auto part : {&Layout::registers, &Layout::lanes, &Layout::warps}) {
    for (const Digit& digit : layout.*part) {
      if (!split_digit(digit, from, to, result.*part)) return std::nullopt;
    }
  }
  return canonical(result);
}

std::optional<Layout> layout_of_wide_rows(const Layout& layout) {
  if (layout.registers.empty() || layout.lanes.empty()) return std::nullopt;
  const Digit pair = layout.registers.front(), lanes = layout.lanes.front();
  if (pair.size != 2 || pair.stride != 1 || pair.axis < 0 || lanes.axis != pair.axis || lanes.size != 4 || lanes.stride != 2) return std::nullopt;
  Layout result = layout;
  result.registers.front() = {8, pair.axis, 1};
  result.lanes.front() = {4, pair.axis, 8};
  for (std::size_t i = 1; i < result.registers.size(); ++i) {
    Digit& digit = result.registers[i];
    if (digit.axis != pair.axis || digit.stride != 8) continue;
    if (digit.size % 4 != 0) return std::nullopt;
    digit = {digit.size / 4, pair.axis, 32};
    return canonical(result);
  }
  return std::nullopt;
}

std::optional<Layout> layout_of_shared_reads(const Layout& layout) {
  constexpr int fewest = 8;   // reads saved: each element costs a shuffle then
  int best = 1;
  std::size_t lanes = 0, registers = 0;
  for (std::size_t i = 0; i < layout.lanes.size(); ++i) {
    if (layout.lanes[i].axis >= 0) continue;
    for (std::size_t k = 0; k < layout.registers.size(); ++k) {
      const int shared = std::gcd(layout.lanes[i].size, layout.registers[k].size);
      if (layout.registers[k].axis >= 0 && shared > best) best = shared, lanes = i, registers = k;
    }
  }
  const int reads = register_count(layout);
  if (reads - reads / best < fewest) return std::nullopt;
  Layout result = layout;
  Digit& held = result.registers[registers];
  Digit& copies = result.lanes[lanes];
  const Digit part{best, held.axis, held.stride};
  held = {held.size / best, held.axis, held.stride * best};
  copies.size /= best;
  result.lanes.insert(result.lanes.begin() + static_cast<std::ptrdiff_t>(lanes), part);
  return canonical(result);
}

namespace {

/// The lane's number by its bits: what each of them adds, and along which axis.
std::vector<Digit> bits_of_lanes(const Layout& layout) {
  std::vector<Digit> bits;
  for (const Digit& digit : layout.lanes) {
    for (int size = 1; size < digit.size; size *= 2) bits.push_back({2, digit.axis, digit.axis < 0 ? 0 : digit.stride * size});
  }
  return bits;
}

}  // namespace

std::optional<LaneMove> lane_move(const Layout& source, const Layout& target, const Shape& shape) {
  if (source.warps != target.warps) return std::nullopt;
  const std::vector<Digit> from = bits_of_lanes(source), to = bits_of_lanes(target);
  LaneMove move;
  int fetched = 0;   // bits of the lane that holds it
  for (std::size_t bit = 0; bit < to.size(); ++bit) {
    if (from[bit] == to[bit]) move.kept |= 1 << bit;
    else if (to[bit].axis < 0) fetched |= 1 << bit;
    else return std::nullopt;
  }
  const std::vector<int> of_registers = linear_offsets(source.registers, register_count(source), shape), of_lanes = linear_offsets(source.lanes, lanes_per_warp, shape);
  for (int wanted : linear_offsets(target.registers, register_count(target), shape)) {
    LaneMove::Source found{-1, 0};
    for (int lane = 0; lane < lanes_per_warp && found.reg < 0; ++lane) {
      if ((lane & ~fetched) != 0) continue;
      const auto at = std::find(of_registers.begin(), of_registers.end(), wanted - of_lanes[static_cast<std::size_t>(lane)]);
      if (at != of_registers.end()) found = {static_cast<int>(at - of_registers.begin()), lane};
    }
    if (found.reg < 0) return std::nullopt;
    move.source.push_back(found);
  }
  return move;
}

int register_run(const Layout& layout, int axis, int limit) {
  if (layout.registers.empty()) return 1;
  const Digit& first = layout.registers.front();
  if (first.axis != axis || first.stride != 1) return 1;
  int run = std::gcd(first.size, limit);
  auto shorten = [&](const std::vector<Digit>& digits) {
    for (const Digit& digit : digits) {
      if (digit.axis == axis && &digit != &first) run = std::gcd(run, digit.stride);
    }
  };
  shorten(layout.registers);
  shorten(layout.lanes);
  shorten(layout.warps);
  return run;
}

std::vector<int> linear_offsets(const std::vector<Digit>& digits, int count, const Shape& shape) {
  std::vector<int> result(count);
  for (int i = 0; i < count; ++i) result[i] = linear_index(digit_offset(digits, i, static_cast<int>(shape.size())), shape);
  return result;
}

std::vector<int> register_map(const Layout& source, const Shape& source_shape, const Layout& target, const Shape& target_shape,
                              const std::vector<int>& element, int num_warps) {
  const int source_count = register_count(source), target_count = register_count(target);
  const std::vector<int> source_register = linear_offsets(source.registers, source_count, source_shape);
  const std::vector<int> source_lane = linear_offsets(source.lanes, lanes_per_warp, source_shape);
  const std::vector<int> source_warp = linear_offsets(source.warps, num_warps, source_shape);
  const std::vector<int> target_register = linear_offsets(target.registers, target_count, target_shape);
  const std::vector<int> target_lane = linear_offsets(target.lanes, lanes_per_warp, target_shape);
  const std::vector<int> target_warp = linear_offsets(target.warps, num_warps, target_shape);
  if (element.empty() && source_register == target_register && source_lane == target_lane && source_warp == target_warp) {   // most reshapes
    std::vector<int> same(static_cast<std::size_t>(source_count));
    std::iota(same.begin(), same.end(), 0);
    return same;
  }
  int elements = 1;
  for (int extent : source_shape) elements *= extent;
  std::vector<int> result(target_count, -1);
  std::vector<int> holder(elements, -1);
  for (int warp = 0; warp < num_warps; ++warp) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      const int source_thread = source_lane[lane] + source_warp[warp], target_thread = target_lane[lane] + target_warp[warp];
      for (int i = 0; i < source_count; ++i) holder[source_thread + source_register[i]] = i;
      for (int i = 0; i < target_count; ++i) {
        int wanted = target_thread + target_register[i];
        if (!element.empty()) wanted = element[wanted];
        if (holder[wanted] < 0 || (result[i] >= 0 && result[i] != holder[wanted])) return {};
        result[i] = holder[wanted];
      }
      for (int i = 0; i < source_count; ++i) holder[source_thread + source_register[i]] = -1;
    }
  }
  return result;
}

bool covers(const Layout& layout, const Shape& shape, int num_warps) {
  if (product(layout.lanes) != lanes_per_warp || product(layout.warps) != num_warps) return false;
  int elements = 1;
  for (int extent : shape) elements *= extent;
  std::vector<bool> seen(elements, false);
  int count = 0;
  const int rank = static_cast<int>(shape.size());
  for (int warp = 0; warp < num_warps; ++warp) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      for (int i = 0; i < register_count(layout); ++i) {
        const Shape at = coordinates(layout, rank, i, lane, warp);
        for (int axis = 0; axis < rank; ++axis) {
          if (at[axis] < 0 || at[axis] >= shape[axis]) return false;
        }
        const int index = linear_index(at, shape);
        if (!seen[index]) ++count;
        seen[index] = true;
      }
    }
  }
  return count == elements;
}

}  // namespace flextile::backend
