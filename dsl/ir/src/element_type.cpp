// Conversions of the 8- and 16-bit float types, by their bits so that every host gives the same answer.
#include <algorithm>
#include <bit>
#include <flextile/ir/element_type.hpp>

namespace flextile {
namespace {

// Shifts right by `count` (1 to 31), rounding to nearest, ties to even.
std::uint32_t shift_right_rounded(std::uint32_t value, int count) {
  std::uint32_t kept = value >> count;
  std::uint32_t rest = value & ((1u << count) - 1);
  std::uint32_t half = 1u << (count - 1);
  return kept + ((rest > half || (rest == half && (kept & 1))) ? 1u : 0u);
}

// Sign, exponent with the bias, and so many bits of mantissa; no more than `most`, which is a number of the format.
std::uint8_t float8_bits(float value, int bias, int mantissa, float most) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value), sign = word >> 24 & 0x80u;
  std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;  // NaN
  magnitude = std::min(magnitude, std::bit_cast<std::uint32_t>(most));
  const int exponent = static_cast<int>(magnitude >> 23), least = 128 - bias, cut = 23 - mantissa;
  std::uint32_t result = 0;
  if (exponent >= least) {
    result = shift_right_rounded(magnitude - (static_cast<std::uint32_t>(least - 1) << 23), cut);  // a carry runs into the exponent
  } else if (cut + least - exponent < 32) {
    result = shift_right_rounded((magnitude & 0x7fffffu) | 0x800000u, cut + least - exponent);  // denormal
  }
  return static_cast<std::uint8_t>(sign | result);
}

}  // namespace

f16::f16(float value) {
  std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = (word >> 16) & 0x8000u;
  std::uint32_t magnitude = word & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN: quiet, payload kept
  } else if (magnitude >= 0x47800000u) {
    result = 0x7c00u;  // 65536 and up, infinity
  } else if (magnitude >= 0x38800000u) {
    result = shift_right_rounded(magnitude - 0x38000000u, 13);  // normal; a carry runs into the exponent, up to infinity
  } else if (magnitude >= 0x33000000u) {
    int exponent = static_cast<int>(magnitude >> 23);
    result = shift_right_rounded((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);  // denormal: units of 2^-24
  } else {
    result = 0;
  }
  bits = static_cast<std::uint16_t>(sign | result);
}

f16::operator float() const {
  std::uint32_t sign = (bits & 0x8000u) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1fu;
  std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  std::uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

bf16::bf16(float value) {
  std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : shift_right_rounded(word, 16));
}

f8e4m3::f8e4m3(float value) : bits(float8_bits(value, 7, 3, 448)) {}

f8e4m3::operator float() const {
  const std::uint32_t sign = (bits & 0x80u) << 24, exponent = bits >> 3 & 15u, fraction = bits & 7u;
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fe00000u);
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-9f));
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | fraction << 20);
}

f8e5m2::f8e5m2(float value) : bits(float8_bits(value, 15, 2, 57344)) {}

f8e5m2::operator float() const {
  f16 same;
  same.bits = static_cast<std::uint16_t>(bits << 8);
  return same;
}

bf16::operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace flextile
