// A plain C++ number in a tile expression or a mod. Integers keep their C++ type (int is i32); floating numbers adapt
// to the other operand: score * 0.5 stays f32, and a tile of bf16 times 2.0f stays bf16.
#pragma once
#include <flextile/dsl/static_type.hpp>
#include <flextile/ir/builder.hpp>

namespace flextile {

/// Numbers of plain C++, bool and our narrow floats among them.
template <class T>
concept PlainNumber = std::is_arithmetic_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

template <class T>
constexpr ElementType integer_element() {
  if constexpr (std::is_same_v<T, bool>)
    return ElementType::i1;
  else if constexpr (sizeof(T) == 1)
    return std::is_signed_v<T> ? ElementType::i8 : ElementType::u8;
  else if constexpr (sizeof(T) == 2)
    return std::is_signed_v<T> ? ElementType::i16 : ElementType::u16;
  else if constexpr (sizeof(T) == 4)
    return std::is_signed_v<T> ? ElementType::i32 : ElementType::u32;
  else
    return std::is_signed_v<T> ? ElementType::i64 : ElementType::u64;
}

/// A number with its type forgotten: what the non-template part of the front end works on.
struct Number {
  bool floating = false;
  ElementType element = ElementType::i32;  // of an integer
  std::int64_t integer = 0;
  double real = 0;

  Number() = default;
  template <PlainNumber T>
  Number(T value) {
    if constexpr (std::is_integral_v<T>)
      element = integer_element<T>(), integer = static_cast<std::int64_t>(value);
    else if constexpr (std::is_floating_point_v<T>)
      floating = true, real = static_cast<double>(value);
    else
      floating = true, real = static_cast<float>(value);
  }

  /// The element type beside an operand of type `other`.
  ElementType beside(ElementType other) const {
    if (!floating) return element;
    return is_float(other) ? other : ElementType::f32;
  }
  ElementType alone() const { return floating ? ElementType::f32 : element; }
  double as_double() const {
    if (floating) return real;
    return element == ElementType::u64 ? static_cast<double>(static_cast<std::uint64_t>(integer)) : static_cast<double>(integer);
  }
  /// The number as an integer of type `target`, wrapped to its width as C++ does.
  std::int64_t as_integer(ElementType target) const {
    std::int64_t value = floating ? static_cast<std::int64_t>(real) : integer;
    if (target == ElementType::i1) return floating ? real != 0 : value != 0;
    int width = bit_width(target);
    if (width == 64) return value;
    std::uint64_t low = static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << width) - 1);
    bool negative = !is_unsigned(target) && (low >> (width - 1)) != 0;
    return static_cast<std::int64_t>(low) - (negative ? std::int64_t{1} << width : 0);
  }
};

/// A code for the number type T in static element rules.
template <PlainNumber T>
inline constexpr int number_code = [] {
  if constexpr (std::is_integral_v<T>)
    return static_cast<int>(integer_element<T>());
  else
    return floating_literal;
}();

inline ir::Value emit_number(ir::Builder& builder, const Number& number, ElementType element) {
  if (is_float(element)) return builder.constant(element, number.as_double());
  return builder.constant(element, number.as_integer(element));
}

/// An operand on its way into the IR: a value, or a number whose element type the other operand decides.
struct Emitted {
  ir::Value value;
  Number number;
};

