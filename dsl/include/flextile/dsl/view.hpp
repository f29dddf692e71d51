// Tensor views: a tensor argument that knows its sizes and strides, so loads and stores past its edges are guarded.
#pragma once
#include <flextile/dsl/pointer.hpp>

namespace flextile {

/// An index into a view: a plain integer, or a scalar of the kernel. Becomes i32; what i32 cannot hold stays outside of the view.
class Index {
 public:
  template <class I>
  requires(std::is_integral_v<std::remove_cvref_t<I>>) Index(I number) : emitted_{{}, Number(number)} {}
  template <KernelOperand E>
  Index(E&& scalar, Where where = Where::current()) {
    static_assert(rules::is_an_index<code_of<E>>());
    static_assert(rules::is_scalar_shape<shape_of<E>>());
    emitted_ = emit_operand(builder_at(where), static_cast<E&&>(scalar));
  }
  ir::Value emit(ir::Builder& builder) const { return emit_index(builder, emitted_); }

 private:
  Emitted emitted_;
};

/// other: what elements outside the view are.
struct LoadOptions {
  double other = 0;
};

inline std::vector<ir::Value> emit_indices(ir::Builder& builder, const std::vector<Index>& indices) {
  std::vector<ir::Value> values;
  for (const Index& index : indices) values.push_back(index.emit(builder));
  return values;
}

template <int Axis>
using IndexOfAxis = Index;

/// What views of every rank have.
template <class T, int Rank>
class ViewValue {
 public:
  using view_element = T;
  ir::Value value() const { return value_.get(); }
  ElementType element_type() const { return builder_here().type(value()).element; }
  int rank() const { return builder_here().type(value()).rank; }
  /// Elements along an axis.
  Scalar<i32> size(int axis, Where where = Where::current()) const { return Scalar<i32>::of(builder_at(where).view_size(value(), axis)); }
  /// Distance of neighbours along an axis, in elements.
  Scalar<i64> stride(int axis, Where where = Where::current()) const {
    return Scalar<i64>::of(builder_at(where).view_stride(value(), axis));
  }
  /// The address of the first element.
  auto base(Where where = Where::current()) const {
    return Pointer<T, std::conditional_t<std::is_same_v<T, Dynamic>, Dynamic, Shape<>>>::of(builder_at(where).view_base(value()));
  }

 protected:
  explicit ViewValue(ir::Value value) : value_(value) {}

 private:
  TracedValue value_;
};

template <class T, int Rank, class Axes = std::make_integer_sequence<int, Rank>>
class TensorView;

/// A tensor of Rank axes. load<BM, BK>(i, j): the tile whose first element is [i, j]; tile axes are the view's last ones.
template <class T, int Rank, int... Axis>
class TensorView<T, Rank, std::integer_sequence<int, Axis...>> : public ViewValue<T, Rank> {
 public:
  static TensorView of(ir::Value value) { return TensorView(value); }

  template <int... Extents>
  Tile<tile_element<T>, Shape<Extents...>> load(IndexOfAxis<Axis>... index, LoadOptions options = {},
                                                Where where = Where::current()) const {
    static_assert(rules::tile_fits_view<sizeof...(Extents), Rank>());
    ir::Builder& builder = builder_at(where);
    return Tile<tile_element<T>, Shape<Extents...>>::of(
        builder.view_load(this->value(), emit_indices(builder, {index...}), {Extents...}, options.other));
  }
  template <KernelOperand V>
  void store(V&& tile, IndexOfAxis<Axis>... index, Where where = Where::current()) const {
    static_assert(rules::is_writable<std::is_const_v<T>>());
    static_assert(rules::tile_fits_view<shape_of<V>::rank, Rank>());
    if constexpr (code_of<V> >= 0) static_assert(rules::storable_element<code_of<V>, element_code<tile_element<T>>>());
    ir::Builder& builder = builder_at(where);
    ir::Value value = emit_value(builder, static_cast<V&&>(tile));
    builder.view_store(this->value(), value, emit_indices(builder, {index...}));
  }

  /// load<BM, BK>(view, i, j): the same where the view's type depends on a template parameter.
  template <int... Extents>
  requires(sizeof...(Extents) > 0) friend auto load(const TensorView& view, IndexOfAxis<Axis>... index, LoadOptions options = {},
                                                    Where where = Where::current()) {
    return view.template load<Extents...>(index..., options, where);
  }
  template <KernelOperand V>
  friend void store(const TensorView& view, V&& tile, IndexOfAxis<Axis>... index, Where where = Where::current()) {
    view.store(static_cast<V&&>(tile), index..., where);
  }

 private:
  explicit TensorView(ir::Value value) : ViewValue<T, Rank>(value) {}
};

/// A view whose element type and rank only the trace knows.
class AnyView : public ViewValue<Dynamic, -1> {
 public:
  static AnyView of(ir::Value value) { return AnyView(value); }
  template <class T, int Rank>
  AnyView(const TensorView<T, Rank>& view) : ViewValue(view.value()) {}

 private:
  explicit AnyView(ir::Value value) : ViewValue(value) {}
};

/// The tile of shape `extents` whose first element is view[at]; tile axes are the view's last ones.
inline AnyTile load(const AnyView& view, const std::vector<Index>& at, const ir::Shape& extents, LoadOptions options = {},
                    Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  return AnyTile::of(builder.view_load(view.value(), emit_indices(builder, at), extents, options.other));
}

/// Writes a tile; elements outside the view are dropped.
template <KernelOperand V>
void store(const AnyView& view, V&& tile, const std::vector<Index>& at, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value value = emit_value(builder, static_cast<V&&>(tile));
  builder.view_store(view.value(), value, emit_indices(builder, at));
}

/// The elements view[i, j, ...], one index tile per axis; where the mask is false they are 0 and not read.
template <NumberOperand... I>
AnyTile gather(const AnyView& view, I&&... index) {
  static_assert((rules::is_an_index<code_of<I>>() && ...));
  ir::Builder& builder = builder_here();
  return AnyTile::of(builder.gather(view.value(), {emit_index(builder, emit_operand(builder, static_cast<I&&>(index)))...}));
}

}  // namespace flextile
