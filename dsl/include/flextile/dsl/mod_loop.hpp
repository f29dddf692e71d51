// Repetition in a mod: sum_over and fold. (A C++ loop cannot change a variable's type.)
#pragma once
#include <flextile/dsl/operators.hpp>

namespace flextile {

/// init, then accumulator = body(accumulator, i) for i from 0 to count - 1. Body holds a CounterNode<Tag> and an
/// AccumulatorNode<Tag, Code>, which evaluation binds.
template <class Tag, int Code, class Init, class Body>
struct FoldNode : ModValue<FoldNode<Tag, Code, Init, Body>> {
  static constexpr int mod_code = Code;
  static constexpr bool closed = Init::closed && Body::closed;
  Init init;
  int count;
  Body body;
  FoldNode(const Init& init, int count, const Body& body) : init(init), count(count), body(body) {}

  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    auto initial = domain.template cast<Code>(init.evaluate(domain, environment));
    return domain.repeat(count, initial, [&](auto counter, auto accumulator) {
      auto with_counter = bind<CounterNode<Tag>>(counter, environment);
      auto with_both = bind<AccumulatorNode<Tag, Code>>(accumulator, with_counter);
      return domain.template cast<Code>(body.evaluate(domain, with_both));
    });
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    visitor.number(Number(count));
    init.visit(visitor);
    body.visit(visitor);
  }
};

/// The element type that a value keeps through a fold: f32 for a floating literal, i32 instead of i1.
template <class Node>
inline constexpr int folded_code = computing_code(Opcode::add, Node::mod_code);

/// f(accumulator, i) repeated count times from init: fold(0, 8, [&](auto bits, auto i) { return bits | ((x >> i) & 1) << i; }).
/// The accumulator keeps the element type of init.
template <class Init, class F>
requires(ModNode<Init> || PlainNumber<Init>) auto fold(const Init& init, int count, F f) {
  using Start = node_of<Init>;
  constexpr int code = folded_code<Start>;
  auto body = as_node(f(AccumulatorNode<F, code>{}, CounterNode<F>{}));
  return FoldNode<F, code, Start, decltype(body)>(as_node(init), count, body);
}

/// f(0) + f(1) + ... + f(count - 1); 0 where count is 0.
template <class F>
auto sum_over(int count, F f) {
  auto term = as_node(f(CounterNode<F>{}));
  constexpr int code = folded_code<decltype(term)>;
  using Zero = std::conditional_t<rules::code_is_float(code), float, int>;
  auto body = binary_node<Opcode::add>(AccumulatorNode<F, code>{}, term);
  return FoldNode<F, code, NumberNode<Zero>, decltype(body)>(NumberNode<Zero>(Zero{0}), count, body);
}

}  // namespace flextile
