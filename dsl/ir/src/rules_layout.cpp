// What makes a layout right for a tile.
#include <algorithm>

#include "rules.hpp"

namespace flextile::ir {
namespace {

std::int64_t product(const std::vector<Digit>& digits) {
  std::int64_t result = 1;
  for (const Digit& digit : digits) {
    if (digit.size < 1 || result > max_tile_elements) return -1;
    result *= digit.size;
  }
  return result;
}

// How many coordinates of an axis its digits reach without a gap: digits of strides 1, 2, 8 and sizes 2, 4, 3 reach 24.
std::int64_t reach(std::vector<Digit> digits) {
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  std::int64_t reached = 1;
  for (const Digit& digit : digits) {
    if (digit.stride > reached) break;
    reached += (digit.size - 1) * static_cast<std::int64_t>(digit.stride);
  }
  return reached;
}

}  // namespace

std::string layout_violation(const Layout& layout, const Type& type, int num_warps) {
  if (!type.has_shape()) return join(type, " has a layout: only tiles have one");
  if (product(layout.registers) < 1) return "the sizes of the layout's registers must be at least 1";
  if (product(layout.lanes) != 32) return join("the layout has ", product(layout.lanes), " lanes, must have 32");
  if (product(layout.warps) != num_warps) return join("the layout has ", product(layout.warps), " warps, the function ", num_warps);
  std::array<std::vector<Digit>, max_tile_rank> axes;
  for (const std::vector<Digit>* digits : {&layout.registers, &layout.lanes, &layout.warps}) {
    for (const Digit& digit : *digits) {
      if (digit.axis < 0) continue;
      if (digit.axis >= type.rank) return join("the layout names axis ", digit.axis, ", the type is ", type);
      axes[digit.axis].push_back(digit);
    }
  }
  for (int axis = 0; axis < type.rank; ++axis) {
    if (reach(axes[axis]) < type.extents[axis])
      return join("the layout reaches ", reach(axes[axis]), " elements of axis ", axis, ", the type is ", type);
  }
  return "";
}

}  // namespace flextile::ir
