// Conversions, comparisons and choices.
#include "passes/canonical.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed have no rule

namespace flextile::backend {

using ir::Opcode;
using ir::Value;

Value simplify_cast(Canonical& canonical, Candidate& candidate) {
  const Value x = candidate.operands[0];
  const ElementType to = candidate.type.element;
  if (canonical.type(x) == candidate.type) return x;
  const ir::Operation* inner = canonical.defined_by(x, candidate.opcode);
  if (!inner) return {};
  const ElementType from = canonical.type(inner->operands[0]).element, middle = canonical.type(x).element;
  bool direct = candidate.opcode == Opcode::bitcast || holds_every(middle, from);
  // Integers wrap: cutting to the middle's width first changes nothing when the end is no wider. i1 asks "not zero" of all bits.
  direct = direct || (is_integer(from) && is_integer(middle) && is_integer(to) && bit_width(to) <= bit_width(middle));
  if (from == ElementType::f8e5m2 && to == from) direct = false;   // infinities become the largest number on the way back
  if (!direct) return {};
  return canonical.emit({.opcode = candidate.opcode, .operands = {inner->operands[0]}, .type = candidate.type});
}

Value simplify_comparison(Canonical& canonical, Candidate& candidate) {
  const Value a = candidate.operands[0], b = candidate.operands[1];
  const ir::Type& type = canonical.type(a);
  if (type.is_number() && is_float(type.element)) return {};      // NaN differs from itself
  const Opcode opcode = candidate.opcode;
  if (a == b) return canonical.integer(candidate.type, opcode == Opcode::eq || opcode == Opcode::le || opcode == Opcode::ge);
  if (type.is_pointer() || type.element != ElementType::i1 || (opcode != Opcode::eq && opcode != Opcode::ne)) return {};
  for (const std::int64_t truth : {0, 1}) {
    if (!canonical.is_integer_constant(b, truth)) continue;
    if ((opcode == Opcode::eq) == (truth == 1)) return a;
    return canonical.emit({.opcode = Opcode::bit_not, .operands = {a}, .type = candidate.type});
  }
  return {};
}

Value simplify_select(Canonical& canonical, Candidate& candidate) {
  Value &condition = candidate.operands[0], &a = candidate.operands[1], &b = candidate.operands[2];
  if (a == b) return a;
  if (Element element; canonical.constant_element(condition, element)) return element.integer ? a : b;
  if (const ir::Operation* opposite = canonical.defined_by(condition, Opcode::bit_not)) {
    return canonical.emit({.opcode = Opcode::select, .operands = {opposite->operands[0], b, a}, .type = candidate.type});
  }
  if (!candidate.type.is_number() || candidate.type.element != ElementType::i1) return {};
  const bool a_true = canonical.is_integer_constant(a, 1), b_true = canonical.is_integer_constant(b, 1);
  const bool a_false = canonical.is_integer_constant(a, 0), b_false = canonical.is_integer_constant(b, 0);
  if (a_true && b_false) return condition;
  if (a_false && b_true) return canonical.emit({.opcode = Opcode::bit_not, .operands = {condition}, .type = candidate.type});
  if (a_true) return canonical.emit({.opcode = Opcode::bit_or, .operands = {condition, b}, .type = candidate.type});
  if (b_false) return canonical.emit({.opcode = Opcode::bit_and, .operands = {condition, a}, .type = candidate.type});
  return {};
}

}  // namespace flextile::backend
