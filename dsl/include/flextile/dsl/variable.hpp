// Var: the mutable value of a kernel.
#pragma once
#include <flextile/dsl/tile.hpp>

namespace flextile {

/// value stretched to `type`; throws where it does not become it.
inline ir::Value assignable(ir::Builder& builder, const Emitted& x, const ir::Type& type) {
  ir::Value value = x.value ? x.value : emit_number(builder, x.number, type.element);
  ir::Type from = builder.type(value);
  ir::Shape meeting;
  if (from.element == type.element && ir::broadcast_shapes(from.shape(), type.shape(), meeting) && meeting == type.shape()) {
    return stretch(builder, value, meeting);
  }
  builder.fail("[assign] the value is " + to_string(from) + ", the variable is " + to_string(type) +
               ": a variable keeps its type; cast or reshape the value");
}

/// A variable. Assigned inside a traced loop or branch, it becomes a carried value.
///
///   Var acc = zeros<f32, 128, 64>();
///   for (auto k : range(0, n, 32)) acc = dot(a.load<128, 32>(m, k), b.load<32, 64>(k, n0), acc);
template <class T, class S>
class Var {
 public:
  static constexpr int code = element_code<T>;
  using element = T;
  using kernel_shape = S;

  template <NumberOperand E>
  requires(!std::is_same_v<std::remove_cvref_t<E>, Var>) Var(E&& initial, Where where = Where::current())
      : Var(emit_settled<T, S>(static_cast<E&&>(initial), where)) {}
  Var(const Var& other) : Var(other.value()) {}
  static Var of(ir::Value value) { return Var(value); }

  ir::Value value() const {
    Tracing& tracing = Tracing::current();
    if (slot_ >= tracing.slots.size() || tracing.owners[slot_] != owner_) {
      tracing.builder.fail(
          "[scope] a Var that was made inside a traced loop or branch, or in another trace, is used outside of it: make it before the "
          "loop");
    }
    return tracing.slots[slot_];
  }
  const ir::Type& type() const { return builder_here().type(value()); }
  ElementType element_type() const { return type().element; }
  int rank() const { return type().rank; }
  int extent(int axis) const { return type().extents[axis]; }
  ir::Shape shape() const { return type().shape(); }

  /// What stands right of an assignment, with its line.
  struct Assigned {
    Emitted emitted;
    template <NumberOperand E>
    Assigned(E&& expression, Where where = Where::current()) : emitted(emit_operand(builder_at(where), static_cast<E&&>(expression))) {
      if constexpr (code >= 0 && code_of<E> >= 0) static_assert(rules::assignable_element<code_of<E>, code>());
      if constexpr (S::rank >= 0 && shape_of<E>::rank >= 0)
        static_assert(rules::assignable_shape<typename Broadcast<shape_of<E>, S>::type, S>());
    }
  };
  struct Combined {
    Emitted emitted;
    template <NumberOperand E>
    Combined(E&& expression, Where where = Where::current()) : emitted(emit_operand(builder_at(where), static_cast<E&&>(expression))) {
      static_assert(rules::shapes_fit<shape_of<E>, S>());
      if constexpr (code >= 0 && code_of<E> != dynamic_element)
        static_assert(rules::assignable_element<promote_codes(code, code_of<E>), code>());
      if constexpr (S::rank >= 0 && shape_of<E>::rank >= 0)
        static_assert(rules::assignable_shape<typename Broadcast<shape_of<E>, S>::type, S>());
    }
  };

  Var& operator=(const Assigned& right) { return assign(right.emitted); }
  /// volatile, so that only variables match and no expression converts to one first.
  Var& operator=(const volatile Var& other) { return assign({const_cast<const Var&>(other).value(), {}}); }
  Var& operator+=(const Combined& right) { return combine(Opcode::add, right); }
  Var& operator-=(const Combined& right) { return combine(Opcode::sub, right); }
  Var& operator*=(const Combined& right) { return combine(Opcode::mul, right); }
  Var& operator/=(const Combined& right) { return combine(Opcode::div, right); }
  Var& operator%=(const Combined& right) { return combine(Opcode::rem, right); }
  Var& operator&=(const Combined& right) { return combine(Opcode::bit_and, right); }
  Var& operator|=(const Combined& right) { return combine(Opcode::bit_or, right); }
  Var& operator^=(const Combined& right) { return combine(Opcode::bit_xor, right); }

  explicit operator bool() const { return rules::is_not_a_branch<S>(); }

 private:
  explicit Var(ir::Value value) : slot_(Tracing::current().slots.size()), owner_(Tracing::current().make_variable(value)) {}
  Var& assign(const Emitted& right) {
    ir::Builder& builder = builder_here();
    ir::Type type = builder.type(value());
    Tracing::current().slots[slot_] = assignable(builder, right, type);
    return *this;
  }
  Var& combine(Opcode opcode, const Combined& right) { return assign(emit_binary(builder_here(), opcode, {value(), {}}, right.emitted)); }

  std::size_t slot_;
  std::uint64_t owner_;
};
template <NumberOperand E>
Var(E&&) -> Var<element_of<E>, shape_of<E>>;
template <NumberOperand E>
Var(E&&, Where) -> Var<element_of<E>, shape_of<E>>;

using AnyVar = Var<Dynamic, Dynamic>;

}  // namespace flextile
