// The expressions of score and mask mods. Nodes are copyable values whose type is the program: what the lambda of a mod
// returns is evaluated in any domain (IR, plain numbers, ...), and its leaves are what the lambda was called with.
#pragma once
#include <boost/hana/basic_tuple.hpp>
#include <flextile/dsl/number.hpp>
#include <flextile/dsl/rules.hpp>
#include <flextile/ir/tensor_handle.hpp>

namespace flextile {

template <class T>
concept ModNode = requires {
  std::remove_cvref_t<T>::mod_code;
};
template <class A, class B>
concept ModPair = (ModNode<A> && (ModNode<B> || PlainNumber<std::remove_cvref_t<B>>)) ||
                  (PlainNumber<std::remove_cvref_t<A>> && ModNode<B>);

/// The value of a node that has no leaves left: only numbers and host tensors. Defined in mod_number.hpp.
template <class Node>
auto node_value(const Node& node);

/// Conversions that every node has.
template <class Derived>
struct ModValue {
  /// A node of numbers and host tensors is its value; a node with leaves cannot be asked.
  template <class To>
  requires(Derived::closed&& std::is_arithmetic_v<To>) operator To() const {
    return static_cast<To>(node_value(static_cast<const Derived&>(*this)));
  }
  template <class To>
  requires(!Derived::closed && std::is_same_v<To, bool>) explicit operator To() const { return rules::is_not_a_branch_in_a_mod<Derived>(); }
};

// ---- leaves

enum class ModLeaf { score, batch, head, query, key };

/// A parameter of the mod.
template <ModLeaf Which>
struct LeafNode : ModValue<LeafNode<Which>> {
  static constexpr int mod_code = static_cast<int>(Which == ModLeaf::score ? ElementType::f32 : ElementType::i32);
  static constexpr bool closed = false;
  template <class Domain, class Environment>
  auto evaluate(Domain&, const Environment& environment) const {
    return lookup<LeafNode>(environment);
  }
  template <class Visitor>
  void visit(Visitor&&) const {}
};

/// A literal: baked into the compiled form.
template <PlainNumber T>
struct NumberNode : ModValue<NumberNode<T>> {
  static constexpr int mod_code = number_code<T>;
  static constexpr bool closed = true;
  T value;
  constexpr explicit NumberNode(T value) : value(value) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment&) const {
    return domain.number(value);
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    visitor.number(Number(value));
  }
};

/// A number that is an argument of the compiled form: dynamic(x).
template <class T>
struct DynamicNode : ModValue<DynamicNode<T>> {
  static constexpr int mod_code = element_code<T>;
  static constexpr bool closed = true;
  T value;
  std::uint64_t identity;  // copies of one dynamic(x) share it
  DynamicNode(T value, std::uint64_t identity) : value(value), identity(identity) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment&) const {
    return domain.scalar(*this);
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    visitor.scalar(*this);
  }
};

/// The counter of a sum_over or fold, named by the type of its lambda.
template <class Body>
struct CounterNode : ModValue<CounterNode<Body>> {
  static constexpr int mod_code = static_cast<int>(ElementType::i32);
  static constexpr bool closed = true;
  template <class Domain, class Environment>
  auto evaluate(Domain&, const Environment& environment) const {
    return lookup<CounterNode>(environment);
  }
  template <class Visitor>
  void visit(Visitor&&) const {}
};

/// The value so far of a fold.
template <class Body, int Code>
struct AccumulatorNode : ModValue<AccumulatorNode<Body, Code>> {
  static constexpr int mod_code = Code;
  static constexpr bool closed = true;
  template <class Domain, class Environment>
  auto evaluate(Domain&, const Environment& environment) const {
    return lookup<AccumulatorNode>(environment);
  }
  template <class Visitor>
  void visit(Visitor&&) const {}
};

// ---- what leaves are bound to

struct EmptyEnvironment {};
template <class Node, class Value, class Next>
struct Environment {
  Value value;
  const Next& next;
};
template <class Node, class Value, class Next>
Environment<Node, Value, Next> bind(Value value, const Next& next) {
  return {value, next};
}

template <class Node, class Value, class Next>
auto lookup(const Environment<Node, Value, Next>& environment) {
  return environment.value;
}
template <class Node, class Other, class Value, class Next>
requires(!std::is_same_v<Node, Other>) auto lookup(const Environment<Other, Value, Next>& environment) {
  return lookup<Node>(environment.next);
}
template <class Node>
auto lookup(const EmptyEnvironment&) {
  static_assert(rules::is_not_a_branch_in_a_mod<Node>());
  return 0;
}

