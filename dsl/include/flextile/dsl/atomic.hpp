// Atomic operations on pointers and tiles of pointers. All return the old values.
#pragma once
#include <flextile/dsl/pointer.hpp>

namespace flextile {

/// What an atomic operation orders, as in C++.
enum class Order { relaxed, acquire, release, acq_rel };
/// Among whom: the threads of one program, one GPU, or everything that sees the memory.
enum class Scope { cta, gpu, sys };

inline std::string_view name(Order order) {
  constexpr std::string_view names[] = {"relaxed", "acquire", "release", "acq_rel"};
  return names[static_cast<int>(order)];
}
inline std::string_view name(Scope scope) {
  constexpr std::string_view names[] = {"cta", "gpu", "sys"};
  return names[static_cast<int>(scope)];
}

struct AtomicOptions {
  Order order = Order::acq_rel;
  Scope scope = Scope::gpu;
};

template <class P, class V>
auto emit_atomic(std::string_view kind, P&& pointer, V&& value, const Emitted* mask, AtomicOptions options, ir::Builder& builder) {
  static_assert(is_storable<P, V>());
  ir::Value at = pointer.emit(builder);
  ir::Value operand_value = beside_pointer(builder, emit_operand(builder, static_cast<V&&>(value)), at);
  ir::Value guard = mask ? mask_beside_pointer(builder, *mask, at) : ir::Value{};
  return loaded_tile<P>::of(builder.atomic(kind, at, operand_value, guard, name(options.order), name(options.scope)));
}

/// Stores old + value; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_add(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("add", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_add(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("add", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores the larger; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_max(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("max", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_max(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("max", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores the smaller; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_min(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("min", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_min(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("min", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores old & value; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_and(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("and", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_and(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("and", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores old | value; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_or(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("or", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_or(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("or", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores old ^ value; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_xor(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("xor", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_xor(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("xor", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores value; elements whose mask is false are left alone.
template <PointerOperand P, NumberOperand V>
auto atomic_exchange(P&& pointer, V&& value, AtomicOptions options = {}, Where where = Where::current()) {
  return emit_atomic("exchange", static_cast<P&&>(pointer), static_cast<V&&>(value), nullptr, options, builder_at(where));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
auto atomic_exchange(P&& pointer, V&& value, M&& mask, AtomicOptions options = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  Emitted guard = emit_operand(builder, static_cast<M&&>(mask));
  return emit_atomic("exchange", static_cast<P&&>(pointer), static_cast<V&&>(value), &guard, options, builder);
}

/// Stores desired where the old value is expected.
template <PointerOperand P, NumberOperand E, NumberOperand D>
auto atomic_cas(P&& pointer, E&& expected, D&& desired, AtomicOptions options = {}, Where where = Where::current()) {
  static_assert(is_storable<P, E>() && is_storable<P, D>());
  ir::Builder& builder = builder_at(where);
  ir::Value at = pointer.emit(builder);
  ir::Value before = beside_pointer(builder, emit_operand(builder, static_cast<E&&>(expected)), at);
  ir::Value after = beside_pointer(builder, emit_operand(builder, static_cast<D&&>(desired)), at);
  return loaded_tile<P>::of(builder.atomic_cas(at, before, after, name(options.order), name(options.scope)));
}

}  // namespace flextile
