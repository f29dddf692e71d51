#include <utility>

#include "builder_support.hpp"

namespace flextile::ir {
namespace {

bool takes_i1(Opcode opcode) {
  return is_comparison(opcode) || opcode == Opcode::bit_and || opcode == Opcode::bit_or || opcode == Opcode::bit_xor ||
         opcode == Opcode::bit_not || opcode == Opcode::unlikely;
}

bool is_integer_too(Opcode opcode) {
  return opcode == Opcode::neg || opcode == Opcode::abs || opcode == Opcode::bit_not || opcode == Opcode::unlikely;
}

// The element type in which `a op b` is computed.
ElementType computed_in(Opcode opcode, ElementType a, ElementType b) {
  ElementType element = opcode == Opcode::shl || opcode == Opcode::shr ? a : promote(a, b);
  if (opcode == Opcode::pow && !is_float(element)) return ElementType::f32;
  return element == ElementType::i1 && !takes_i1(opcode) ? ElementType::i32 : element;
}

}  // namespace

Value Builder::unary(Opcode opcode, Value x) {
  Type from = operand_type(*this, opcode, x);
  if (from.is_number()) {
    if (!is_integer_too(opcode) && !is_float(from.element)) x = cast(x, ElementType::f32);
    if (is_integer_too(opcode) && from.element == ElementType::i1 && !takes_i1(opcode)) x = cast(x, ElementType::i32);
  }
  return results(create({.opcode = opcode, .operands = {x}}, {Type(type(x))}))[0];
}

Value Builder::binary(Opcode opcode, Value a, Value b) {
  Type left = operand_type(*this, opcode, a, "left"), right = operand_type(*this, opcode, b, "right");
  if (opcode == Opcode::offset) return offset(a, b);
  if (opcode == Opcode::add && left.is_pointer() && right.is_number()) return offset(a, b);
  if (opcode == Opcode::add && left.is_number() && right.is_pointer()) return offset(b, a);
  if (opcode == Opcode::sub && left.is_pointer() && right.is_number()) return offset(a, unary(Opcode::neg, b));
  if (left.is_number() && right.is_number()) {
    ElementType element = computed_in(opcode, left.element, right.element);
    a = cast(a, element), b = cast(b, element);
  }
  broadcast_together(*this, opcode, {&a, &b});
  Type result = type(a);
  if (is_comparison(opcode)) {
    // What cannot be compared (a view) keeps its type, so that the rule names the operand.
    if (result.has_shape()) result = Type::tile(ElementType::i1, result.shape());
  }
  return results(create({.opcode = opcode, .operands = {a, b}}, {result}))[0];
}

Value Builder::fma(Value a, Value b, Value c) {
  Type first = operand_type(*this, Opcode::fma, a, "a"), second = operand_type(*this, Opcode::fma, b, "b"),
       third = operand_type(*this, Opcode::fma, c, "c");
  if (first.is_number() && second.is_number() && third.is_number()) {
    ElementType element = promote(promote(first.element, second.element), third.element);
    if (!is_float(element)) return binary(Opcode::add, binary(Opcode::mul, a, b), c);
    a = cast(a, element), b = cast(b, element), c = cast(c, element);
  }
  broadcast_together(*this, Opcode::fma, {&a, &b, &c});
  return results(create({.opcode = Opcode::fma, .operands = {a, b, c}}, {Type(type(a))}))[0];
}

Value Builder::select(Value condition, Value a, Value b) {
  operand_type(*this, Opcode::select, condition, "condition");
  Type first = operand_type(*this, Opcode::select, a, "the value where true"),
       second = operand_type(*this, Opcode::select, b, "the value where false");
  if (first.is_number() && second.is_number()) {
    ElementType element = promote(first.element, second.element);
    a = cast(a, element), b = cast(b, element);
  }
  broadcast_together(*this, Opcode::select, {&a, &b});
  broadcast_together(*this, Opcode::select, {&condition, &a, &b});
  return results(create({.opcode = Opcode::select, .operands = {condition, a, b}}, {Type(type(a))}))[0];
}

Value Builder::cast(Value x, ElementType element) {
  Type from = operand_type(*this, Opcode::cast, x);
  if (from.is_number() && from.element == element) return x;
  return results(create({.opcode = Opcode::cast, .operands = {x}}, {from.with_element(element)}))[0];
}

Value Builder::bitcast(Value x, ElementType element) {
  Type from = operand_type(*this, Opcode::bitcast, x);
  if (from.is_number() && from.element == element) return x;
  return results(create({.opcode = Opcode::bitcast, .operands = {x}}, {from.with_element(element)}))[0];
}

Value Builder::offset(Value pointer, Value elements) {
  operand_type(*this, Opcode::offset, pointer, "pointer");
  Type count = operand_type(*this, Opcode::offset, elements, "offset");
  if (count.is_number() && !is_float(count.element)) {
    bool narrow = bit_width(count.element) < 32 || count.element == ElementType::i32;
    elements = cast(elements, narrow ? ElementType::i32 : ElementType::i64);
  }
  broadcast_together(*this, Opcode::offset, {&pointer, &elements});
  return results(create({.opcode = Opcode::offset, .operands = {pointer, elements}}, {Type(type(pointer))}))[0];
}

}  // namespace flextile::ir
