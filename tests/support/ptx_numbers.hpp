// PTX's types: widths, and numbers from and to register bits.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace flextile::test {

inline int bits_of(const std::string& type) {
  if (type == "pred") return 1;
  if (type == "bf16") return 16;
  if (type == "bf16x2" || type == "f16x2") return 32;
  return std::stoi(type.substr(1));
}
inline std::uint64_t cut(std::uint64_t value, int bits) { return bits >= 64 ? value : value & ((std::uint64_t{1} << bits) - 1); }
inline std::int64_t extend(std::uint64_t value, int bits) { return static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits); }

inline double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double value = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits & 0x8000 ? -value : value;
}
inline std::uint16_t to_half(double value) {
  if (std::isnan(value)) return 0x7fff;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::fabs(value);
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(std::isinf(value) ? 1e30 : value), -14);
  const double scaled = std::nearbyint(std::ldexp(std::isinf(value) ? 1e30 : value, 10 - exponent));
  if (std::ldexp(scaled, exponent - 10) > 65504) return sign | 0x7c00;
  const auto units = static_cast<int>(scaled);
  return static_cast<std::uint16_t>(sign | (units < 1024 ? units : (((exponent + 14) << 10) + units)));
}
inline double number(std::uint64_t bits, const std::string& type) {
  if (type == "f64") return std::bit_cast<double>(bits);
  if (type == "f16") return half_value(static_cast<std::uint16_t>(bits));
  if (type == "bf16") return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  if (type[0] == 's') return static_cast<double>(extend(bits, bits_of(type)));
  if (type[0] == 'u' || type[0] == 'b') return static_cast<double>(cut(bits, bits_of(type)));
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}
inline std::uint64_t float_bits(double value, const std::string& type) {
  if (type == "f64") return std::bit_cast<std::uint64_t>(value);
  if (type == "f16") return to_half(value);
  const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (type == "bf16") return std::isnan(value) ? 0x7fff : (word + 0x7fff + (word >> 16 & 1)) >> 16;
  return word;
}
inline bool is_float_type(const std::string& type) { return type[0] == 'f' || type == "bf16"; }

}  // namespace flextile::test
