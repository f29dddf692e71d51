// Reductions: along one axis, over all axes, and with a function of the user's.
#pragma once
#include <flextile/dsl/functions.hpp>

namespace flextile {

/// Sums of i1 count in i32.
inline ir::Value emit_reduce(ir::Builder& builder, std::string_view kind, ir::Value x, int axis) {
  if (builder.type(x).is_number() && builder.type(x).element == ElementType::i1 && kind != "and" && kind != "or" && kind != "xor")
    x = builder.cast(x, ElementType::i32);
  return builder.type(x).rank == 0 && axis < 0 ? x : builder.reduce(kind, x, axis);
}

template <class X>
using reduced_element = element_of_code<(code_of<X> == element_code<i1> ? element_code<i32> : code_of<X>)>;
template <class X>
inline constexpr bool shape_is_dynamic = shape_of<X>::rank < 0;

template <int Axis, class E, class X>
auto reduce_axis(std::string_view kind, X&& x, const Where& where) {
  static_assert(rules::axis_exists<Axis, shape_of<X>::rank>());
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<E, typename DropAxis<shape_of<X>, Axis>::type>::of(emit_reduce(builder, kind, value, Axis));
}
template <class E, class X>
auto reduce_all(std::string_view kind, X&& x, const Where& where) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<E, std::conditional_t<shape_is_dynamic<X>, Dynamic, Shape<>>>::of(emit_reduce(builder, kind, value, -1));
}
template <class X>
AnyTile reduce_dynamic(std::string_view kind, X&& x, int axis, const Where& where) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  if (axis < 0 || axis >= builder.type(value).rank) {
    builder.fail("[reduce] the tile is " + to_string(builder.type(value)) + ", axis is " + std::to_string(axis) +
                 ": axes go from 0 to rank - 1");
  }
  return AnyTile::of(emit_reduce(builder, kind, value, axis));
}

/// sum<axis>(x) drops an axis, sum(x) gives a scalar, sum(x, axis) takes an axis that only the trace knows.
template <int Axis, KernelOperand X>
auto sum(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, reduced_element<X>>("sum", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto sum(X&& x, Where where = Where::current()) {
  return reduce_all<reduced_element<X>>("sum", static_cast<X&&>(x), where);
}
template <KernelOperand X>
AnyTile sum(X&& x, int axis, Where where = Where::current()) {
  return reduce_dynamic("sum", static_cast<X&&>(x), axis, where);
}

template <int Axis, KernelOperand X>
auto max(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, reduced_element<X>>("max", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto max(X&& x, Where where = Where::current()) {
  return reduce_all<reduced_element<X>>("max", static_cast<X&&>(x), where);
}
template <class X, class I>
requires ReductionCall<X, I> AnyTile max(X&& x, I axis, Where where = Where::current()) {
  return reduce_dynamic("max", static_cast<X&&>(x), static_cast<int>(axis), where);
}

template <int Axis, KernelOperand X>
auto min(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, reduced_element<X>>("min", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto min(X&& x, Where where = Where::current()) {
  return reduce_all<reduced_element<X>>("min", static_cast<X&&>(x), where);
}
template <class X, class I>
requires ReductionCall<X, I> AnyTile min(X&& x, I axis, Where where = Where::current()) {
  return reduce_dynamic("min", static_cast<X&&>(x), static_cast<int>(axis), where);
}

template <int Axis, KernelOperand X>
auto prod(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, reduced_element<X>>("prod", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto prod(X&& x, Where where = Where::current()) {
  return reduce_all<reduced_element<X>>("prod", static_cast<X&&>(x), where);
}

/// Whether the condition holds anywhere, everywhere.
template <int Axis, KernelOperand X>
auto any(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, element_of<X>>("or", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto any(X&& x, Where where = Where::current()) {
  return reduce_all<element_of<X>>("or", static_cast<X&&>(x), where);
}
template <int Axis, KernelOperand X>
auto all(X&& x, Where where = Where::current()) {
  return reduce_axis<Axis, element_of<X>>("and", static_cast<X&&>(x), where);
}
template <KernelOperand X>
auto all(X&& x, Where where = Where::current()) {
  return reduce_all<element_of<X>>("and", static_cast<X&&>(x), where);
}

/// The block of a user-defined reduction: combine takes two scalars and gives one of the same type.
template <class E, class Combine>
ir::Value emit_combine(ir::Builder& builder, ir::Value x, int axis, Combine&& combine) {
  ir::OperationId reduction = builder.reduce_custom({x}, axis);
  ir::BlockId outside = builder.insertion_block();
  ElementType element = builder.type(x).element;
  builder.set_insertion_block(builder.function().operation(reduction).blocks[0]);
  using One = Tile<E, std::conditional_t<std::is_same_v<E, Dynamic>, Dynamic, Shape<>>>;
  Emitted combined = emit_operand(builder, combine(One::of(builder.argument(reduction, 0, 0)), One::of(builder.argument(reduction, 0, 1))));
  ir::Shape scalar;
  builder.yield({settle(builder, combined, static_cast<int>(element), &scalar)});
  builder.set_insertion_block(outside);
  return builder.results(reduction)[0];
}

/// A reduction with an associative and commutative function: reduce<1>(x, [](auto a, auto b) { return a * b; }).
template <int Axis, KernelOperand X, class Combine>
auto reduce(X&& x, Combine&& combine, Where where = Where::current()) {
  static_assert(rules::axis_exists<Axis, shape_of<X>::rank>());
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<element_of<X>, typename DropAxis<shape_of<X>, Axis>::type>::of(emit_combine<element_of<X>>(builder, value, Axis, combine));
}
template <KernelOperand X, class Combine>
AnyTile reduce(X&& x, int axis, Combine&& combine, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return AnyTile::of(emit_combine<Dynamic>(builder, value, axis, combine));
}

}  // namespace flextile
