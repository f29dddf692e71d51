// What the C++ compiler knows of a tile: its element type and its extents, or that only the trace will know.
#pragma once
#include <flextile/ir/opcode.hpp>
#include <flextile/ir/type.hpp>
#include <type_traits>

namespace flextile {

/// The extents of a tile. Shape<> is a scalar.
template <int... Extents>
struct Shape {
  static constexpr int rank = sizeof...(Extents);
  static constexpr long long elements = (1LL * ... * Extents);
  static_assert(((Extents > 0) && ...), "[shape] every extent must be at least 1");
  static_assert(rank <= ir::max_tile_rank, "[shape] a tile has at most 5 axes");
  static_assert(elements <= ir::max_tile_elements, "[shape] a tile has at most 1048576 elements");
  /// Extent of an axis.
  static constexpr int extent(int axis) {
    constexpr int extents[] = {Extents..., 0};
    return extents[axis];
  }
  static ir::Shape value() { return {Extents...}; }
};

/// In place of an element type or a Shape that only the trace knows.
struct Dynamic {
  static constexpr int rank = -1;
};

using ir::Opcode;

// An element type as the C++ compiler knows it: an ElementType, a floating literal that adapts to the other operand, or unknown.
inline constexpr int floating_literal = -2;
inline constexpr int dynamic_element = -1;

template <class T>
inline constexpr int element_code = static_cast<int>(element_type_of<T>);
template <>
inline constexpr int element_code<Dynamic> = dynamic_element;

template <int Code>
struct ElementOfCode;
template <>
struct ElementOfCode<dynamic_element> {
  using type = Dynamic;
};
template <>
struct ElementOfCode<floating_literal> {
  using type = f32;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::i1)> {
  using type = i1;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::i8)> {
  using type = i8;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::i16)> {
  using type = i16;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::i32)> {
  using type = i32;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::i64)> {
  using type = i64;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::u8)> {
  using type = u8;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::u16)> {
  using type = u16;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::u32)> {
  using type = u32;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::u64)> {
  using type = u64;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::f8e4m3)> {
  using type = f8e4m3;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::f8e5m2)> {
  using type = f8e5m2;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::f16)> {
  using type = f16;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::bf16)> {
  using type = bf16;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::f32)> {
  using type = f32;
};
template <>
struct ElementOfCode<static_cast<int>(ElementType::f64)> {
  using type = f64;
};
template <int Code>
using element_of_code = typename ElementOfCode<Code>::type;

// ---- which element types an element-wise operation computes in. Kernels, mods and host evaluation all follow these.

constexpr bool is_bit_operation(Opcode opcode) {
  return opcode == Opcode::bit_and || opcode == Opcode::bit_or || opcode == Opcode::bit_xor || opcode == Opcode::bit_not ||
         opcode == Opcode::unlikely;
}
constexpr bool is_shift(Opcode opcode) { return opcode == Opcode::shl || opcode == Opcode::shr; }
/// Functions that compute in floating point: integers convert to f32.
constexpr bool is_real_function(Opcode opcode) {
  return (opcode >= Opcode::ceil && opcode <= Opcode::erf) || opcode == Opcode::pow || opcode == Opcode::fma;
}

/// The element type that an operand of the promoted type `element` converts to before `opcode`.
constexpr ElementType computing_element(Opcode opcode, ElementType element) {
  if (is_real_function(opcode)) return is_float(element) ? element : ElementType::f32;
  if (is_bit_operation(opcode) || ir::is_comparison(opcode) || opcode == Opcode::select) return element;
  return element == ElementType::i1 ? ElementType::i32 : element;
}

constexpr ElementType computing_element(Opcode opcode, ElementType a, ElementType b) { return computing_element(opcode, promote(a, b)); }

/// The same for codes; a floating literal takes the other operand's type, or f32.
constexpr int promote_codes(int a, int b) {
  if (a == dynamic_element || b == dynamic_element) return dynamic_element;
  if (a == floating_literal && b == floating_literal) return static_cast<int>(ElementType::f32);
  if (a == floating_literal) return is_float(static_cast<ElementType>(b)) ? b : static_cast<int>(ElementType::f32);
  if (b == floating_literal) return is_float(static_cast<ElementType>(a)) ? a : static_cast<int>(ElementType::f32);
  return static_cast<int>(promote(static_cast<ElementType>(a), static_cast<ElementType>(b)));
}

constexpr int computing_code(Opcode opcode, int code) {
  if (code == dynamic_element) return code;
  if (code == floating_literal) return static_cast<int>(ElementType::f32);
  return static_cast<int>(computing_element(opcode, static_cast<ElementType>(code)));
}

/// The code of the result of `opcode` on operands of the promoted code.
constexpr int result_code(Opcode opcode, int promoted) {
  if (ir::is_comparison(opcode)) return static_cast<int>(ElementType::i1);
  return computing_code(opcode, promoted);
}

// ---- shapes

/// The extent of result axis `axis` (counted from the last, right-aligned) of two shapes; 0 where they do not fit.
constexpr int broadcast_extent(int a, int b) { return a == b || b == 1 ? a : a == 1 ? b : 0; }

template <class A, class B, class Axes>
struct BroadcastAxes;
template <class A, class B, int... Axis>
struct BroadcastAxes<A, B, std::integer_sequence<int, Axis...>> {
  static constexpr int rank = sizeof...(Axis);
  template <class S>
  static constexpr int at(int axis) {
    return axis < rank - S::rank ? 1 : S::extent(axis - (rank - S::rank));
  }
  static constexpr bool fits = (... && (broadcast_extent(at<A>(Axis), at<B>(Axis)) != 0));
  using type = Shape<(broadcast_extent(at<A>(Axis), at<B>(Axis)) != 0 ? broadcast_extent(at<A>(Axis), at<B>(Axis)) : at<A>(Axis))...>;
};

/// The shape that A and B broadcast to; `fits` is false where there is none (type is then harmless).
template <class A, class B>
struct Broadcast : BroadcastAxes<A, B, std::make_integer_sequence<int, (A::rank > B::rank ? A::rank : B::rank)>> {};
template <class S>
struct Broadcast<S, S> {
  static constexpr bool fits = true;
  using type = S;
};
template <class S>
struct Broadcast<S, Dynamic> {
  static constexpr bool fits = true;
  using type = Dynamic;
};
template <class S>
struct Broadcast<Dynamic, S> : Broadcast<S, Dynamic> {};
template <>
struct Broadcast<Dynamic, Dynamic> {
  static constexpr bool fits = true;
  using type = Dynamic;
};
template <class S>
struct Broadcast<S, Shape<>> {
  static constexpr bool fits = true;
  using type = S;
};
template <class S>
struct Broadcast<Shape<>, S> : Broadcast<S, Shape<>> {};
template <>
struct Broadcast<Shape<>, Shape<>> {
  static constexpr bool fits = true;
  using type = Shape<>;
};
template <>
struct Broadcast<Dynamic, Shape<>> : Broadcast<Dynamic, Dynamic> {};
template <>
struct Broadcast<Shape<>, Dynamic> : Broadcast<Dynamic, Dynamic> {};

/// S without axis `Axis`.
template <class S, int Axis, class Axes>
struct DropAxes;
template <class S, int Axis, int... I>
struct DropAxes<S, Axis, std::integer_sequence<int, I...>> {
  using type = Shape<S::extent(I < Axis ? I : I + 1)...>;
};
template <class S, int Axis>
struct DropAxis : DropAxes<S, Axis, std::make_integer_sequence<int, (S::rank > 0 ? S::rank - 1 : 0)>> {};
template <int Axis>
struct DropAxis<Dynamic, Axis> {
  using type = Dynamic;
};

/// S with an extent of 1 before axis `Axis`.
template <class S, int Axis, class Axes>
struct InsertAxes;
template <class S, int Axis, int... I>
struct InsertAxes<S, Axis, std::integer_sequence<int, I...>> {
  using type = Shape<(I == Axis ? 1 : S::extent(I < Axis ? I : I - 1))...>;
};
template <class S, int Axis>
struct InsertAxis : InsertAxes<S, Axis, std::make_integer_sequence<int, S::rank + 1>> {};
template <int Axis>
struct InsertAxis<Dynamic, Axis> {
  using type = Dynamic;
};

/// S with its axes reversed, or the last two swapped for three axes and more.
template <class S>
struct TransposedShape {
  using type = S;
};
template <int M, int N>
struct TransposedShape<Shape<M, N>> {
  using type = Shape<N, M>;
};
template <int A, int M, int N>
struct TransposedShape<Shape<A, M, N>> {
  using type = Shape<A, N, M>;
};
template <int A, int B, int M, int N>
struct TransposedShape<Shape<A, B, M, N>> {
  using type = Shape<A, B, N, M>;
};

}  // namespace flextile