/// x as a node: itself, for as long as x lives, or a literal.
template <class X>
decltype(auto) as_node(const X& x) {
  if constexpr (ModNode<X>) return (x);
  else return NumberNode<X>(x);
}
template <class X>
using node_of = std::remove_cvref_t<decltype(as_node(std::declval<const std::remove_cvref_t<X>&>()))>;

// ---- element-wise operations

template <Opcode opcode, class A>
struct UnaryNode : ModValue<UnaryNode<opcode, A>> {
  static constexpr int computing = computing_code(opcode, A::mod_code);
  static constexpr int mod_code = computing;
  static constexpr bool closed = A::closed;
  A a;
  explicit UnaryNode(const A& a) : a(a) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    return domain.template unary<opcode, computing>(a.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    a.visit(visitor);
  }
};

template <Opcode opcode, class A, class B>
struct BinaryNode : ModValue<BinaryNode<opcode, A, B>> {
  static constexpr int promoted = promote_codes(A::mod_code, B::mod_code);
  static constexpr int computing = computing_code(opcode, promoted);
  static constexpr int mod_code = result_code(opcode, promoted);
  static constexpr bool closed = A::closed && B::closed;
  A a;
  B b;
  BinaryNode(const A& a, const B& b) : a(a), b(b) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    auto left = a.evaluate(domain, environment);
    return domain.template binary<opcode, computing>(left, b.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    a.visit(visitor), b.visit(visitor);
  }
};

/// x as i1: a number other than 0 is true.
template <class A>
struct TruthNode : ModValue<TruthNode<A>> {
  static constexpr int mod_code = static_cast<int>(ElementType::i1);
  static constexpr bool closed = A::closed;
  A a;
  explicit TruthNode(const A& a) : a(a) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    return domain.truth(a.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    a.visit(visitor);
  }
};

template <int Code, class A>
struct CastNode : ModValue<CastNode<Code, A>> {
  static constexpr int mod_code = Code;
  static constexpr bool closed = A::closed;
  A a;
  explicit CastNode(const A& a) : a(a) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    return domain.template cast<Code>(a.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    a.visit(visitor);
  }
};

template <class Condition, class A, class B>
struct WhereNode : ModValue<WhereNode<Condition, A, B>> {
  static constexpr int mod_code = promote_codes(A::mod_code, B::mod_code);
  static constexpr bool closed = Condition::closed && A::closed && B::closed;
  Condition condition;
  A a;
  B b;
  WhereNode(const Condition& condition, const A& a, const B& b) : condition(condition), a(a), b(b) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    auto chosen = domain.truth(condition.evaluate(domain, environment));
    auto first = a.evaluate(domain, environment);
    return domain.template select<mod_code>(chosen, first, b.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    condition.visit(visitor), a.visit(visitor), b.visit(visitor);
  }
};

template <class A, class B, class C>
struct FmaNode : ModValue<FmaNode<A, B, C>> {
  static constexpr int mod_code = computing_code(Opcode::fma, promote_codes(A::mod_code, promote_codes(B::mod_code, C::mod_code)));
  static constexpr bool closed = A::closed && B::closed && C::closed;
  A a;
  B b;
  C c;
  FmaNode(const A& a, const B& b, const C& c) : a(a), b(b), c(c) {}
  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    auto first = a.evaluate(domain, environment);
    auto second = b.evaluate(domain, environment);
    return domain.template fma<mod_code>(first, second, c.evaluate(domain, environment));
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    a.visit(visitor), b.visit(visitor), c.visit(visitor);
  }
};

template <class A>
decltype(auto) truth_node(const A& a) {
  if constexpr (A::mod_code == static_cast<int>(ElementType::i1)) return (a);
  else return TruthNode<A>(a);
}

template <Opcode opcode, class A>
auto unary_node(const A& a) {
  static_assert(rules::elements_fit<opcode, A::mod_code, A::mod_code>());
  return UnaryNode<opcode, A>(a);
}

template <Opcode opcode, class A, class B>
auto binary_node(const A& a, const B& b) {
  using Left = node_of<A>;
  using Right = node_of<B>;
  static_assert(rules::elements_fit<opcode, Left::mod_code, Right::mod_code>());
  return BinaryNode<opcode, Left, Right>(as_node(a), as_node(b));
}

/// && and || of mods: both sides are evaluated.
template <Opcode opcode, class A, class B>
auto logical_node(const A& a, const B& b) {
  return binary_node<opcode>(truth_node(as_node(a)), truth_node(as_node(b)));
}

}  // namespace flextile
