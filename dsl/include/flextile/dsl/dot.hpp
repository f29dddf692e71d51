// Matrix products.
#pragma once
#include <flextile/dsl/tile.hpp>

namespace flextile {

/// How f32 operands multiply: tf32 rounds them to 10 bits for the tensor cores, ieee does not.
enum class Precision { tf32, ieee };

/// Floats of 8, 16 and 32 bits accumulate in f32, f64 in f64, i8 and u8 in i32. Hopper's sums of f8e4m3 and f8e5m2 keep fewer bits
/// than f32 while one instruction's products are added up.
constexpr ElementType accumulator_element(ElementType element) {
  if (element == ElementType::f64) return ElementType::f64;
  return is_float(element) ? ElementType::f32 : ElementType::i32;
}

template <class A, class B>
struct Product {
  static constexpr bool known = shape_of<A>::rank >= 0 && shape_of<B>::rank >= 0;
  template <class S>
  static constexpr int at(int axis) {
    return S::rank == 2 ? S::extent(axis) : 1;
  }
  template <bool Known, class S1, class S2>
  struct ShapeOfProduct {
    using type = Dynamic;
  };
  template <class S1, class S2>
  struct ShapeOfProduct<true, S1, S2> {
    using type = Shape<at<S1>(0), at<S2>(1)>;
  };
  using shape = typename ShapeOfProduct<known, shape_of<A>, shape_of<B>>::type;
  static constexpr int code =
      code_of<A> < 0 ? dynamic_element : static_cast<int>(accumulator_element(static_cast<ElementType>(code_of<A> < 0 ? 0 : code_of<A>)));
  using element = element_of_code<code>;
};

template <class A, class B>
consteval bool is_product() {
  static_assert(rules::is_matrix<shape_of<A>::rank>());
  static_assert(rules::is_matrix<shape_of<B>::rank>());
  if constexpr (shape_of<A>::rank == 2 && shape_of<B>::rank == 2)
    static_assert(rules::inner_sizes_fit<shape_of<A>::extent(1), shape_of<B>::extent(0)>());
  if constexpr (code_of<A> >= 0 && code_of<B> >= 0) static_assert(rules::same_dot_elements<code_of<A>, code_of<B>>());
  return true;
}

inline std::string_view name(Precision precision) { return precision == Precision::ieee ? "ieee" : "tf32"; }

inline ir::Value emit_dot(ir::Builder& builder, ir::Value a, ir::Value b, Precision precision) {
  ir::Type left = builder.type(a), right = builder.type(b);
  ir::Type accumulator =
      ir::Type::tile(accumulator_element(left.element), {left.rank > 0 ? left.extents[0] : 1, right.rank > 1 ? right.extents[1] : 1});
  return builder.dot(a, b, is_float(accumulator.element) ? builder.splat(accumulator, 0.0) : builder.splat(accumulator, std::int64_t{0}),
                     name(precision));
}

/// a . b. Rows of the result are rows of a, columns are columns of b.
template <KernelOperand A, KernelOperand B>
auto dot(A&& a, B&& b, Precision precision = Precision::tf32, Where where = Where::current()) {
  static_assert(is_product<A, B>());
  ir::Builder& builder = builder_at(where);
  ir::Value left = emit_value(builder, static_cast<A&&>(a));
  ir::Value right = emit_value(builder, static_cast<B&&>(b));
  return Tile<typename Product<A, B>::element, typename Product<A, B>::shape>::of(emit_dot(builder, left, right, precision));
}

/// accumulator + a . b.
template <KernelOperand A, KernelOperand B, KernelOperand C>
auto dot(A&& a, B&& b, C&& accumulator, Precision precision = Precision::tf32, Where where = Where::current()) {
  static_assert(is_product<A, B>());
  if constexpr (Product<A, B>::known && shape_of<C>::rank >= 0)
    static_assert(rules::accumulator_fits<shape_of<C>, typename Product<A, B>::shape>());
  ir::Builder& builder = builder_at(where);
  ir::Value left = emit_value(builder, static_cast<A&&>(a));
  ir::Value right = emit_value(builder, static_cast<B&&>(b));
  ir::Value sum = emit_value(builder, static_cast<C&&>(accumulator));
  return Tile<element_of<C>, shape_of<C>>::of(builder.dot(left, right, sum, name(precision)));
}

}  // namespace flextile
