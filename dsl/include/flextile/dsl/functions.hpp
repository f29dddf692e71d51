// Element-wise functions of tiles, of mods' nodes and of plain numbers. Integers convert to f32, so exp2(h) means the
// same with a number, in a mod and in a kernel; abs, min and max keep integers.
#pragma once
#include <flextile/dsl/host_math.hpp>
#include <flextile/dsl/operators.hpp>

namespace flextile {

/// The type a plain number computes in: double stays double, float and half types are float.
template <class T>
using plain_real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class A>
requires OperatorOperand<A>
auto abs(A&& x) { return element_wise<Opcode::abs>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto ceil(A&& x) { return element_wise<Opcode::ceil>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto floor(A&& x) { return element_wise<Opcode::floor>(static_cast<A&&>(x)); }
/// To the nearest integer, ties to even.
template <class A>
requires OperatorOperand<A>
auto round(A&& x) { return element_wise<Opcode::round>(static_cast<A&&>(x)); }
/// Toward zero.
template <class A>
requires OperatorOperand<A>
auto trunc(A&& x) { return element_wise<Opcode::trunc>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto sqrt(A&& x) { return element_wise<Opcode::sqrt>(static_cast<A&&>(x)); }
/// 1 / sqrt(x).
template <class A>
requires OperatorOperand<A>
auto rsqrt(A&& x) { return element_wise<Opcode::rsqrt>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto exp(A&& x) { return element_wise<Opcode::exp>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto exp2(A&& x) { return element_wise<Opcode::exp2>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto log(A&& x) { return element_wise<Opcode::log>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto log2(A&& x) { return element_wise<Opcode::log2>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto sin(A&& x) { return element_wise<Opcode::sin>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto cos(A&& x) { return element_wise<Opcode::cos>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto tanh(A&& x) { return element_wise<Opcode::tanh>(static_cast<A&&>(x)); }
template <class A>
requires OperatorOperand<A>
auto erf(A&& x) { return element_wise<Opcode::erf>(static_cast<A&&>(x)); }

template <class T>
requires PlainNumber<T> T abs(T x) { return host::unary<Opcode::abs>(x); }
template <class T>
requires PlainNumber<T>
auto ceil(T x) { return host::unary<Opcode::ceil>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto floor(T x) { return host::unary<Opcode::floor>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto round(T x) { return host::unary<Opcode::round>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto trunc(T x) { return host::unary<Opcode::trunc>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto sqrt(T x) { return host::unary<Opcode::sqrt>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto rsqrt(T x) { return host::unary<Opcode::rsqrt>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto exp(T x) { return host::unary<Opcode::exp>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto exp2(T x) { return host::unary<Opcode::exp2>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto log(T x) { return host::unary<Opcode::log>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto log2(T x) { return host::unary<Opcode::log2>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto sin(T x) { return host::unary<Opcode::sin>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto cos(T x) { return host::unary<Opcode::cos>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto tanh(T x) { return host::unary<Opcode::tanh>(static_cast<plain_real<T>>(x)); }
template <class T>
requires PlainNumber<T>
auto erf(T x) { return host::unary<Opcode::erf>(static_cast<plain_real<T>>(x)); }

/// The smaller, the larger; the other operand where one is NaN. min(x, 1) of a tile whose shape only the trace knows is a
/// reduction along axis 1 (see reduce.hpp).
template <class A, class B>
requires OperatorPair<A, B>
auto min(A&& a, B&& b) { return element_wise<Opcode::min>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <OperatorOperand A, PlainNumber B>
requires(!ReductionCall<A, B>) auto min(A&& a, B b) { return element_wise<Opcode::min>(static_cast<A&&>(a), b); }
template <PlainNumber A, OperatorOperand B>
auto min(A a, B&& b) {
  return element_wise<Opcode::min>(a, static_cast<B&&>(b));
}
template <class A, class B>
requires OperatorPair<A, B>
auto max(A&& a, B&& b) { return element_wise<Opcode::max>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <OperatorOperand A, PlainNumber B>
requires(!ReductionCall<A, B>) auto max(A&& a, B b) { return element_wise<Opcode::max>(static_cast<A&&>(a), b); }
template <PlainNumber A, OperatorOperand B>
auto max(A a, B&& b) {
  return element_wise<Opcode::max>(a, static_cast<B&&>(b));
}
/// a to the power b.
template <class A, class B>
requires OperatorPair<A, B>
auto pow(A&& a, B&& b) { return element_wise<Opcode::pow>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <OperatorOperand A, PlainNumber B>
auto pow(A&& a, B b) {
  return element_wise<Opcode::pow>(static_cast<A&&>(a), b);
}
template <PlainNumber A, OperatorOperand B>
auto pow(A a, B&& b) {
  return element_wise<Opcode::pow>(a, static_cast<B&&>(b));
}

template <class A, class B>
using plain_common = element_of_code<promote_codes(number_code<A>, number_code<B>)>;
template <class A, class B>
requires PlainNumber<A> && PlainNumber<B>
auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return host::binary<Opcode::min>(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires PlainNumber<A> && PlainNumber<B>
auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return host::binary<Opcode::max>(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires PlainNumber<A> && PlainNumber<B>
auto pow(A a, B b) {
  using T = plain_real<std::common_type_t<A, B>>;
  return host::binary<Opcode::pow>(static_cast<T>(a), static_cast<T>(b));
}

template <class A, class B, class C>
concept OperatorTriple = (KernelOperand<A> || KernelOperand<B> || KernelOperand<C>)&&NumberOperand<A>&& NumberOperand<B>&& NumberOperand<C>;
template <class A, class B, class C>
concept ModTriple = (ModNode<A> || ModNode<B> || ModNode<C>)&&(ModNode<A> || PlainNumber<std::remove_cvref_t<A>>)&&(
    ModNode<B> || PlainNumber<std::remove_cvref_t<B>>)&&(ModNode<C> || PlainNumber<std::remove_cvref_t<C>>);

/// a where condition is true, else b; both are evaluated.
template <class C, class A, class B>
requires OperatorTriple<C, A, B> || ModTriple<C, A, B>
auto where(C&& condition, A&& a, B&& b) {
  if constexpr (ModTriple<C, A, B>) {
    using Condition = std::remove_cvref_t<decltype(truth_node(as_node(condition)))>;
    return WhereNode<Condition, node_of<A>, node_of<B>>(truth_node(as_node(condition)), as_node(a), as_node(b));
  } else {
    return ternary_expression<Opcode::select>(static_cast<C&&>(condition), static_cast<A&&>(a), static_cast<B&&>(b));
  }
}
template <class C, class A, class B>
requires PlainNumber<C> && PlainNumber<A> && PlainNumber<B>
auto where(C condition, A a, B b) {
  using T = plain_common<A, B>;
  return condition ? static_cast<T>(a) : static_cast<T>(b);
}

/// The condition, with the word that it seldom holds: where(unlikely(c), a, b) may skip computing a where no c near it holds
/// (a GPU asks per warp). Only speed depends on it.
template <class C>
requires KernelOperand<C>
auto unlikely(C&& condition) {
  static_assert(rules::is_condition<code_of<C>>());
  return unary_expression<Opcode::unlikely>(static_cast<C&&>(condition));
}
template <class C>
requires ModNode<C> || PlainNumber<C>
C unlikely(const C& condition) { return condition; }

/// a * b + c, rounded once.
template <class A, class B, class C>
requires OperatorTriple<A, B, C> || ModTriple<A, B, C>
auto fma(A&& a, B&& b, C&& c) {
  if constexpr (ModTriple<A, B, C>)
    return FmaNode<node_of<A>, node_of<B>, node_of<C>>(as_node(a), as_node(b), as_node(c));
  else
    return ternary_expression<Opcode::fma>(static_cast<A&&>(a), static_cast<B&&>(b), static_cast<C&&>(c));
}
template <class T>
requires PlainNumber<T>
auto fma(T a, T b, T c) {
  using Real = plain_real<T>;
  return host::fma(static_cast<Real>(a), static_cast<Real>(b), static_cast<Real>(c));
}

/// Conversion to another element type.
template <class T, class A>
requires KernelOperand<A> && Element<T>
auto cast(A&& x) {
  auto a = operand(static_cast<A&&>(x));
  return Expr<Opcode::cast, element_code<T>, typename decltype(a)::kernel_shape, decltype(a)>{a};
}
template <class T, class A>
requires ModNode<A> && Element<T>
auto cast(const A& x) {
  constexpr int code = element_code<T>;
  constexpr bool half = code == element_code<f16> || code == element_code<bf16> || code == element_code<f8e4m3> || code == element_code<f8e5m2>;
  static_assert(!half, "[cast] a mod computes in f32: it has no f16, bf16 or 8-bit floats");
  return CastNode < half ? element_code<f32> : code, A > (x);
}
template <class T, class A>
requires PlainNumber<A> && std::is_arithmetic_v<T> T cast(A x) { return host::convert<T>(x); }

/// Quotient rounded up, for what is not negative: ceil_div(n, 128) programs cover n elements.
template <OperatorOperand A, class B>
requires OperatorPair<A, B> || PlainNumber<std::remove_cvref_t<B>>
auto ceil_div(A&& a, B&& b) {
  if constexpr (ModPair<A, B> || PlainNumber<std::remove_cvref_t<B>>) {
    return (static_cast<A&&>(a) + (b - 1)) / b;
  } else {
    auto divisor = operand(static_cast<B&&>(b));
    static_assert(!is_expression<decltype(divisor)>, "[ceil_div] the divisor is used twice: name it with Tile or Scalar first");
    return binary_expression<Opcode::div>(binary_expression<Opcode::add>(static_cast<A&&>(a), binary_expression<Opcode::sub>(b, 1)), b);
  }
}
template <class A, class B>
requires std::is_integral_v<A> && std::is_integral_v<B>
constexpr auto ceil_div(A a, B b) { return (a + b - 1) / b; }

inline constexpr float infinity = __builtin_inff();
inline constexpr float log2e = 1.44269504088896340736f;
inline constexpr float ln2 = 0.69314718055994530942f;

}  // namespace flextile
