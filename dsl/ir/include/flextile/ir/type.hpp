// The types of values in the tile IR.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <flextile/ir/element_type.hpp>

namespace flextile::ir {

/// The most axes a tile can have.
inline constexpr int max_tile_rank = 5;
/// The most axes a tensor view can have.
inline constexpr int max_view_rank = 8;
/// The most elements a tile can have.
inline constexpr std::int64_t max_tile_elements = 1 << 20;

using Shape = std::vector<std::int32_t>;

/// A value's type. Plain data, compared by value.
///
///   tile     numbers; rank 0 is a scalar                       f32, tile<128x64xf32>
///   pointer  addresses of `element`s; rank 0 is one pointer    ptr<f32>, tile<1024xptr<f32>>
///   view     a tensor: base pointer, sizes, strides            view<2xbf16>            (rank 2)
///   shared   a buffer in shared memory; `stages` > 1: a ring   shared<3x64x128xbf16>   (3 stages of 64x128)
///   token    an asynchronous operation that a wait consumes    token
struct Type {
  enum class Kind : std::uint8_t { none, tile, pointer, view, shared, token };

  Kind kind = Kind::none;
  ElementType element = ElementType::i32;
  std::uint8_t rank = 0;                              // axes of the tile, the view or one stage of the buffer
  std::int32_t stages = 1;                            // shared only
  std::array<std::int32_t, max_tile_rank> extents{};  // tile, pointer and shared; entries from `rank` on are 0

  static Type scalar(ElementType element);
  static Type tile(ElementType element, const Shape& shape);
  static Type pointer(ElementType element, const Shape& shape = {});
  static Type view(ElementType element, int rank);
  static Type shared(ElementType element, const Shape& shape, int stages);
  static Type token();

  bool is_number() const { return kind == Kind::tile; }
  bool is_pointer() const { return kind == Kind::pointer; }
  bool is_view() const { return kind == Kind::view; }
  bool is_shared() const { return kind == Kind::shared; }
  bool is_scalar() const { return kind == Kind::tile && rank == 0; }
  /// Tiles and pointers live in registers and have a shape.
  bool has_shape() const { return kind == Kind::tile || kind == Kind::pointer; }

  /// The extents; empty for a view, whose sizes are known at run time only.
  Shape shape() const { return is_view() ? Shape() : Shape(extents.begin(), extents.begin() + rank); }
  /// Number of elements; 1 for a scalar.
  std::int64_t elements() const;
  /// The same kind and element with another shape.
  Type with_shape(const Shape& shape) const;
  /// The same kind and shape with another element.
  Type with_element(ElementType element) const;

  bool operator==(const Type&) const = default;
};

/// As printed in the IR and in every error: tile<128x64xbf16>, f32, ptr<f32>, view<2xbf16>.
std::string to_string(const Type& type);

/// "128x64"; "scalar" for rank 0.
std::string to_string(const Shape& shape);

/// The shape that both broadcast to (right-aligned, extents of 1 stretch), or false if there is none.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result);

}  // namespace flextile::ir
