// Operators of kernels (tiles, scalars, variables) and of mods (nodes). Both sides of && and || are evaluated.
#pragma once
#include <flextile/dsl/mod_node.hpp>
#include <flextile/dsl/tile.hpp>

namespace flextile {

template <class A>
concept OperatorOperand = KernelOperand<A> || ModNode<A>;
/// Two operands of one kind. Numbers have overloads of their own, by value: a constant needs no capture in a lambda.
template <class A, class B>
concept OperatorPair = (KernelOperand<A> && KernelOperand<B>) || (ModNode<A> && ModNode<B>);

template <Opcode opcode, class A, class B>
constexpr auto element_wise(A&& a, B&& b) {
  if constexpr (ModPair<A, B>)
    return binary_node<opcode>(a, b);
  else
    return binary_expression<opcode>(static_cast<A&&>(a), static_cast<B&&>(b));
}
template <Opcode opcode, class A>
constexpr auto element_wise(A&& a) {
  if constexpr (ModNode<A>)
    return unary_node<opcode>(a);
  else
    return unary_expression<opcode>(static_cast<A&&>(a));
}

/// Operands are i1 in a kernel; in a mod, a number other than 0 is true.
template <Opcode opcode, class A, class B>
constexpr auto logical(A&& a, B&& b) {
  if constexpr (ModPair<A, B>) {
    return logical_node<opcode>(a, b);
  } else {
    static_assert(rules::is_condition<code_of<A>>());
    static_assert(rules::is_condition<code_of<B>>());
    return binary_expression<opcode>(static_cast<A&&>(a), static_cast<B&&>(b));
  }
}

#define BINARY(symbol, function, opcode)                                                                            \
  template <class A, class B>                                                                                       \
  requires OperatorPair<A, B>                                                                                       \
  auto operator symbol(A&& a, B&& b) { return function<Opcode::opcode>(static_cast<A&&>(a), static_cast<B&&>(b)); } \
  template <OperatorOperand A, PlainNumber B>                                                                       \
  auto operator symbol(A&& a, B b) {                                                                                \
    return function<Opcode::opcode>(static_cast<A&&>(a), b);                                                        \
  }                                                                                                                 \
  template <PlainNumber A, OperatorOperand B>                                                                       \
  auto operator symbol(A a, B&& b) {                                                                                \
    return function<Opcode::opcode>(a, static_cast<B&&>(b));                                                        \
  }
#define OPERATOR(symbol, opcode) BINARY(symbol, element_wise, opcode)
#define LOGICAL(symbol, opcode) BINARY(symbol, logical, opcode)
#include <flextile/dsl/operators.def>
#undef LOGICAL
#undef OPERATOR
#undef BINARY

template <OperatorOperand A>
auto operator-(A&& a) {
  return element_wise<Opcode::neg>(static_cast<A&&>(a));
}
template <OperatorOperand A>
auto operator~(A&& a) {
  return element_wise<Opcode::bit_not>(static_cast<A&&>(a));
}
template <OperatorOperand A>
auto operator!(A&& a) {
  if constexpr (ModNode<A>) {
    return unary_node<Opcode::bit_not>(truth_node(as_node(a)));
  } else {
    static_assert(rules::is_condition<code_of<A>>());
    return unary_expression<Opcode::bit_not>(static_cast<A&&>(a));
  }
}

}  // namespace flextile
