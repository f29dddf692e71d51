// tf32 as the copy engine makes it of f32: 10 bits of mantissa, to nearest even; infinities and NaN stay as they are.
#pragma once
#include <bit>
#include <cstdint>

namespace flextile::test {

inline std::uint32_t rounded_to_tf32(std::uint32_t bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  return (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
}
inline float rounded_to_tf32(float value) { return std::bit_cast<float>(rounded_to_tf32(std::bit_cast<std::uint32_t>(value))); }

}  // namespace flextile::test
