#include <utility>

#include "builder_support.hpp"

namespace flextile::ir {

OperationId Builder::for_loop(Value lower, Value upper, Value step, const std::vector<Value>& initial, Attributes hints) {
  // Bounds of different integer types meet in the type that holds them all.
  bool integers = true, wide = false;
  for (Value* bound : {&lower, &upper, &step}) {
    Type type = operand_type(*this, Opcode::for_, *bound, "bound");
    integers = integers && type.is_scalar() && !is_float(type.element);
    wide = wide || bit_width(type.element) == 64 || type.element == ElementType::u32;
  }
  if (integers) {
    for (Value* bound : {&lower, &upper, &step}) {
      ElementType element = wide ? ElementType::i64 : ElementType::i32;
      const Operation* constant = function_.defining(*bound);
      bool is_constant = constant && constant->opcode == Opcode::constant && type(*bound).element != element;
      *bound = is_constant ? this->constant(element, constant->attributes.integer(AttributeName::value)) : cast(*bound, element);
    }
  }
  Operation operation{
      .opcode = Opcode::for_, .operands = {lower, upper, step}, .blocks = {function_.add_block()}, .attributes = std::move(hints)};
  operation.operands.insert(operation.operands.end(), initial.begin(), initial.end());
  function_.add_argument(operation.blocks[0], Type(type(lower)));
  std::vector<Type> types;
  for (Value value : initial) {
    types.push_back(operand_type(*this, Opcode::for_, value, "initial value"));
    function_.add_argument(operation.blocks[0], types.back());
  }
  return create(std::move(operation), types);
}

OperationId Builder::while_loop(const std::vector<Value>& initial) {
  std::vector<Type> types;
  for (Value value : initial) types.push_back(operand_type(*this, Opcode::while_, value, "initial value"));
  Operation operation{.opcode = Opcode::while_, .operands = initial};
  for (int i = 0; i < 2; ++i) {
    operation.blocks.push_back(function_.add_block());
    for (const Type& type : types) function_.add_argument(operation.blocks.back(), type);
  }
  return create(std::move(operation), types);
}

OperationId Builder::if_else(Value condition, const std::vector<Type>& results) {
  operand_type(*this, Opcode::if_, condition, "condition");
  Operation operation{.opcode = Opcode::if_, .operands = {condition}};
  operation.blocks = {function_.add_block(), function_.add_block()};
  return create(std::move(operation), results);
}

void Builder::yield(const std::vector<Value>& values) { create({.opcode = Opcode::yield, .operands = values}, {}); }

void Builder::condition(Value keep_going, const std::vector<Value>& carried) {
  Operation operation{.opcode = Opcode::condition, .operands = {keep_going}};
  operation.operands.insert(operation.operands.end(), carried.begin(), carried.end());
  create(std::move(operation), {});
}

void Builder::return_values(const std::vector<Value>& values) { create({.opcode = Opcode::return_, .operands = values}, {}); }

}  // namespace flextile::ir
