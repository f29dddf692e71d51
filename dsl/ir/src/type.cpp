#include <flextile/ir/error.hpp>
#include <flextile/ir/type.hpp>
#include <limits>

#include "text.hpp"

namespace flextile::ir {
namespace {

Type shaped(Type::Kind kind, ElementType element, const Shape& shape) {
  if (shape.size() > max_tile_rank) {
    throw CompileError(join("flextile: compile error\n  a tile has at most ", max_tile_rank, " axes; ", shape, " has ", shape.size()));
  }
  Type type;
  type.kind = kind;
  type.element = element;
  type.rank = static_cast<std::uint8_t>(shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) type.extents[axis] = shape[axis];
  return type;
}

}  // namespace

Type Type::scalar(ElementType element) { return shaped(Kind::tile, element, {}); }
Type Type::tile(ElementType element, const Shape& shape) { return shaped(Kind::tile, element, shape); }
Type Type::pointer(ElementType element, const Shape& shape) { return shaped(Kind::pointer, element, shape); }

Type Type::view(ElementType element, int rank) {
  if (rank < 0 || rank > max_view_rank) {
    throw CompileError(join("flextile: compile error\n  a tensor view has 0 to ", max_view_rank, " axes, got ", rank));
  }
  Type type;
  type.kind = Kind::view;
  type.element = element;
  type.rank = static_cast<std::uint8_t>(rank);
  return type;
}

Type Type::shared(ElementType element, const Shape& shape, int stages) {
  Type type = shaped(Kind::shared, element, shape);
  type.stages = stages;
  return type;
}

Type Type::token() {
  Type type;
  type.kind = Kind::token;
  return type;
}

std::int64_t Type::elements() const {
  std::int64_t count = 1;
  if (kind == Kind::view || kind == Kind::token || kind == Kind::none) return count;
  for (int axis = 0; axis < rank; ++axis) {
    if (extents[axis] > 0 && count > std::numeric_limits<std::int64_t>::max() / extents[axis])
      return std::numeric_limits<std::int64_t>::max();
    count *= extents[axis];
  }
  return count;
}

Type Type::with_shape(const Shape& shape) const {
  Type type = shaped(kind, element, shape);
  type.stages = stages;
  return type;
}

Type Type::with_element(ElementType other) const {
  Type type = *this;
  type.element = other;
  return type;
}

std::string to_string(const Type& type) {
  std::string extents;
  if (type.kind == Type::Kind::shared && type.stages != 1) extents += join(type.stages, "x");
  if (type.kind != Type::Kind::view) {
    for (int axis = 0; axis < type.rank; ++axis) extents += join(type.extents[axis], "x");
  }
  switch (type.kind) {
    case Type::Kind::none:
      return "none";
    case Type::Kind::tile:
      return type.rank == 0 ? join(type.element) : join("tile<", extents, type.element, ">");
    case Type::Kind::pointer:
      return type.rank == 0 ? join("ptr<", type.element, ">") : join("tile<", extents, "ptr<", type.element, ">>");
    case Type::Kind::view:
      return join("view<", static_cast<int>(type.rank), "x", type.element, ">");
    case Type::Kind::shared:
      return join("shared<", type.stages == 1 ? "1x" : "", extents, type.element, ">");
    case Type::Kind::token:
      return "token";
  }
  return "none";
}

std::string to_string(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) text += join(axis ? "x" : "", shape[axis]);
  return text;
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  std::size_t missing = longer.size() - shorter.size();
  Shape merged = longer;
  for (std::size_t axis = 0; axis < shorter.size(); ++axis) {
    std::int32_t& extent = merged[axis + missing];
    if (extent == shorter[axis] || shorter[axis] == 1) continue;
    if (extent != 1) return false;
    extent = shorter[axis];
  }
  result = merged;
  return true;
}

}  // namespace flextile::ir