inline ElementType element_beside(ir::Builder& builder, const Emitted& x, ElementType other) {
  return x.value ? builder.type(x.value).element : x.number.beside(other);
}
inline ElementType element_alone(ir::Builder& builder, const Emitted& x) {
  return x.value ? builder.type(x.value).element : x.number.alone();
}
inline ir::Value emit_as(ir::Builder& builder, const Emitted& x, ElementType element) {
  if (!x.value) return emit_number(builder, x.number, element);
  return builder.type(x.value).element == element || !builder.type(x.value).is_number() ? x.value : builder.cast(x.value, element);
}
/// x as an index of a view, i32. A view has fewer than 2^31 elements along an axis, so that a wider index that i32 cannot hold
/// becomes the nearest i32, which is outside as well.
inline ir::Value emit_index(ir::Builder& builder, const Emitted& x) {
  constexpr std::int64_t most = 0x7fffffff;
  const ir::Type type = x.value ? builder.type(x.value) : ir::Type::scalar(x.number.alone());
  if (!type.is_number() || is_float(type.element)) return emit_as(builder, x, type.element);   // refused by the operation that takes it
  if (bit_width(type.element) < 32 || type.element == ElementType::i32) return emit_as(builder, x, ElementType::i32);
  const bool is_signed = !is_unsigned(type.element);
  if (!x.value) {
    const std::int64_t number = x.number.integer;
    const bool above = number > most || (!is_signed && number < 0);   // u64 of 2^63 and more are kept as negative numbers
    return builder.constant(ElementType::i32, above ? most : number < -most - 1 ? -most - 1 : number);
  }
  ir::Value index = builder.binary(Opcode::min, x.value, builder.constant(type.element, most));
  if (is_signed) index = builder.binary(Opcode::max, index, builder.constant(type.element, -most - 1));
  return builder.cast(index, ElementType::i32);
}
inline ir::Value emit_alone(ir::Builder& builder, const Emitted& x) { return emit_as(builder, x, element_alone(builder, x)); }

/// The element type that two operands meet in.
inline ElementType common_element(ir::Builder& builder, const Emitted& a, const Emitted& b) {
  if (!a.value && !b.value) return promote(a.number.alone(), b.number.alone());
  ElementType left = a.value ? builder.type(a.value).element : a.number.beside(builder.type(b.value).element);
  return promote(left, element_beside(builder, b, left));
}

inline Emitted emit_unary(ir::Builder& builder, Opcode opcode, const Emitted& x) {
  return {builder.unary(opcode, emit_as(builder, x, computing_element(opcode, element_alone(builder, x)))), {}};
}

inline Emitted emit_binary(ir::Builder& builder, Opcode opcode, const Emitted& a, const Emitted& b) {
  if (a.value && builder.type(a.value).is_pointer()) {
    if (ir::is_comparison(opcode)) return {builder.binary(opcode, a.value, b.value), {}};
    ir::Value elements = emit_alone(builder, b);
    return {builder.offset(a.value, opcode == Opcode::sub ? builder.unary(Opcode::neg, elements) : elements), {}};
  }
  ElementType element = computing_element(opcode, common_element(builder, a, b));
  ir::Value left = emit_as(builder, a, element);
  return {builder.binary(opcode, left, emit_as(builder, b, element)), {}};
}

/// x != 0 where x is no i1 yet.
inline Emitted emit_truth(ir::Builder& builder, const Emitted& x) {
  ir::Value value = emit_alone(builder, x);
  if (builder.type(value).element == ElementType::i1) return {value, {}};
  return emit_binary(builder, Opcode::ne, {value, {}}, {{}, 0});
}

inline Emitted emit_select(ir::Builder& builder, const Emitted& condition, const Emitted& a, const Emitted& b) {
  ir::Value chosen = emit_truth(builder, condition).value;
  ElementType element = common_element(builder, a, b);
  ir::Value left = emit_as(builder, a, element);
  return {builder.select(chosen, left, emit_as(builder, b, element)), {}};
}

inline Emitted emit_fma(ir::Builder& builder, const Emitted& a, const Emitted& b, const Emitted& c) {
  ElementType element = common_element(builder, a, b);
  element = promote(element, element_beside(builder, c, element));
  element = computing_element(Opcode::fma, element);
  ir::Value x = emit_as(builder, a, element), y = emit_as(builder, b, element);
  return {builder.fma(x, y, emit_as(builder, c, element)), {}};
}

/// x stretched to `shape`, axes matched from the last.
inline ir::Value stretch(ir::Builder& builder, ir::Value x, const ir::Shape& shape) {
  if (builder.type(x).shape() == shape) return x;
  if (builder.type(x).rank > 0) {
    while (builder.type(x).rank < shape.size()) x = builder.expand_dims(x, 0);
  }
  return builder.broadcast(x, shape);
}

}  // namespace flextile
