#include <utility>

#include "builder_support.hpp"

namespace flextile::ir {
namespace {

// What a load through `pointer` gives. Where it is no pointer the rule says so.
Type loaded(const Type& pointer) { return Type::tile(pointer.element, pointer.has_shape() ? pointer.shape() : Shape{}); }

}  // namespace

Value Builder::load(Value pointer, Value mask, Value other) {
  Type address = operand_type(*this, Opcode::load, pointer, "pointer");
  std::vector<Value> operands;
  if (other && !mask) fail("[load] other is given without a mask: it fills the elements that the mask leaves out");
  if (other) {
    Type fill = operand_type(*this, Opcode::load, other, "other");
    if (address.is_pointer() && fill.is_number()) other = cast(other, address.element);
    broadcast_together(*this, Opcode::load, {&pointer, &mask, &other});
    operands = {pointer, mask, other};
  } else if (mask) {
    broadcast_together(*this, Opcode::load, {&pointer, &mask});
    operands = {pointer, mask};
  } else {
    operands = {pointer};
  }
  return results(create({.opcode = Opcode::load, .operands = std::move(operands)}, {loaded(type(pointer))}))[0];
}

void Builder::store(Value pointer, Value value, Value mask) {
  std::vector<Value> operands;
  if (mask) {
    broadcast_together(*this, Opcode::store, {&pointer, &value, &mask});
    operands = {pointer, value, mask};
  } else {
    broadcast_together(*this, Opcode::store, {&pointer, &value});
    operands = {pointer, value};
  }
  create({.opcode = Opcode::store, .operands = std::move(operands)}, {});
}

Value Builder::view_load(Value view, const std::vector<Value>& offsets, const Shape& shape, double other) {
  Type source = operand_type(*this, Opcode::view_load, view, "view");
  Operation operation{.opcode = Opcode::view_load, .operands = {view}};
  for (Value offset : offsets) operation.operands.push_back(as_index(*this, Opcode::view_load, offset));
  operation.attributes.set(AttributeName::other, other);
  return results(create(std::move(operation), {shaped_like(*this, Opcode::view_load, Type::scalar(source.element), shape)}))[0];
}

void Builder::view_store(Value view, Value value, const std::vector<Value>& offsets) {
  Operation operation{.opcode = Opcode::view_store, .operands = {view, value}};
  for (Value offset : offsets) operation.operands.push_back(as_index(*this, Opcode::view_store, offset));
  create(std::move(operation), {});
}

Value Builder::gather(Value view, std::vector<Value> indices, Value mask) {
  Type source = operand_type(*this, Opcode::gather, view, "view");
  Shape shape;
  bool one_shape = true;
  if (mask) indices.push_back(mask);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    bool is_mask = mask && i + 1 == indices.size();
    if (!is_mask) indices[i] = as_index(*this, Opcode::gather, indices[i]);
    Type type = operand_type(*this, Opcode::gather, indices[i], is_mask ? "mask" : "index");
    one_shape = one_shape && type.has_shape() && broadcast_shapes(shape, type.shape(), shape);
  }
  Operation operation{.opcode = Opcode::gather, .operands = {view}};
  for (Value index : indices) operation.operands.push_back(one_shape ? broadcast(index, shape) : index);
  if (mask) operation.attributes.set(AttributeName::has_mask, std::int64_t{1});
  return results(create(std::move(operation), {Type::tile(source.element, shape)}))[0];
}

Value Builder::view_size(Value view, int axis) {
  operand_type(*this, Opcode::view_size, view, "view");
  return results(create({.opcode = Opcode::view_size, .operands = {view}, .attributes = {{AttributeName::axis, std::int64_t{axis}}}},
                        {Type::scalar(ElementType::i32)}))[0];
}

Value Builder::view_stride(Value view, int axis) {
  operand_type(*this, Opcode::view_stride, view, "view");
  return results(create({.opcode = Opcode::view_stride, .operands = {view}, .attributes = {{AttributeName::axis, std::int64_t{axis}}}},
                        {Type::scalar(ElementType::i64)}))[0];
}

Value Builder::view_base(Value view) {
  Type source = operand_type(*this, Opcode::view_base, view, "view");
  return results(create({.opcode = Opcode::view_base, .operands = {view}}, {Type::pointer(source.element)}))[0];
}

Value Builder::atomic(std::string_view kind, Value pointer, Value value, Value mask, std::string_view order, std::string_view scope) {
  Operation operation{.opcode = Opcode::atomic};
  if (mask) {
    broadcast_together(*this, Opcode::atomic, {&pointer, &value, &mask});
    operation.operands = {pointer, value, mask};
  } else {
    broadcast_together(*this, Opcode::atomic, {&pointer, &value});
    operation.operands = {pointer, value};
  }
  operation.attributes = {
      {AttributeName::kind, std::string(kind)}, {AttributeName::order, std::string(order)}, {AttributeName::scope, std::string(scope)}};
  return results(create(std::move(operation), {loaded(type(pointer))}))[0];
}

Value Builder::atomic_cas(Value pointer, Value expected, Value desired, std::string_view order, std::string_view scope) {
  broadcast_together(*this, Opcode::atomic_cas, {&pointer, &expected, &desired});
  Operation operation{.opcode = Opcode::atomic_cas, .operands = {pointer, expected, desired}};
  operation.attributes = {{AttributeName::order, std::string(order)}, {AttributeName::scope, std::string(scope)}};
  return results(create(std::move(operation), {loaded(type(pointer))}))[0];
}

}  // namespace flextile::ir
