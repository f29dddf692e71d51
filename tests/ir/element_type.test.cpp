#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <flextile/ir/element_type.hpp>
#include <limits>

using namespace flextile;

namespace {

// Half precision by the definition: the nearest of all finite halves, ties to the even pattern.
std::uint16_t nearest_half(double value) {
  double magnitude = std::abs(value);
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (magnitude >= 65520.0) return sign | 0x7c00;
  double scale = magnitude < 0x1p-14 ? 0x1p-24 : std::ldexp(1.0, std::ilogb(magnitude) - 10);
  double rounded = std::nearbyint(magnitude / scale) * scale;
  if (rounded < 0x1p-14) return sign | static_cast<std::uint16_t>(rounded / 0x1p-24);
  int exponent = std::ilogb(rounded);
  return sign | static_cast<std::uint16_t>(((exponent + 15) << 10) + static_cast<int>(rounded / std::ldexp(1.0, exponent - 10)) - 1024);
}

// 8 bits by the definition: the nearest of all finite numbers of the format, ties to the even pattern, the largest beyond it.
template <class T> std::uint8_t nearest_of_8_bits(double value) {
  std::uint8_t best = 0;
  auto number = [](int bits) {
    T x;
    x.bits = static_cast<std::uint8_t>(bits);
    return static_cast<double>(static_cast<float>(x));
  };
  for (int bits = 0; bits < 0x80; ++bits) {
    if (!std::isfinite(number(bits))) continue;
    const double distance = std::abs(number(bits) - std::abs(value)), least = std::abs(number(best) - std::abs(value));
    if (distance < least || (distance == least && bits % 2 == 0)) best = static_cast<std::uint8_t>(bits);
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

template <class T> void check_8_bits(double largest, double smallest, std::uint8_t largest_bits) {
  for (int bits = 0; bits < 0x100; ++bits) {
    T x;
    x.bits = static_cast<std::uint8_t>(bits);
    const float wide = x;
    if (std::isfinite(wide) && T(wide).bits != bits) FAIL("pattern ", bits, " became ", static_cast<int>(T(wide).bits));
  }
  for (std::uint64_t word = 0x35000000; word <= 0x48000000; word += 9973) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(word) | sign);
      if (T(value).bits != nearest_of_8_bits<T>(value)) FAIL("value ", value, " gives ", static_cast<int>(T(value).bits), ", nearest is ", static_cast<int>(nearest_of_8_bits<T>(value)));
    }
  }
  for (int bits = 0; bits < largest_bits; ++bits) {   // exact ties, and both sides of them
    T low, high;
    low.bits = static_cast<std::uint8_t>(bits), high.bits = static_cast<std::uint8_t>(bits + 1);
    const float middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;
    CHECK(T(middle).bits == (bits % 2 == 0 ? bits : bits + 1));
    CHECK(T(std::nextafter(middle, 1e9f)).bits == bits + 1);
    CHECK(T(std::nextafter(middle, 0.0f)).bits == bits);
  }
  CHECK(static_cast<float>(T(1e30f)) == largest);
  CHECK(T(std::numeric_limits<float>::infinity()).bits == largest_bits);
  CHECK(T(-std::numeric_limits<float>::infinity()).bits == (largest_bits | 0x80));
  CHECK(T(static_cast<float>(smallest)).bits == 1);
  CHECK(T(static_cast<float>(smallest / 2)).bits == 0);
  CHECK(T(-0.0f).bits == 0x80);
  CHECK(T(1e-40f).bits == 0);
  CHECK(T(-std::numeric_limits<float>::quiet_NaN()).bits == 0x7f);
  CHECK(std::isnan(static_cast<float>(T(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace

TEST_CASE("f8e4m3: rounds to the nearest, ties to even, up to 448") {
  check_8_bits<f8e4m3>(448, 0x1p-9, 0x7e);
  f8e4m3 x;
  x.bits = 0xff;
  CHECK(std::isnan(static_cast<float>(x)));
  CHECK(std::signbit(static_cast<float>(x)));
  CHECK(static_cast<float>(f8e4m3(1.0f)) == 1.0f);
  CHECK(f8e4m3(1.0f).bits == 0x38);
}

TEST_CASE("f8e5m2: rounds to the nearest, ties to even, up to 57344, and infinities are read") {
  check_8_bits<f8e5m2>(57344, 0x1p-16, 0x7b);
  f8e5m2 x;
  x.bits = 0xfc;
  CHECK(static_cast<float>(x) == -std::numeric_limits<float>::infinity());
  CHECK(f8e5m2(1.0f).bits == 0x3c);
}

TEST_CASE("f16: every pattern survives the way through float") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    f16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    float wide = value;
    std::uint16_t back = f16(wide).bits;
    bool nan = (bits & 0x7fff) > 0x7c00;
    if (nan ? !std::isnan(wide) || (back & 0x7fff) <= 0x7c00 : back != bits) FAIL("pattern ", bits, " became ", back);
  }
}

TEST_CASE("f16 rounds to the nearest, ties to even") {
  for (std::uint64_t word = 0x30000000; word <= 0x48000000; word += 997) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      float value = std::bit_cast<float>(static_cast<std::uint32_t>(word) | sign);
      if (f16(value).bits != nearest_half(value)) FAIL("value ", value, " gives ", f16(value).bits, ", nearest is ", nearest_half(value));
    }
  }
  // Exact ties, and both sides of them.
  for (float value : {1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 0x1p-25f, 3 * 0x1p-25f, 65504.0f, 65519.9f, 65520.0f, 0x1p-14f - 0x1p-25f}) {
    CHECK(f16(value).bits == nearest_half(value));
    CHECK(f16(std::nextafter(value, 1e9f)).bits == nearest_half(std::nextafter(value, 1e9f)));
    CHECK(f16(std::nextafter(value, 0.0f)).bits == nearest_half(std::nextafter(value, 0.0f)));
  }
  CHECK(f16(std::numeric_limits<float>::infinity()).bits == 0x7c00);
  CHECK(f16(-0.0f).bits == 0x8000);
  CHECK(f16(1e-30f).bits == 0);
}

TEST_CASE("bf16 rounds to the nearest, ties to even, and keeps NaN") {
  CHECK(bf16(1.0f).bits == 0x3f80);
  CHECK(bf16(1.0f + 0x1p-8f).bits == 0x3f80);
  CHECK(bf16(1.0f + 3 * 0x1p-8f).bits == 0x3f82);
  CHECK(bf16(std::nextafter(1.0f + 0x1p-8f, 2.0f)).bits == 0x3f81);
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-std::numeric_limits<float>::infinity()).bits == 0xff80);
  CHECK(std::isnan(static_cast<float>(bf16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(static_cast<float>(bf16(-2.5f)) == -2.5f);
}

TEST_CASE("promotion") {
  CHECK(promote(ElementType::f16, ElementType::bf16) == ElementType::f32);
  CHECK(promote(ElementType::f8e4m3, ElementType::f8e5m2) == ElementType::f32);
  CHECK(promote(ElementType::f8e4m3, ElementType::f16) == ElementType::f16);
  CHECK(promote(ElementType::i64, ElementType::f16) == ElementType::f16);
  CHECK(promote(ElementType::i32, ElementType::u32) == ElementType::u32);
  CHECK(promote(ElementType::i8, ElementType::u16) == ElementType::u16);
  CHECK(promote(ElementType::i1, ElementType::i8) == ElementType::i8);
  for (int a = 0; a < element_type_count; ++a) {
    for (int b = 0; b < element_type_count; ++b) {
      CHECK(promote(static_cast<ElementType>(a), static_cast<ElementType>(b)) ==
            promote(static_cast<ElementType>(b), static_cast<ElementType>(a)));
    }
  }
}
