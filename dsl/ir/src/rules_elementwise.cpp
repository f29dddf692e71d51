#include "rules.hpp"

namespace flextile::ir {
namespace {

// Why two shapes differ, with the numbers.
std::string shape_difference(const Type& a, const Type& b) {
  Shape merged;
  if (a.rank == b.rank) {
    for (int axis = 0; axis < a.rank; ++axis) {
      if (a.extents[axis] == b.extents[axis]) continue;
      return join("axis ", axis, " has ", a.extents[axis], " and ", b.extents[axis],
                  " elements; shapes must be equal, or 1 where they stretch");
    }
  }
  if (broadcast_shapes(a.shape(), b.shape(), merged)) return join("shapes must be equal; broadcast both to ", merged);
  return join("shapes ", a.shape(), " and ", b.shape(), " must be equal, or 1 where they stretch (axes are matched from the last)");
}

// The common ground of operands called `first` and `second`: one kind, one shape, one element type.
std::string mismatch(const Rule& rule, std::string_view first, const Type& a, std::string_view second, const Type& b) {
  if (a == b) return "";
  std::string types = join(first, " is ", a, ", ", second, " is ", b, ": ");
  if (a.kind != b.kind) return rule.broken(types, "both must be numbers, or both pointers");
  if (a.shape() != b.shape()) return rule.broken(types, shape_difference(a, b));
  return rule.broken(types, "element types must be equal; cast one of them");
}

std::string not_a_number(const Rule& rule, std::string_view role, const Type& type, ElementClass allowed) {
  if (!type.is_number()) return rule.broken(role, " is ", type, ": must be a number or a tile of numbers");
  if (is_float8(type.element) && allowed != ElementClass::all) return rule.broken(role, " is ", type, ": ", float8_sentence);
  if (!contains(allowed, type.element)) return rule.broken(role, " is ", type, ": elements must be ", describe(allowed));
  return "";
}

std::string not_a_condition(const Rule& rule) {
  const Type& condition = rule.operand(0);
  if (condition.is_number() && condition.element == ElementType::i1) return "";
  return rule.broken("condition is ", condition, ": must be i1; compare it, for instance with 0");
}

std::string wrong_result(const Rule& rule, const Type& expected) {
  if (rule.result() == expected) return "";
  return rule.broken("result is ", rule.result(), ": must be ", expected);
}

}  // namespace

std::string constant_rule(const Rule& rule) {
  const Type& type = rule.result();
  if (!type.is_number()) return rule.broken("result is ", type, ": must be a number or a tile of numbers");
  const AttributeValue* value = rule.operation.attributes.find(AttributeName::value);
  if (!value) return rule.broken("needs the attribute value");
  if (is_float(type.element)) {
    return std::holds_alternative<double>(*value) ? "" : rule.broken("result is ", type, ": value must be a floating-point number");
  }
  const std::int64_t* integer = std::get_if<std::int64_t>(value);
  if (!integer) return rule.broken("result is ", type, ": value must be an integer");
  int width = bit_width(type.element);
  if (width == 64) return "";
  std::int64_t low = is_unsigned(type.element) ? 0 : -(std::int64_t{1} << (width - 1));
  std::int64_t high = is_unsigned(type.element) ? (std::int64_t{1} << width) - 1 : (std::int64_t{1} << (width - 1)) - 1;
  if (*integer < low || *integer > high) return rule.broken(*integer, " is no ", type.element, ": values go from ", low, " to ", high);
  return "";
}

std::string arange_rule(const Rule& rule) {
  const Type& type = rule.result();
  if (!type.is_number() || type.element != ElementType::i32 || type.rank != 1) {
    return rule.broken("result is ", type, ": must be a tile of one axis of i32");
  }
  const AttributeValue* start = rule.operation.attributes.find(AttributeName::start);
  if (!start || !std::holds_alternative<std::int64_t>(*start)) return rule.broken("needs the integer attribute start");
  std::int64_t first = std::get<std::int64_t>(*start);
  if (first < -2147483648LL || first > 2147483647LL - (type.extents[0] - 1)) {
    return rule.broken("starts at ", first, " and has ", type.extents[0], " elements: all must be i32");
  }
  return "";
}

std::string program_rule(const Rule& rule) {
  std::int64_t axis = rule.integer(AttributeName::axis, -1);
  if (axis < 0 || axis > 2) return rule.broken("axis is ", axis, ": a grid has the axes 0, 1 and 2");
  return wrong_result(rule, Type::scalar(ElementType::i32));
}

std::string worker_rule(const Rule& rule) { return wrong_result(rule, Type::scalar(ElementType::i32)); }

std::string unary_rule(const Rule& rule, ElementClass allowed) {
  if (std::string wrong = not_a_number(rule, "operand", rule.operand(0), allowed); !wrong.empty()) return wrong;
  return wrong_result(rule, rule.operand(0));
}

std::string cast_rule(const Rule& rule) {
  if (std::string wrong = not_a_number(rule, "operand", rule.operand(0), ElementClass::all); !wrong.empty()) return wrong;
  return wrong_result(rule, rule.operand(0).with_element(rule.result().element));
}

std::string bitcast_rule(const Rule& rule) {
  const Type &from = rule.operand(0), &to = rule.result();
  if (std::string wrong = not_a_number(rule, "operand", from, ElementClass::all); !wrong.empty()) return wrong;
  if (bit_width(from.element) != bit_width(to.element)) {
    return rule.broken("operand is ", from, ", result is ", to, ": widths must be equal, they are ", bit_width(from.element), " and ",
                       bit_width(to.element), " bits");
  }
  return wrong_result(rule, from.with_element(to.element));
}

std::string binary_rule(const Rule& rule, ElementClass allowed) {
  const Type &left = rule.operand(0), &right = rule.operand(1);
  if (left.is_pointer() || right.is_pointer()) {
    return rule.broken("left is ", left, ", right is ", right, ": pointers only take +, - with an integer, and comparisons with pointers");
  }
  if (std::string wrong = not_a_number(rule, "left", left, allowed); !wrong.empty()) return wrong;
  if (std::string wrong = not_a_number(rule, "right", right, allowed); !wrong.empty()) return wrong;
  if (std::string wrong = mismatch(rule, "left", left, "right", right); !wrong.empty()) return wrong;
  return wrong_result(rule, left);
}

std::string comparison_rule(const Rule& rule) {
  const Type &left = rule.operand(0), &right = rule.operand(1);
  for (const Type* side : {&left, &right}) {
    if (!side->has_shape()) return rule.broken(side == &left ? "left" : "right", " is ", *side, ": must be a number, a pointer or a tile");
    if (side->is_number() && is_float8(side->element)) return rule.broken(side == &left ? "left" : "right", " is ", *side, ": ", float8_sentence);
  }
  if (std::string wrong = mismatch(rule, "left", left, "right", right); !wrong.empty()) return wrong;
  return wrong_result(rule, Type::tile(ElementType::i1, left.shape()));
}

std::string fma_rule(const Rule& rule) {
  constexpr std::string_view roles[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    if (std::string wrong = not_a_number(rule, roles[i], rule.operand(i), ElementClass::floats); !wrong.empty()) return wrong;
  }
  for (int i = 1; i < 3; ++i) {
    if (std::string wrong = mismatch(rule, roles[0], rule.operand(0), roles[i], rule.operand(i)); !wrong.empty()) return wrong;
  }
  return wrong_result(rule, rule.operand(0));
}

std::string unlikely_rule(const Rule& rule) {
  if (std::string wrong = not_a_condition(rule); !wrong.empty()) return wrong;
  return wrong_result(rule, rule.operand(0));
}

std::string select_rule(const Rule& rule) {
  const Type &condition = rule.operand(0), &a = rule.operand(1), &b = rule.operand(2);
  if (std::string wrong = not_a_condition(rule); !wrong.empty()) return wrong;
  if (!a.has_shape()) return rule.broken("the value where true is ", a, ": must be a number, a pointer or a tile");
  if (!b.has_shape()) return rule.broken("the value where false is ", b, ": must be a number, a pointer or a tile");
  if (std::string wrong = mismatch(rule, "the value where true", a, "the value where false", b); !wrong.empty()) return wrong;
  if (condition.shape() != a.shape()) {
    return rule.broken("condition is ", condition, ", values are ", a, ": ", shape_difference(condition, a));
  }
  return wrong_result(rule, a);
}

}  // namespace flextile::ir
