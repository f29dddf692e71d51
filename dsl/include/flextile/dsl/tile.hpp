// Tile and Scalar: the immutable values of a kernel.
#pragma once
#include <flextile/dsl/expression.hpp>

namespace flextile {

/// x as a value of the declared element code and shape (null: any); throws where the trace finds another type.
inline ir::Value settle(ir::Builder& builder, const Emitted& x, int code, const ir::Shape* shape) {
  if (!x.value) return emit_number(builder, x.number, code >= 0 ? static_cast<ElementType>(code) : x.number.alone());
  const ir::Type& type = builder.type(x.value);
  ir::Type declared = type.with_shape(shape ? *shape : type.shape());
  if (code >= 0) declared.element = static_cast<ElementType>(code);
  if (type != declared)
    builder.fail("[assign] the value is " + to_string(type) + ", the declared type is " + to_string(declared) + ": must be equal");
  return x.value;
}

/// The static half of the same check.
template <class E, int Code, class S>
consteval bool settles() {
  if constexpr (Code >= 0 && code_of<E> >= 0) static_assert(rules::assignable_element<code_of<E>, Code>());
  if constexpr (S::rank >= 0 && shape_of<E>::rank >= 0) static_assert(rules::assignable_shape<shape_of<E>, S>());
  return true;
}

/// Puts x into the IR as a value of type T and shape S.
template <class T, class S, class E>
ir::Value emit_settled(E&& expression, const Where& where) {
  static_assert(settles<E, element_code<T>, S>());
  ir::Builder& builder = builder_at(where);
  Emitted emitted = emit_operand(builder, static_cast<E&&>(expression));
  if constexpr (S::rank >= 0) {
    ir::Shape declared = S::value();
    return settle(builder, emitted, element_code<T>, &declared);
  } else {
    return settle(builder, emitted, element_code<T>, nullptr);
  }
}

/// An immutable block of numbers, one per element of S. With Dynamic in both places: AnyTile, whose type only the trace knows.
///
///   Tile x = a * b + c;          // the statement's line goes into the IR
template <class T, class S>
class Tile {
  static_assert(S::rank >= Dynamic::rank);  // makes the compiler check the shape

 public:
  static constexpr int code = element_code<T>;
  using element = T;
  using kernel_shape = S;

  /// Puts an expression into the IR.
  template <NumberOperand E>
  requires(!std::is_base_of_v<Tile, std::remove_cvref_t<E>>) Tile(E&& expression, Where where = Where::current())
      : value_(emit_settled<T, S>(static_cast<E&&>(expression), where)) {}
  Tile(const Tile&) = default;
  Tile& operator=(const Tile&) {
    static_assert(rules::is_not_assigned<Tile>());
    return *this;
  }
  static Tile of(ir::Value value) { return Tile(value); }

  ir::Value value() const { return value_.get(); }
  /// What the trace knows of the type.
  const ir::Type& type() const { return builder_here().type(value()); }
  ElementType element_type() const { return type().element; }
  int rank() const { return type().rank; }
  int extent(int axis) const { return type().extents[axis]; }
  ir::Shape shape() const { return type().shape(); }

  explicit operator bool() const { return rules::is_not_a_branch<S>(); }

 protected:
  explicit Tile(ir::Value value) : value_(value) {}

 private:
  TracedValue value_;
};
template <NumberOperand E>
Tile(E&&) -> Tile<element_of<E>, shape_of<E>>;
template <NumberOperand E>
Tile(E&&, Where) -> Tile<element_of<E>, shape_of<E>>;

using AnyTile = Tile<Dynamic, Dynamic>;

/// One number: a tile without axes.
template <class T>
class Scalar : public Tile<T, Shape<>> {
 public:
  template <NumberOperand E>
  requires(!std::is_base_of_v<Tile<T, Shape<>>, std::remove_cvref_t<E>>) Scalar(E&& expression, Where where = Where::current())
      : Tile<T, Shape<>>(emit_settled<T, Shape<>>(static_cast<E&&>(expression), where)) {
    static_assert(rules::is_scalar_shape<shape_of<E>>());
  }
  Scalar(const Tile<T, Shape<>>& tile) : Tile<T, Shape<>>(tile) {}
  Scalar(const Scalar&) = default;
  Scalar& operator=(const Scalar&) {
    static_assert(rules::is_not_assigned<Scalar>());
    return *this;
  }
  static Scalar of(ir::Value value) { return Scalar(value); }

 private:
  explicit Scalar(ir::Value value) : Tile<T, Shape<>>(value) {}
};
template <NumberOperand E>
Scalar(E&&) -> Scalar<element_of<E>>;
template <NumberOperand E>
Scalar(E&&, Where) -> Scalar<element_of<E>>;

}  // namespace flextile
