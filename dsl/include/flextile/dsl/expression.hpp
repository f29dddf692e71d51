// Element-wise expressions of a kernel. A node lives for one statement; Tile, Scalar and Var put it into the IR.
#pragma once
#include <flextile/dsl/number.hpp>
#include <flextile/dsl/rules.hpp>
#include <flextile/dsl/trace.hpp>

namespace flextile {

/// A tile, scalar, variable or expression: what has an element code, a shape, and `operand()`.
template <class T>
concept KernelOperand = requires {
  typename std::remove_cvref_t<T>::kernel_shape;
};
template <class T>
concept NumberOperand = KernelOperand<T> || PlainNumber<std::remove_cvref_t<T>>;

/// A literal as a leaf of an expression.
template <int Code>
struct LiteralOperand {
  static constexpr int code = Code;
  using kernel_shape = Shape<>;
  Number number;
  Emitted emit(ir::Builder&) const { return {{}, number}; }
};

/// A value as a leaf.
template <int Code, class S>
struct ValueOperand {
  static constexpr int code = Code;
  using kernel_shape = S;
  ir::Value value;
  Emitted emit(ir::Builder&) const { return {value, {}}; }
};

/// An element-wise operation that is not in the IR yet. Code: the result's element.
template <Opcode opcode, int Code, class S, class... Operands>
struct Expr;

template <class T>
inline constexpr bool is_expression = false;
template <Opcode opcode, int Code, class S, class... Operands>
inline constexpr bool is_expression<Expr<opcode, Code, S, Operands...>> = true;

template <class T>
inline constexpr bool is_leaf = false;
template <int Code>
inline constexpr bool is_leaf<LiteralOperand<Code>> = true;
template <int Code, class S>
inline constexpr bool is_leaf<ValueOperand<Code, S>> = true;

template <Opcode opcode, int Code, class S, class A>
struct Expr<opcode, Code, S, A> {
  static constexpr int code = Code;
  using kernel_shape = S;
  A a;
  Emitted emit(ir::Builder& builder) const {
    if constexpr (opcode == Opcode::cast)
      return {emit_as(builder, a.emit(builder), static_cast<ElementType>(Code)), {}};
    else
      return emit_unary(builder, opcode, a.emit(builder));
  }
  explicit operator bool() const { return rules::is_not_a_branch<S>(); }
};

template <Opcode opcode, int Code, class S, class A, class B>
struct Expr<opcode, Code, S, A, B> {
  static constexpr int code = Code;
  using kernel_shape = S;
  A a;
  B b;
  Emitted emit(ir::Builder& builder) const {
    Emitted left = a.emit(builder);
    return emit_binary(builder, opcode, left, b.emit(builder));
  }
  explicit operator bool() const { return rules::is_not_a_branch<S>(); }
};

template <Opcode opcode, int Code, class S, class A, class B, class C>
struct Expr<opcode, Code, S, A, B, C> {
  static constexpr int code = Code;
  using kernel_shape = S;
  A a;
  B b;
  C c;
  Emitted emit(ir::Builder& builder) const {
    Emitted first = a.emit(builder), second = b.emit(builder), third = c.emit(builder);
    if constexpr (opcode == Opcode::select)
      return emit_select(builder, first, second, third);
    else
      return emit_fma(builder, first, second, third);
  }
  explicit operator bool() const { return rules::is_not_a_branch<S>(); }
};

/// x as a leaf or node of a bigger expression.
template <class X>
auto operand(X&& x) {
  using Plain = std::remove_cvref_t<X>;
  if constexpr (PlainNumber<Plain>) {
    return LiteralOperand<number_code<Plain>>{Number(x)};
  } else if constexpr (is_leaf<Plain>) {
    return Plain(x);
  } else if constexpr (is_expression<Plain>) {
    if constexpr (std::is_lvalue_reference_v<X>) static_assert(rules::lives_one_statement<Plain>());
    return static_cast<Plain>(static_cast<X&&>(x));
  } else {
    return ValueOperand<Plain::code, typename Plain::kernel_shape>{x.value()};
  }
}

template <Opcode opcode, class A>
auto unary_expression(A&& x) {
  auto a = operand(static_cast<A&&>(x));
  using Left = decltype(a);
  static_assert(rules::elements_fit<opcode, Left::code, Left::code>());
  return Expr<opcode, result_code(opcode, Left::code), typename Left::kernel_shape, Left>{a};
}

template <Opcode opcode, class A, class B>
auto binary_expression(A&& x, B&& y) {
  auto a = operand(static_cast<A&&>(x));
  auto b = operand(static_cast<B&&>(y));
  using Left = decltype(a);
  using Right = decltype(b);
  using Shapes = Broadcast<typename Left::kernel_shape, typename Right::kernel_shape>;
  static_assert(rules::shapes_fit<typename Left::kernel_shape, typename Right::kernel_shape>());
  static_assert(rules::elements_fit<opcode, Left::code, Right::code>());
  return Expr<opcode, result_code(opcode, promote_codes(Left::code, Right::code)), typename Shapes::type, Left, Right>{a, b};
}

/// select(condition, a, b) or fma(a, b, c).
template <Opcode opcode, class A, class B, class C>
auto ternary_expression(A&& x, B&& y, C&& z) {
  auto a = operand(static_cast<A&&>(x));
  auto b = operand(static_cast<B&&>(y));
  auto c = operand(static_cast<C&&>(z));
  using First = decltype(a);
  using Second = decltype(b);
  using Third = decltype(c);
  using Values = Broadcast<typename Second::kernel_shape, typename Third::kernel_shape>;
  using All = Broadcast<typename First::kernel_shape, typename Values::type>;
  static_assert(rules::shapes_fit<typename Second::kernel_shape, typename Third::kernel_shape>());
  static_assert(rules::shapes_fit<typename First::kernel_shape, typename Values::type>());
  constexpr int values = promote_codes(Second::code, Third::code);
  if constexpr (opcode == Opcode::select) {
    static_assert(rules::is_condition<First::code>());
    return Expr<opcode, values, typename All::type, First, Second, Third>{a, b, c};
  } else {
    constexpr int all = result_code(opcode, promote_codes(First::code, values));
    return Expr<opcode, all, typename All::type, First, Second, Third>{a, b, c};
  }
}

/// Puts x into the IR at the builder's line; a number stays a number.
template <class X>
Emitted emit_operand(ir::Builder& builder, X&& x) {
  return operand(static_cast<X&&>(x)).emit(builder);
}

/// The same as a value.
template <class X>
ir::Value emit_value(ir::Builder& builder, X&& x) {
  return emit_alone(builder, emit_operand(builder, static_cast<X&&>(x)));
}

/// max(x, 1) and min(x, 1) of a tile whose shape only the trace knows: a reduction over axis 1.
template <class A, class B>
concept ReductionCall = KernelOperand<A> && std::is_integral_v<std::remove_cvref_t<B>> && std::remove_cvref_t<A>::kernel_shape::rank < 0;

template <class X>
inline constexpr int code_of = [] {
  if constexpr (PlainNumber<std::remove_cvref_t<X>>)
    return number_code<std::remove_cvref_t<X>>;
  else
    return std::remove_cvref_t<X>::code;
}();
template <class X>
struct ShapeOf {
  using type = typename X::kernel_shape;
};
template <PlainNumber X>
struct ShapeOf<X> {
  using type = Shape<>;
};
template <class X>
using shape_of = typename ShapeOf<std::remove_cvref_t<X>>::type;

/// The C++ element type of an operand; a floating literal alone is f32.
template <class X>
using element_of = element_of_code<code_of<X>>;

}  // namespace flextile
