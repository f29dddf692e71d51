#include <utility>

#include "builder_support.hpp"

namespace flextile::ir {

Value Builder::broadcast(Value x, const Shape& shape) {
  Type from = operand_type(*this, Opcode::broadcast, x);
  Type to = shaped_like(*this, Opcode::broadcast, from.has_shape() ? from : Type::scalar(from.element), shape);
  if (from == to) return x;
  if (from.has_shape() && from.rank > 0) {
    for (std::size_t axes = from.rank; axes < shape.size(); ++axes) x = expand_dims(x, 0);
    if (type(x) == to) return x;
  }
  return results(create({.opcode = Opcode::broadcast, .operands = {x}}, {to}))[0];
}

Value Builder::expand_dims(Value x, int axis) {
  Type from = operand_type(*this, Opcode::expand_dims, x);
  Type to = from;
  if (from.has_shape() && from.rank < max_tile_rank) {
    if (axis < 0) axis += from.rank + 1;
    Shape shape = from.shape();
    if (axis >= 0 && axis <= from.rank) shape.insert(shape.begin() + axis, 1);
    to = from.with_shape(shape);
  }
  return results(
      create({.opcode = Opcode::expand_dims, .operands = {x}, .attributes = {{AttributeName::axis, std::int64_t{axis}}}}, {to}))[0];
}

Value Builder::reshape(Value x, const Shape& shape) {
  Type from = operand_type(*this, Opcode::reshape, x);
  Type to = shaped_like(*this, Opcode::reshape, from.has_shape() ? from : Type::scalar(from.element), shape);
  if (from == to) return x;
  return results(create({.opcode = Opcode::reshape, .operands = {x}}, {to}))[0];
}

Value Builder::transpose(Value x, std::vector<std::int64_t> permutation) {
  Type from = operand_type(*this, Opcode::transpose, x);
  if (permutation.empty() && from.has_shape()) {
    for (int axis = from.rank; axis-- > 0;) permutation.push_back(axis);
  }
  Shape shape;
  for (std::int64_t axis : permutation) {
    if (from.has_shape() && axis >= 0 && axis < from.rank && shape.size() < max_tile_rank) shape.push_back(from.extents[axis]);
  }
  Type to = from.has_shape() ? from.with_shape(shape) : from;
  return results(create(
      {.opcode = Opcode::transpose, .operands = {x}, .attributes = {{AttributeName::permutation, std::move(permutation)}}}, {to}))[0];
}

Value Builder::dot(Value a, Value b, Value accumulator, std::string_view precision) {
  Type left = operand_type(*this, Opcode::dot, a, "left");
  operand_type(*this, Opcode::dot, b, "right");
  Type sum = operand_type(*this, Opcode::dot, accumulator, "accumulator");
  Operation operation{.opcode = Opcode::dot, .operands = {a, b, accumulator}};
  if (left.element == ElementType::f32) operation.attributes.set(AttributeName::precision, std::string(precision));
  return results(create(std::move(operation), {sum}))[0];
}

Value Builder::reduce(std::string_view kind, Value x, int axis) {
  Type from = operand_type(*this, Opcode::reduce, x);
  bool arithmetic = kind == "sum" || kind == "prod" || kind == "min" || kind == "max";
  if (from.is_number() && from.element == ElementType::i1 && arithmetic) {
    x = cast(x, ElementType::i32);
    from.element = ElementType::i32;
  }
  if (axis == -1 && from.is_number()) {
    for (int last = from.rank; last-- > 0;) x = reduce(kind, x, last);
    return x;
  }
  Shape shape = from.has_shape() ? from.shape() : Shape{};
  if (axis >= 0 && axis < static_cast<int>(shape.size())) shape.erase(shape.begin() + axis);
  Operation operation{.opcode = Opcode::reduce, .operands = {x}};
  operation.attributes = {{AttributeName::axis, std::int64_t{axis}}, {AttributeName::kind, std::string(kind)}};
  return results(create(std::move(operation), {from.has_shape() ? from.with_shape(shape) : from}))[0];
}

OperationId Builder::reduce_custom(const std::vector<Value>& inputs, int axis) {
  std::vector<Type> types;
  Operation operation{.opcode = Opcode::reduce, .operands = inputs, .blocks = {function_.add_block()}};
  operation.attributes = {{AttributeName::axis, std::int64_t{axis}}, {AttributeName::kind, std::string("custom")}};
  for (Value input : inputs) {
    Type type = operand_type(*this, Opcode::reduce, input);
    Shape shape = type.has_shape() ? type.shape() : Shape{};
    if (axis >= 0 && axis < static_cast<int>(shape.size())) shape.erase(shape.begin() + axis);
    types.push_back(type.has_shape() ? type.with_shape(shape) : type);
  }
  for (int side = 0; side < 2; ++side) {
    for (Value input : inputs) function_.add_argument(operation.blocks[0], Type::scalar(type(input).element));
  }
  return create(std::move(operation), types);
}

}  // namespace flextile::ir
