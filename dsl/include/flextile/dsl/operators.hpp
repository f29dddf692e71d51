// Operators and element-wise functions, for kernels (tiles, scalars, variables) and for mods (nodes), and the functions
// for plain numbers, so that one generic lambda serves all three.
#pragma once
#include <flextile/dsl/mod_node.hpp>
#include <flextile/dsl/tile.hpp>

namespace flextile {

template <class A, class B> concept OperatorPair =
    (KernelOperand<A> && NumberOperand<B>) || (PlainNumber<std::remove_cvref_t<A>> && KernelOperand<B>) || ModPair<A, B>;
template <class A> concept OperatorOperand = KernelOperand<A> || ModNode<A>;

template <Opcode opcode, class A, class B> constexpr auto element_wise(A&& a, B&& b) {
  if constexpr (ModPair<A, B>) return binary_node<opcode>(a, b);
  else return binary_expression<opcode>(static_cast<A&&>(a), static_cast<B&&>(b));
}
template <Opcode opcode, class A> constexpr auto element_wise(A&& a) {
  if constexpr (ModNode<A>) return unary_node<opcode>(a);
  else return unary_expression<opcode>(static_cast<A&&>(a));
}

template <Opcode opcode, class A, class B> constexpr auto logical(A&& a, B&& b) {
  if constexpr (ModPair<A, B>) {
    return logical_node<opcode>(a, b);
  } else {
    static_assert(rules::is_condition<code_of<A>>());
    static_assert(rules::is_condition<code_of<B>>());
    return binary_expression<opcode>(static_cast<A&&>(a), static_cast<B&&>(b));
  }
}

template <class A, class B> requires OperatorPair<A, B> auto operator+(A&& a, B&& b) { return element_wise<Opcode::add>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator-(A&& a, B&& b) { return element_wise<Opcode::sub>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator*(A&& a, B&& b) { return element_wise<Opcode::mul>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator/(A&& a, B&& b) { return element_wise<Opcode::div>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator%(A&& a, B&& b) { return element_wise<Opcode::rem>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator&(A&& a, B&& b) { return element_wise<Opcode::bit_and>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator|(A&& a, B&& b) { return element_wise<Opcode::bit_or>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator^(A&& a, B&& b) { return element_wise<Opcode::bit_xor>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator<<(A&& a, B&& b) { return element_wise<Opcode::shl>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator>>(A&& a, B&& b) { return element_wise<Opcode::shr>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator==(A&& a, B&& b) { return element_wise<Opcode::eq>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator!=(A&& a, B&& b) { return element_wise<Opcode::ne>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator<(A&& a, B&& b) { return element_wise<Opcode::lt>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator<=(A&& a, B&& b) { return element_wise<Opcode::le>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator>(A&& a, B&& b) { return element_wise<Opcode::gt>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator>=(A&& a, B&& b) { return element_wise<Opcode::ge>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A> requires OperatorOperand<A> auto operator-(A&& a) { return element_wise<Opcode::neg>(static_cast<A&&>(a)); }
template <class A> requires OperatorOperand<A> auto operator~(A&& a) { return element_wise<Opcode::bit_not>(static_cast<A&&>(a)); }

/// Both sides are evaluated. Operands are i1 in a kernel; in a mod, a number other than 0 is true.
template <class A, class B> requires OperatorPair<A, B> auto operator&&(A&& a, B&& b) { return logical<Opcode::bit_and>(static_cast<A&&>(a), static_cast<B&&>(b)); }
template <class A, class B> requires OperatorPair<A, B> auto operator||(A&& a, B&& b) { return logical<Opcode::bit_or>(static_cast<A&&>(a), static_cast<B&&>(b)); }

template <class A> requires OperatorOperand<A> auto operator!(A&& a) {
  if constexpr (ModNode<A>) {
    return unary_node<Opcode::bit_not>(truth_node(as_node(a)));
  } else {
    static_assert(rules::is_condition<code_of<A>>());
    return unary_expression<Opcode::bit_not>(static_cast<A&&>(a));
  }
}

}  // namespace flextile
