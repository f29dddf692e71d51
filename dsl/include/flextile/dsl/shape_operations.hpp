// Creation and reshaping of tiles. Each puts its operation into the IR at once.
#pragma once
#include <flextile/dsl/tile.hpp>

namespace flextile {

/// 0, 1, ..., N - 1.
template <int N>
Tile<i32, Shape<N>> arange(Where where = Where::current()) {
  return Tile<i32, Shape<N>>::of(builder_at(where).arange(N));
}
inline AnyTile arange(int count, Where where = Where::current()) { return AnyTile::of(builder_at(where).arange(count)); }

inline ir::Value emit_full(ir::Builder& builder, const ir::Type& type, const Number& value) {
  return is_float(type.element) ? builder.splat(type, value.as_double()) : builder.splat(type, value.as_integer(type.element));
}

inline ir::Value emit_filled(ir::Builder& builder, ir::Value value, const ir::Shape& shape) {
  if (builder.type(value).rank > 0) {
    builder.fail("[full] the value is " + to_string(builder.type(value)) + " and must be one number: stretch a tile with broadcast_to");
  }
  return stretch(builder, value, shape);
}

/// A tile of one value: full<f32, 64, 32>(0.5f).
template <class T, int... Extents, PlainNumber V>
Tile<T, Shape<Extents...>> full(V value, Where where = Where::current()) {
  return Tile<T, Shape<Extents...>>::of(emit_full(builder_at(where), ir::Type::tile(element_type_of<T>, {Extents...}), Number(value)));
}
/// The same of a value that the kernel computes, converted to T: full<f32, 64, 32>(scale).
template <class T, int... Extents, KernelOperand V>
Tile<T, Shape<Extents...>> full(V&& value, Where where = Where::current()) {
  static_assert(rules::fills_a_tile<shape_of<V>>());
  ir::Builder& builder = builder_at(where);
  return Tile<T, Shape<Extents...>>::of(
      emit_filled(builder, emit_as(builder, emit_operand(builder, static_cast<V&&>(value)), element_type_of<T>), {Extents...}));
}
/// A tile of the value's own element type: full(scale, {64, 32}).
template <NumberOperand V>
AnyTile full(V&& value, const ir::Shape& shape, Where where = Where::current()) {
  static_assert(rules::fills_a_tile<shape_of<V>>());
  ir::Builder& builder = builder_at(where);
  return AnyTile::of(emit_filled(builder, emit_alone(builder, emit_operand(builder, static_cast<V&&>(value))), shape));
}
template <KernelOperand V>
AnyTile full(ElementType element, const ir::Shape& shape, V&& value, Where where = Where::current()) {
  static_assert(rules::fills_a_tile<shape_of<V>>());
  ir::Builder& builder = builder_at(where);
  return AnyTile::of(emit_filled(builder, emit_as(builder, emit_operand(builder, static_cast<V&&>(value)), element), shape));
}
inline AnyTile full(ElementType element, const ir::Shape& shape, Number value, Where where = Where::current()) {
  return AnyTile::of(emit_full(builder_at(where), ir::Type::tile(element, shape), value));
}
template <class T, int... Extents>
Tile<T, Shape<Extents...>> zeros(Where where = Where::current()) {
  return full<T, Extents...>(0, where);
}
inline AnyTile zeros(ElementType element, const ir::Shape& shape, Where where = Where::current()) { return full(element, shape, 0, where); }

/// Which program this is, along an axis of the grid (0 to 2), and how many there are.
inline Scalar<i32> program_id(int axis, Where where = Where::current()) { return Scalar<i32>::of(builder_at(where).program_id(axis)); }
inline Scalar<i32> num_programs(int axis, Where where = Where::current()) { return Scalar<i32>::of(builder_at(where).num_programs(axis)); }

/// The element type that only the trace knows: cast(x, ElementType::bf16).
template <KernelOperand X>
AnyTile cast(X&& x, ElementType element, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  return AnyTile::of(emit_as(builder, emit_operand(builder, static_cast<X&&>(x)), element));
}

/// The same bits as another type of the same width.
template <Element T, KernelOperand X>
auto bitcast(X&& x, Where where = Where::current()) {
  if constexpr (code_of<X> >= 0)
    static_assert(rules::same_width<bit_width(static_cast<ElementType>(code_of<X>)), bit_width(element_type_of<T>)>());
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<T, shape_of<X>>::of(builder.bitcast(value, element_type_of<T>));
}
template <KernelOperand X>
AnyTile bitcast(X&& x, ElementType element, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return AnyTile::of(builder.bitcast(value, element));
}

/// Stretched to a shape; extents of 1 repeat, axes are matched from the last.
template <int... Extents, KernelOperand X>
auto broadcast_to(X&& x, Where where = Where::current()) {
  if constexpr (shape_of<X>::rank >= 0) {
    static_assert(rules::stretches_to<typename Broadcast<shape_of<X>, Shape<Extents...>>::type, Shape<Extents...>>());
  }
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<element_of<X>, Shape<Extents...>>::of(stretch(builder, value, {Extents...}));
}
template <KernelOperand X>
AnyTile broadcast_to(X&& x, const ir::Shape& shape, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return AnyTile::of(stretch(builder, value, shape));
}

/// An axis of 1 element before `Axis`: a row of 64 becomes 1x64 with expand_dims<0>, 64x1 with expand_dims<1>.
template <int Axis, KernelOperand X>
auto expand_dims(X&& x, Where where = Where::current()) {
  constexpr int rank = shape_of<X>::rank;
  static_assert(rules::axis_exists<Axis, (rank < 0 ? -1 : rank + 1)>());
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<element_of<X>, typename InsertAxis<shape_of<X>, Axis>::type>::of(builder.expand_dims(value, Axis));
}
template <KernelOperand X>
AnyTile expand_dims(X&& x, int axis, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return AnyTile::of(builder.expand_dims(value, axis));
}

/// Another shape with the same elements in row-major order.
template <int... Extents, KernelOperand X>
requires(sizeof...(Extents) > 0) auto reshape(X&& x, Where where = Where::current()) {
  if constexpr (shape_of<X>::rank >= 0) static_assert(rules::same_elements<shape_of<X>::elements, Shape<Extents...>::elements>());
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return Tile<element_of<X>, Shape<Extents...>>::of(builder.reshape(value, {Extents...}));
}
template <KernelOperand X>
AnyTile reshape(X&& x, const ir::Shape& shape, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  return AnyTile::of(builder.reshape(value, shape));
}

/// The last two axes swapped.
template <KernelOperand X>
auto trans(X&& x, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<X&&>(x));
  int rank = builder.type(value).rank;
  std::vector<std::int64_t> permutation;
  for (int axis = 0; axis < rank; ++axis) permutation.push_back(axis < rank - 2 ? axis : rank > 1 ? 2 * rank - 3 - axis : axis);
  return Tile<element_of<X>, typename TransposedShape<shape_of<X>>::type>::of(builder.transpose(value, permutation));
}

}  // namespace flextile
