// Element types: the scalar types that tiles, pointers and tensors are made of.
#pragma once
#include <cstdint>
#include <string_view>

namespace flextile {

using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;
using i1 = bool;

/// IEEE binary16 as stored in memory. Arithmetic on the host goes through float.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  f16(float value);             // rounds to nearest even
  operator float() const;
};

/// bfloat16 as stored in memory: the upper half of a float, rounded to nearest even.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  bf16(float value);
  operator float() const;
};

/// Eight bits with 4 of exponent and 3 of mantissa (OCP FP8 E4M3): numbers up to 448, no infinity, one NaN of each sign. From a float:
/// rounded to nearest even; what is larger, infinities too, becomes 448 with its sign; NaN becomes 0x7f. Holds numbers for memory and
/// matrix products; cast it to compute.
struct f8e4m3 {
  std::uint8_t bits = 0;
  f8e4m3() = default;
  f8e4m3(float value);
  operator float() const;
};

/// Eight bits with 5 of exponent and 2 of mantissa (OCP FP8 E5M2): the upper half of an f16, with infinities and NaN. From a float: as
/// f8e4m3, and what is larger becomes 57344.
struct f8e5m2 {
  std::uint8_t bits = 0;
  f8e5m2() = default;
  f8e5m2(float value);
  operator float() const;
};

enum class ElementType : std::uint8_t { i1, i8, i16, i32, i64, u8, u16, u32, u64, f8e4m3, f8e5m2, f16, bf16, f32, f64 };

constexpr int element_type_count = 15;

constexpr std::string_view name(ElementType type) {
  constexpr std::string_view names[] = {"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};
  return names[static_cast<int>(type)];
}

/// Width of the value in bits; i1 is 1. In memory an i1 takes one byte.
constexpr int bit_width(ElementType type) {
  constexpr int widths[] = {1, 8, 16, 32, 64, 8, 16, 32, 64, 8, 8, 16, 16, 32, 64};
  return widths[static_cast<int>(type)];
}

/// Size in memory.
constexpr int byte_size(ElementType type) { return bit_width(type) < 8 ? 1 : bit_width(type) / 8; }

constexpr bool is_float(ElementType type) { return type >= ElementType::f8e4m3; }
/// Eight bits: no operation computes in them, but casts and dots take them.
constexpr bool is_float8(ElementType type) { return type == ElementType::f8e4m3 || type == ElementType::f8e5m2; }
constexpr bool is_integer(ElementType type) { return type != ElementType::i1 && type < ElementType::f8e4m3; }
constexpr bool is_unsigned(ElementType type) { return type == ElementType::i1 || (type >= ElementType::u8 && type <= ElementType::u64); }

/// The element type of `a op b`: i1 < integers < floats by kind, then by width, then unsigned; two floats of one width, such as
/// f16 and bf16, give f32.
constexpr ElementType promote(ElementType a, ElementType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (bit_width(a) != bit_width(b)) return bit_width(a) > bit_width(b) ? a : b;
  if (is_float(a)) return ElementType::f32;
  return is_unsigned(a) ? a : b;
}

template <class T> struct ElementTypeOf;
template <> struct ElementTypeOf<i1> { static constexpr ElementType value = ElementType::i1; };
template <> struct ElementTypeOf<i8> { static constexpr ElementType value = ElementType::i8; };
template <> struct ElementTypeOf<i16> { static constexpr ElementType value = ElementType::i16; };
template <> struct ElementTypeOf<i32> { static constexpr ElementType value = ElementType::i32; };
template <> struct ElementTypeOf<i64> { static constexpr ElementType value = ElementType::i64; };
template <> struct ElementTypeOf<u8> { static constexpr ElementType value = ElementType::u8; };
template <> struct ElementTypeOf<u16> { static constexpr ElementType value = ElementType::u16; };
template <> struct ElementTypeOf<u32> { static constexpr ElementType value = ElementType::u32; };
template <> struct ElementTypeOf<u64> { static constexpr ElementType value = ElementType::u64; };
template <> struct ElementTypeOf<f8e4m3> { static constexpr ElementType value = ElementType::f8e4m3; };
template <> struct ElementTypeOf<f8e5m2> { static constexpr ElementType value = ElementType::f8e5m2; };
template <> struct ElementTypeOf<f16> { static constexpr ElementType value = ElementType::f16; };
template <> struct ElementTypeOf<bf16> { static constexpr ElementType value = ElementType::bf16; };
template <> struct ElementTypeOf<f32> { static constexpr ElementType value = ElementType::f32; };
template <> struct ElementTypeOf<f64> { static constexpr ElementType value = ElementType::f64; };
template <class T> struct ElementTypeOf<const T> : ElementTypeOf<T> {};

/// element_type_of<bf16> == ElementType::bf16.
template <class T> inline constexpr ElementType element_type_of = ElementTypeOf<T>::value;

/// A type that tiles and tensors can hold.
template <class T> concept Element = requires { ElementTypeOf<T>::value; };

}  // namespace flextile
