// Every rule that the C++ compiler checks, with its sentence. The trace checks the same rules again for tiles whose
// extents or element types only it knows. The numbers are in the conditions, so compilers print them.
#pragma once
#include <flextile/dsl/static_type.hpp>

namespace flextile::rules {

/// A constant false that the compiler prints the type with.
template <class>
inline constexpr bool wrong = false;

template <int Left, int Right>
consteval bool same_extent() {
  if constexpr (Left != 1 && Right != 1) {
    static_assert(Left == Right, "[element-wise] extents of an axis must be equal, or 1 where they stretch; did you forget expand_dims?");
  }
  return true;
}

template <class A, class B, int... Axis>
consteval bool same_extents(std::integer_sequence<int, Axis...>) {
  using Axes = BroadcastAxes<A, B, std::integer_sequence<int, Axis...>>;
  return (... && same_extent<Axes::template at<A>(Axis), Axes::template at<B>(Axis)>());
}

/// Shapes of an element-wise operation.
template <class A, class B>
consteval bool shapes_fit() {
  if constexpr (!Broadcast<A, B>::fits) {
    return same_extents<A, B>(std::make_integer_sequence<int, (A::rank > B::rank ? A::rank : B::rank)>{});
  }
  return true;
}

constexpr bool code_is_float(int code) { return code == floating_literal || (code >= 0 && is_float(static_cast<ElementType>(code))); }

constexpr bool code_is_float8(int code) { return code >= 0 && is_float8(static_cast<ElementType>(code)); }
/// The type that both operands are converted to has eight bits.
constexpr bool computes_in_float8(int a, int b) { return code_is_float8(promote_codes(a, b)); }

template <Opcode opcode, int A, int B>
consteval bool elements_fit() {
  if constexpr (is_bit_operation(opcode) || is_shift(opcode)) {
    static_assert(!code_is_float(A) && !code_is_float(B),
                  "[bits] operands of & | ^ ~ << >> must be integers or i1; bitcast a floating-point tile first");
  } else if constexpr (opcode != Opcode::select) {
    static_assert(!computes_in_float8(A, B), "[operator] f8e4m3 and f8e5m2 are for memory, casts and dot; cast them to f16 or f32 to compute");
  }
  return true;
}

template <int Code>
consteval bool is_condition() {
  static_assert(Code == static_cast<int>(ElementType::i1) || Code == dynamic_element,
                "[logic] operands of && || ! must be i1; compare first, for instance with 0");
  return true;
}

template <class T>
consteval bool is_not_a_branch() {
  static_assert(wrong<T>,
                "[if] a tile's value is known only when the kernel runs: use where(condition, a, b) per element, or if_(condition, [&] { "
                "... }) for a scalar");
  return true;
}

template <class T>
consteval bool is_not_assigned() {
  static_assert(wrong<T>, "[assign] a Tile or Scalar does not change: use Var for what is assigned, or give the new value a name of its own");
  return true;
}

template <class T>
consteval bool lives_one_statement() {
  static_assert(wrong<T>, "[auto] an expression lives for one statement: name its value with Tile, Scalar or Var instead of auto");
  return true;
}

template <int LeftColumns, int RightRows>
consteval bool inner_sizes_fit() {
  static_assert(LeftColumns == RightRows, "[dot] columns of left must equal rows of right; did you forget trans()?");
  return true;
}

template <int Left, int Right>
consteval bool same_dot_elements() {
  static_assert(Left == Right, "[dot] element types of left and right must be equal; cast one of them");
  return true;
}

template <int Rank>
consteval bool is_matrix() {
  static_assert(Rank == 2 || Rank == -1, "[dot] operands must be tiles of two axes");
  return true;
}

template <class Accumulator, class Product>
consteval bool accumulator_fits() {
  static_assert(std::is_same_v<Accumulator, Product>, "[dot] the accumulator's shape must be rows of left x columns of right");
  return true;
}

template <int Axis, int Rank>
consteval bool axis_exists() {
  static_assert(Rank == -1 || (Axis >= 0 && Axis < Rank), "[axis] the tile has no such axis: axes go from 0 to rank - 1");
  return true;
}

template <long long From, long long To>
consteval bool same_elements() {
  static_assert(From == To, "[reshape] the number of elements must stay the same");
  return true;
}

template <int From, int To>
consteval bool same_width() {
  static_assert(From == To, "[bitcast] both element types must have the same number of bits");
  return true;
}

template <class Value, class Variable>
consteval bool assignable_shape() {
  static_assert(std::is_same_v<Value, Variable>,
                "[assign] the value's shape must be the variable's, or stretch to it: a variable keeps its type");
  return true;
}

template <class Value, class Pointers>
consteval bool stretches_to_pointers() {
  static_assert(std::is_same_v<Value, Pointers>,
                "[memory] the shape of a value, mask or other must be the pointers' shape, or stretch to it");
  return true;
}

template <class Value, class Target>
consteval bool stretches_to() {
  static_assert(std::is_same_v<Value, Target>, "[broadcast_to] only extents of 1 stretch, and new axes come in front");
  return true;
}

template <int Value, int Variable>
consteval bool assignable_element() {
  static_assert(Value == Variable, "[assign] the value's element type must be the variable's; cast it: a variable keeps its type");
  return true;
}

template <int Value, int Memory>
consteval bool storable_element() {
  static_assert(Value == Memory, "[store] the value's element type must be the memory's; cast it first");
  return true;
}

template <bool Constant>
consteval bool is_writable() {
  static_assert(!Constant, "[store] the pointer or view is to const elements: it cannot be written");
  return true;
}

template <int TileAxes, int ViewAxes>
consteval bool tile_fits_view() {
  static_assert(TileAxes <= ViewAxes, "[load] a tile cannot have more axes than its view");
  return true;
}

template <class Lambda>
consteval bool captures_nothing() {
  static_assert(std::is_empty_v<Lambda>,
                "[kernel] a kernel's lambda captures nothing: pass run-time values as parameters, compile-time ones as template arguments");
  return true;
}

template <class Lambda>
consteval bool has_typed_parameters() {
  static_assert(wrong<Lambda>, "[kernel] a kernel's parameters have types: write Pointer<const f32> x instead of auto x");
  return true;
}

template <class T>
consteval bool is_a_kernel_parameter() {
  static_assert(wrong<T>, "[kernel] a parameter must be Pointer<T>, TensorView<T, Rank> or Scalar<T>, taken by value");
  return true;
}

template <class T>
consteval bool is_scalar_shape() {
  static_assert(T::rank <= 0, "[scalar] this value has axes: name it with Tile, or reduce it");
  return true;
}

template <class T>
consteval bool fills_a_tile() {
  static_assert(T::rank <= 0, "[full] the value must be one number, plain or a Scalar: stretch a tile with broadcast_to");
  return true;
}

template <int Code>
consteval bool is_an_index() {
  static_assert(Code == dynamic_element || (Code >= 0 && !code_is_float(Code)), "[index] an index must be an integer; cast<i32> it");
  return true;
}

template <class Lambda>
consteval bool is_a_mod() {
  static_assert(wrong<Lambda>, "[mod] a mask mod takes (b, h, q, kv), a score mod takes (score, b, h, q, kv): this callable takes neither; its parameters must be auto");
  return true;
}

template <class Lambda, int Parameters, int Expected>
consteval bool has_mod_arity() {
  static_assert(
      Parameters == Expected,
      "[mod] a mask mod takes the 4 parameters (b, h, q, kv), a score mod the 5 parameters (score, b, h, q, kv): this is the other kind; a mask comes to flex_attention as create_block_mask(mask, {.q_len, .kv_len})");
  return true;
}

template <int Code>
consteval bool is_a_mask_result() {
  static_assert(Code == static_cast<int>(ElementType::i1),
                "[mod] a mask mod returns a condition, i1: compare the number that it returns, for instance q - kv < 64 or x != 0");
  return true;
}

template <int Code>
consteval bool is_a_score_result() {
  static_assert(Code != static_cast<int>(ElementType::i1),
                "[mod] a score mod returns the new score, a number: choose with where(condition, a, b), or hide positions with a mask mod");
  return true;
}

template <class Node>
consteval bool is_not_a_branch_in_a_mod() {
  static_assert(
      wrong<Node>,
      "[if] in a mod a condition on indices or scores is an expression: choose with where(condition, a, b), combine with && and ||");
  return true;
}

}  // namespace flextile::rules
