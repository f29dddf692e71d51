// PTX's types: widths, numbers from and to register bits, and arithmetic on them.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace flextile::test {

inline int bits_of(const std::string& type) {
  if (type == "pred") return 1;
  if (type == "bf16" || type == "e4m3x2" || type == "e5m2x2") return 16;
  if (type == "e4m3" || type == "e5m2") return 8;
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
inline bool is_float8_type(const std::string& type) { return type == "e4m3" || type == "e5m2"; }
inline double float8_value(std::uint8_t bits, const std::string& type) {
  const bool e4m3 = type == "e4m3";
  const int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, exponent = bits >> mantissa_bits & (e4m3 ? 15 : 31), mantissa = bits & ((1 << mantissa_bits) - 1);
  double value = exponent ? std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits) : std::ldexp(mantissa, 1 - bias - mantissa_bits);
  if (e4m3 && (bits & 0x7f) == 0x7f) value = NAN;
  if (!e4m3 && exponent == 31) value = mantissa ? NAN : INFINITY;
  return bits & 0x80 ? -value : value;
}
/// cvt.rn.satfinite: of all numbers of the format the nearest one, and of two the one whose last bit is 0.
inline std::uint8_t to_float8(double value, const std::string& type) {
  if (std::isnan(value)) return 0x7f;
  const std::uint8_t most = type == "e4m3" ? 0x7e : 0x7b;
  std::uint8_t best = 0;
  for (int bits = 0; bits <= most; ++bits) {
    const double distance = std::fabs(float8_value(static_cast<std::uint8_t>(bits), type) - std::fabs(value)), least = std::fabs(float8_value(best, type) - std::fabs(value));
    if (distance < least || (distance == least && bits % 2 == 0)) best = static_cast<std::uint8_t>(bits);
  }
  if (std::fabs(value) >= float8_value(most, type)) best = most;
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}
inline double number(std::uint64_t bits, const std::string& type) {
  if (is_float8_type(type)) return float8_value(static_cast<std::uint8_t>(bits), type);
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

/// An operation of two operands of one type.
inline std::uint64_t ptx_binary(const std::string& name, const std::string& type, std::uint64_t a, std::uint64_t b) {
  const int bits = bits_of(type);
  if (is_float_type(type)) {
    const double x = number(a, type), y = number(b, type);
    if (name == "add") return float_bits(type == "f32" ? static_cast<float>(x) + static_cast<float>(y) : x + y, type);
    if (name == "sub") return float_bits(type == "f32" ? static_cast<float>(x) - static_cast<float>(y) : x - y, type);
    if (name == "mul") return float_bits(type == "f32" ? static_cast<float>(x) * static_cast<float>(y) : x * y, type);
    if (name == "div") return float_bits(type == "f32" ? static_cast<float>(x) / static_cast<float>(y) : x / y, type);
    if (name == "min") return float_bits(std::fmin(x, y), type);
    if (name == "max") return float_bits(std::fmax(x, y), type);
    if (name == "copysign") return float_bits(std::copysign(y, x), type);
    throw std::runtime_error("unknown float operation");
  }
  const std::int64_t sa = extend(a, bits), sb = extend(b, bits);
  const std::uint64_t ua = cut(a, bits), ub = cut(b, bits);
  const bool is_signed = type[0] == 's';
  if (name == "add") return cut(a + b, bits);
  if (name == "sub") return cut(a - b, bits);
  if (name == "mul") return cut(a * b, bits);
  if (name == "div") return cut(is_signed ? static_cast<std::uint64_t>(sa / sb) : ua / ub, bits);
  if (name == "rem") return cut(is_signed ? static_cast<std::uint64_t>(sa % sb) : ua % ub, bits);
  if (name == "min") return is_signed ? cut(static_cast<std::uint64_t>(std::min(sa, sb)), bits) : std::min(ua, ub);
  if (name == "max") return is_signed ? cut(static_cast<std::uint64_t>(std::max(sa, sb)), bits) : std::max(ua, ub);
  if (name == "and") return ua & ub;
  if (name == "or") return ua | ub;
  if (name == "xor") return ua ^ ub;
  const std::uint64_t amount = cut(b, 32);
  if (name == "shl") return amount >= static_cast<unsigned>(bits) ? 0 : cut(a << amount, bits);
  if (name == "shr") return is_signed ? cut(static_cast<std::uint64_t>(sa >> std::min<std::uint64_t>(amount, 63)), bits) : amount >= static_cast<unsigned>(bits) ? 0 : ua >> amount;
  throw std::runtime_error("unknown integer operation");
}

inline bool ptx_compare(std::string how, const std::string& type, std::uint64_t a, std::uint64_t b) {
  auto decide = [&](auto x, auto y) {
    if (how == "eq") return x == y;
    if (how == "ne") return x != y;
    if (how == "lt" || how == "lo") return x < y;
    if (how == "le" || how == "ls") return x <= y;
    if (how == "gt" || how == "hi") return x > y;
    return x >= y;
  };
  if (is_float_type(type)) {
    const double x = number(a, type), y = number(b, type);
    const bool unordered = std::isnan(x) || std::isnan(y);
    if (how == "nan") return unordered;
    if (how == "num") return !unordered;
    if (how.size() == 3) {   // equ, ltu, ...: true when unordered
      if (unordered) return true;
      how.pop_back();
    } else if (unordered) {
      return false;
    }
    return decide(x, y);
  }
  if (type[0] == 's') return decide(extend(a, bits_of(type)), extend(b, bits_of(type)));
  return decide(cut(a, bits_of(type)), cut(b, bits_of(type)));
}

inline double ptx_function(const std::string& name, double x) {
  if (name == "ex2") return std::exp2(x);
  if (name == "lg2") return std::log2(x);
  if (name == "rcp") return 1 / x;
  if (name == "rsqrt") return 1 / std::sqrt(x);
  if (name == "tanh") {   // .approx: right to 11 bits
    int exponent = 0;
    const double fraction = std::frexp(std::tanh(x), &exponent);
    return std::isfinite(fraction) ? std::ldexp(std::round(fraction * 2048) / 2048, exponent) : fraction;
  }
  if (name == "sqrt") return std::sqrt(x);
  if (name == "abs") return std::fabs(x);
  if (name == "neg") return -x;
  throw std::runtime_error("unknown function");
}

}  // namespace flextile::test
