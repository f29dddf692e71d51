#include "rules.hpp"

namespace flextile::ir {
namespace {

std::string not_a_tile(const Rule& rule, const Type& type) {
  return type.has_shape() ? "" : rule.broken("operand is ", type, ": must be a tile of numbers or pointers");
}

std::string wrong_result(const Rule& rule, const Type& expected) {
  if (rule.result() == expected) return "";
  return rule.broken("operand is ", rule.operand(0), ", result is ", rule.result(), ": must be ", expected);
}

bool is_dot_combination(ElementType element, ElementType accumulator) {
  bool small_float = element == ElementType::f16 || element == ElementType::bf16 || element == ElementType::f32 || is_float8(element);
  if (small_float) return accumulator == ElementType::f32;
  if (element == ElementType::f64) return accumulator == ElementType::f64;
  return (element == ElementType::i8 || element == ElementType::u8) && accumulator == ElementType::i32;
}

bool is_reduction(std::string_view kind, ElementType element) {
  if (kind == "sum" || kind == "prod" || kind == "min" || kind == "max") return contains(ElementClass::numbers, element);
  return contains(ElementClass::bits, element);
}

std::string custom_reduce_rule(const Rule& rule) {
  const Operation& operation = rule.operation;
  if (operation.blocks.size() != 1) return rule.broken("kind custom has one block, got ", operation.blocks.size());
  const std::vector<Value>& arguments = rule.function.block(operation.blocks[0]).arguments;
  std::size_t count = rule.operands();
  if (arguments.size() != 2 * count)
    return rule.broken("its block takes ", 2 * count, " scalars (all left ones, then all right ones), got ", arguments.size());
  for (std::size_t i = 0; i < 2 * count; ++i) {
    Type expected = Type::scalar(rule.operand(i % count).element);
    const Type& type = rule.function.type(arguments[i]);
    if (type != expected) return rule.broken("argument ", i, " of its block is ", type, ": must be ", expected);
  }
  const Operation* last = terminator_of(rule.function, operation.blocks[0]);
  if (!last) return "";
  if (last->opcode != Opcode::yield) return rule.broken("its block must end in yield, ends in ", name(last->opcode));
  if (last->operands.size() != count)
    return rule.broken("its block must yield ", count, count == 1 ? " value" : " values", ", yields ", last->operands.size());
  for (std::size_t i = 0; i < count; ++i) {
    Type expected = Type::scalar(rule.operand(i).element);
    const Type& type = rule.function.type(last->operands[i]);
    if (type != expected) return rule.broken("its block yields ", type, " as value ", i, ": must be ", expected);
  }
  return "";
}

}  // namespace

std::string broadcast_rule(const Rule& rule) {
  const Type &from = rule.operand(0), &to = rule.result();
  if (std::string wrong = not_a_tile(rule, from); !wrong.empty()) return wrong;
  if (from.kind != to.kind || from.element != to.element) return wrong_result(rule, from.with_shape(to.shape()));
  if (from.rank == 0) return "";
  if (from.rank != to.rank)
    return rule.broken("operand is ", from, ", result is ", to, ": must have the same number of axes, or the operand none");
  for (int axis = 0; axis < from.rank; ++axis) {
    if (from.extents[axis] == to.extents[axis] || from.extents[axis] == 1) continue;
    return rule.broken("operand is ", from, ", result is ", to, ": axis ", axis, " has ", from.extents[axis],
                       " elements and cannot stretch to ", to.extents[axis]);
  }
  return "";
}

std::string expand_dims_rule(const Rule& rule) {
  const Type& from = rule.operand(0);
  if (std::string wrong = not_a_tile(rule, from); !wrong.empty()) return wrong;
  std::int64_t axis = rule.integer(AttributeName::axis, -1);
  if (axis < 0 || axis > from.rank)
    return rule.broken("operand is ", from, ", axis is ", axis, ": must be from 0 to ", static_cast<int>(from.rank));
  if (from.rank == max_tile_rank) return rule.broken("operand is ", from, ": a tile has at most ", max_tile_rank, " axes");
  Shape shape = from.shape();
  shape.insert(shape.begin() + axis, 1);
  return wrong_result(rule, from.with_shape(shape));
}

std::string reshape_rule(const Rule& rule) {
  const Type &from = rule.operand(0), &to = rule.result();
  if (std::string wrong = not_a_tile(rule, from); !wrong.empty()) return wrong;
  if (from.kind != to.kind || from.element != to.element) return wrong_result(rule, from.with_shape(to.shape()));
  if (from.elements() == to.elements()) return "";
  return rule.broken("operand is ", from, ", result is ", to, ": must have the same number of elements, they have ", from.elements(),
                     " and ", to.elements());
}

std::string transpose_rule(const Rule& rule) {
  const Type& from = rule.operand(0);
  if (std::string wrong = not_a_tile(rule, from); !wrong.empty()) return wrong;
  const std::vector<std::int64_t>& permutation = rule.operation.attributes.list(AttributeName::permutation);
  if (permutation.size() != from.rank) {
    return rule.broken("operand is ", from, ", permutation has ", permutation.size(), " axes: must have ", static_cast<int>(from.rank));
  }
  Shape shape;
  std::array<bool, max_tile_rank> seen{};
  for (std::int64_t axis : permutation) {
    if (axis < 0 || axis >= from.rank) {
      return rule.broken("operand is ", from, ", permutation names axis ", axis, ": axes go from 0 to ", from.rank - 1);
    }
    if (seen[axis]) return rule.broken("operand is ", from, ", permutation names axis ", axis, " twice: must name each axis once");
    seen[axis] = true;
    shape.push_back(from.extents[axis]);
  }
  return wrong_result(rule, from.with_shape(shape));
}

std::string dot_rule(const Rule& rule) {
  const Type &left = rule.operand(0), &right = rule.operand(1), &accumulator = rule.operand(2);
  std::string types = join("left is ", left, ", right is ", right, ": ");
  if (!left.is_number() || left.rank != 2 || !right.is_number() || right.rank != 2)
    return rule.broken(types, "both must be tiles of two axes");
  if (left.element != right.element) return rule.broken(types, "element types must be equal; cast one of them");
  if (left.extents[1] != right.extents[0]) {
    return rule.broken(types, "columns of left (", left.extents[1], ") must equal rows of right (", right.extents[0], ")");
  }
  Shape shape{left.extents[0], right.extents[1]};
  std::string with_accumulator = join("left is ", left, ", right is ", right, ", accumulator is ", accumulator, ": ");
  if (!accumulator.is_number() || accumulator.shape() != shape)
    return rule.broken(with_accumulator, "the accumulator's shape must be ", shape);
  if (!is_dot_combination(left.element, accumulator.element)) {
    return rule.broken(with_accumulator, "f8e4m3, f8e5m2, f16, bf16 and f32 accumulate in f32, f64 in f64, i8 and u8 in i32; no other element types");
  }
  std::string_view precision = rule.string(AttributeName::precision);
  if (rule.operation.attributes.has(AttributeName::precision) && precision != "tf32" && precision != "ieee") {
    return rule.broken("precision is \"", precision, "\": must be \"tf32\" or \"ieee\"");
  }
  if (rule.result() != accumulator) return rule.broken("result is ", rule.result(), ": must be ", accumulator);
  return "";
}

std::string reduce_rule(const Rule& rule) {
  if (rule.operands() == 0) return rule.broken("needs a tile");
  const Type& first = rule.operand(0);
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    const Type& type = rule.operand(i);
    if (!type.is_number() || type.rank == 0) return rule.broken("operand is ", type, ": must be a tile of numbers with an axis to reduce");
    if (type.shape() != first.shape()) return rule.broken("operand 0 is ", first, ", operand ", i, " is ", type, ": shapes must be equal");
  }
  std::int64_t axis = rule.integer(AttributeName::axis, -1);
  if (axis < 0 || axis >= first.rank) return rule.broken("operand is ", first, ", axis is ", axis, ": axes go from 0 to ", first.rank - 1);
  std::string_view kind = rule.string(AttributeName::kind);
  bool known = false;
  for (std::string_view name : {"sum", "prod", "min", "max", "and", "or", "xor", "custom"}) known |= name == kind;
  if (!known) return rule.broken("kind is \"", kind, "\": must be sum, prod, min, max, and, or, xor or custom");
  if (rule.results() != rule.operands())
    return rule.broken("has ", rule.operands(), " operands and ", rule.results(), " results: must be as many");
  Shape shape = first.shape();
  shape.erase(shape.begin() + axis);
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    Type expected = rule.operand(i).with_shape(shape);
    if (rule.result(i) != expected)
      return rule.broken("operand is ", rule.operand(i), ", result is ", rule.result(i), ": must be ", expected);
  }
  if (kind == "custom") return custom_reduce_rule(rule);
  if (rule.operands() != 1) return rule.broken("kind ", kind, " takes one tile, got ", rule.operands());
  if (!rule.operation.blocks.empty()) return rule.broken("only kind custom has a block");
  if (is_float8(first.element)) return rule.broken("operand is ", first, ": ", float8_sentence);
  if (!is_reduction(kind, first.element)) {
    bool bits = kind == "and" || kind == "or" || kind == "xor";
    return rule.broken("operand is ", first, ": kind ", kind, " needs elements that are ",
                       describe(bits ? ElementClass::bits : ElementClass::numbers));
  }
  return "";
}

}  // namespace flextile::ir
