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

}  // namespace

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
