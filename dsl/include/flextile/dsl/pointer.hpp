// Pointers and tiles of pointers: typed addresses with arithmetic in elements, loads, stores.
#pragma once
#include <flextile/dsl/tile.hpp>

namespace flextile {

template <class P>
concept PointerOperand = requires {
  typename std::remove_cvref_t<P>::pointer_shape;
};

/// The address of a T, or one address per element of S. AnyPointer: the type only the trace knows.
///
///   Pointer<const f32> x;  Tile v = load(x + arange<1024>());
template <class T, class S = Shape<>>
class Pointer {
 public:
  using pointee = T;
  using pointer_shape = S;

  template <PointerOperand P>
  requires(!std::is_same_v<std::remove_cvref_t<P>, Pointer>) Pointer(P&& address, Where where = Where::current())
      : value_(address.emit(builder_at(where))) {
    using From = std::remove_cvref_t<P>;
    static_assert(std::is_same_v<T, Dynamic> || std::is_convertible_v<typename From::pointee*, T*>,
                  "[pointer] the element types must be equal; a pointer to const stays one");
  }
  static Pointer of(ir::Value value) { return Pointer(value); }

  ir::Value value() const { return value_.get(); }
  ir::Value emit(ir::Builder&) const { return value(); }
  ElementType element_type() const { return builder_here().type(value()).element; }

 private:
  explicit Pointer(ir::Value value) : value_(value) {}
  TracedValue value_;
};
template <PointerOperand P>
Pointer(P&&) -> Pointer<typename std::remove_cvref_t<P>::pointee, typename std::remove_cvref_t<P>::pointer_shape>;

using AnyPointer = Pointer<Dynamic, Dynamic>;

/// pointer + elements or pointer - elements, not in the IR yet.
template <class T, class S, class Base, class Elements>
struct Address {
  using pointee = T;
  using pointer_shape = S;
  Base base;
  Elements elements;
  Opcode opcode;
  ir::Value emit(ir::Builder& builder) const {
    ir::Value pointer = base.emit(builder);
    return emit_binary(builder, opcode, {pointer, {}}, elements.emit(builder)).value;
  }
};

template <class P, class I>
auto address(Opcode opcode, const P& pointer, I&& index) {
  auto elements = operand(static_cast<I&&>(index));
  using Elements = decltype(elements);
  using Shapes = Broadcast<typename P::pointer_shape, typename Elements::kernel_shape>;
  static_assert(rules::shapes_fit<typename P::pointer_shape, typename Elements::kernel_shape>());
  static_assert(rules::is_an_index<Elements::code>());
  return Address<typename P::pointee, typename Shapes::type, P, Elements>{pointer, elements, opcode};
}

template <PointerOperand P, NumberOperand I>
auto operator+(const P& pointer, I&& elements) {
  return address(Opcode::add, pointer, static_cast<I&&>(elements));
}
template <PointerOperand P, NumberOperand I>
auto operator-(const P& pointer, I&& elements) {
  return address(Opcode::sub, pointer, static_cast<I&&>(elements));
}

template <class T>
using tile_element = std::remove_const_t<T>;
template <class P>
using loaded_tile = Tile<tile_element<typename std::remove_cvref_t<P>::pointee>, typename std::remove_cvref_t<P>::pointer_shape>;

/// A mask or a value beside a pointer: its shape stretches to the pointer's.
template <class P, class X>
consteval bool fits_pointer() {
  using S = typename std::remove_cvref_t<P>::pointer_shape;
  if constexpr (S::rank >= 0 && shape_of<X>::rank >= 0) {
    static_assert(rules::shapes_fit<shape_of<X>, S>());
    static_assert(rules::stretches_to_pointers<typename Broadcast<shape_of<X>, S>::type, S>());
  }
  return true;
}

inline ir::Value beside_pointer(ir::Builder& builder, const Emitted& x, ir::Value pointer) {
  ir::Type type = builder.type(pointer);
  ir::Value value = x.value ? x.value : emit_number(builder, x.number, type.element);
  return stretch(builder, value, type.shape());
}
inline ir::Value mask_beside_pointer(ir::Builder& builder, const Emitted& mask, ir::Value pointer) {
  return stretch(builder, emit_truth(builder, mask).value, builder.type(pointer).shape());
}

/// What the pointers point at. Elements whose mask is false are not read and are `other` (0 without it).
template <PointerOperand P>
auto load(P&& pointer, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  return loaded_tile<P>::of(builder.load(pointer.emit(builder)));
}
template <PointerOperand P, NumberOperand M>
auto load(P&& pointer, M&& mask, Where where = Where::current()) {
  static_assert(rules::is_condition<code_of<M>>());
  static_assert(fits_pointer<P, M>());
  ir::Builder& builder = builder_at(where);
  ir::Value at = pointer.emit(builder);
  return loaded_tile<P>::of(builder.load(at, mask_beside_pointer(builder, emit_operand(builder, static_cast<M&&>(mask)), at)));
}
template <PointerOperand P, NumberOperand M, NumberOperand O>
auto load(P&& pointer, M&& mask, O&& other, Where where = Where::current()) {
  static_assert(rules::is_condition<code_of<M>>());
  static_assert(fits_pointer<P, M>() && fits_pointer<P, O>());
  ir::Builder& builder = builder_at(where);
  ir::Value at = pointer.emit(builder);
  ir::Value guard = mask_beside_pointer(builder, emit_operand(builder, static_cast<M&&>(mask)), at);
  return loaded_tile<P>::of(builder.load(at, guard, beside_pointer(builder, emit_operand(builder, static_cast<O&&>(other)), at)));
}

template <class P, class V>
consteval bool is_storable() {
  using T = typename std::remove_cvref_t<P>::pointee;
  static_assert(rules::is_writable<std::is_const_v<T>>());
  static_assert(fits_pointer<P, V>());
  if constexpr (!std::is_same_v<T, Dynamic> && KernelOperand<V>) {
    if constexpr (code_of<V> >= 0) static_assert(rules::storable_element<code_of<V>, element_code<tile_element<T>>>());
  }
  return true;
}

/// Writes value where the pointers point; elements whose mask is false are not written.
template <PointerOperand P, NumberOperand V>
void store(P&& pointer, V&& value, Where where = Where::current()) {
  static_assert(is_storable<P, V>());
  ir::Builder& builder = builder_at(where);
  ir::Value at = pointer.emit(builder);
  builder.store(at, beside_pointer(builder, emit_operand(builder, static_cast<V&&>(value)), at));
}
template <PointerOperand P, NumberOperand V, NumberOperand M>
void store(P&& pointer, V&& value, M&& mask, Where where = Where::current()) {
  static_assert(is_storable<P, V>());
  static_assert(rules::is_condition<code_of<M>>());
  static_assert(fits_pointer<P, M>());
  ir::Builder& builder = builder_at(where);
  ir::Value at = pointer.emit(builder);
  ir::Value stored = beside_pointer(builder, emit_operand(builder, static_cast<V&&>(value)), at);
  builder.store(at, stored, mask_beside_pointer(builder, emit_operand(builder, static_cast<M&&>(mask)), at));
}

}  // namespace flextile
