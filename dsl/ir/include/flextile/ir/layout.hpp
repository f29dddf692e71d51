// Layouts: which thread holds which element of a tile, in mixed radix.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace flextile::ir {

/// One digit of a mixed-radix number. A digit with value v adds v * stride to the coordinate of `axis`;
/// axis -1: the digit moves nothing, its threads hold copies of the same element.
struct Digit {
  std::int32_t size = 1;
  std::int32_t axis = -1;
  std::int32_t stride = 0;
  bool operator==(const Digit&) const = default;
};

/// Maps (register, lane, warp) to tile coordinates. Each of the three numbers is read as digits, least significant
/// first; sizes need not be powers of two in `registers`. The sizes of `lanes` multiply to 32, of `warps` to the
/// number of warps. Every element of the tile is held by at least one (register, lane, warp).
///
/// The m16n8 accumulator of mma.sync on a 16x8 tile is
///   registers[2:1@1, 2:8@0] lanes[4:2@1, 8:1@0] warps[]       (size:stride@axis)
struct Layout {
  std::vector<Digit> registers;
  std::vector<Digit> lanes;
  std::vector<Digit> warps;
  bool operator==(const Layout&) const = default;
};

/// "registers[2:1@1, 2:8@0] lanes[4:2@1, 8:1@0] warps[4:16@0]"; a replicated digit prints as "4:*".
std::string to_string(const Layout& layout);

}  // namespace flextile::ir
