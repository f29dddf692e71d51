#include "rules.hpp"

namespace flextile::ir {
namespace {

Type number_like(const Type& pointer) { return Type::tile(pointer.element, pointer.shape()); }

std::string not_a_pointer(const Rule& rule) {
  const Type& type = rule.operand(0);
  return type.is_pointer() ? "" : rule.broken("pointer is ", type, ": must be a pointer or a tile of pointers");
}

std::string wrong_mask(const Rule& rule, const Type& pointer, const Type& mask) {
  Type expected = Type::tile(ElementType::i1, pointer.shape());
  return mask == expected ? "" : rule.broken("pointer is ", pointer, ", mask is ", mask, ": the mask must be ", expected);
}

std::string wrong_value(const Rule& rule, const Type& pointer, std::string_view role, const Type& value) {
  if (value == number_like(pointer)) return "";
  std::string types = join("pointer is ", pointer, ", ", role, " is ", value, ": ");
  if (value.is_number() && value.element != pointer.element) return rule.broken(types, "must be ", pointer.element, "; cast it");
  return rule.broken(types, "must be ", number_like(pointer));
}

std::string not_a_view(const Rule& rule, const Type& type) {
  return type.is_view() ? "" : rule.broken("view is ", type, ": must be a tensor view");
}

// Offsets at operands `first`..., one i32 scalar per axis of the view.
std::string wrong_offsets(const Rule& rule, const Type& view, std::size_t first) {
  std::size_t count = rule.operands() - first;
  if (count != view.rank) {
    return rule.broken("view is ", view, ", got ", count, count == 1 ? " offset" : " offsets", ": must be one per axis (",
                       static_cast<int>(view.rank), ")");
  }
  for (std::size_t i = first; i < rule.operands(); ++i) {
    if (!is_scalar_of(rule.operand(i), ElementType::i32))
      return rule.broken("offset ", i - first, " is ", rule.operand(i), ": must be i32");
  }
  return "";
}

std::string wrong_tile_of_view(const Rule& rule, const Type& view, const Type& tile) {
  std::string types = join("view is ", view, ", tile is ", tile, ": ");
  if (!tile.is_number()) return rule.broken(types, "the tile must hold numbers");
  if (tile.element != view.element) return rule.broken(types, "element types must be equal; cast the tile");
  if (tile.rank > view.rank) {
    return rule.broken(types, "the tile has ", static_cast<int>(tile.rank), " axes, more than the view (", static_cast<int>(view.rank),
                       ")");
  }
  return "";
}

bool keeps_origin(Opcode opcode) {
  return opcode == Opcode::offset || opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::reshape ||
         opcode == Opcode::transpose || opcode == Opcode::view_base;
}

// The parameter that a pointer or view comes from, or null where that is not plain to see.
const Parameter* origin(const Function& function, Value value) {
  while (const Operation* operation = function.defining(value)) {
    if (!keeps_origin(operation->opcode) || operation->operands.empty() || operation->operands[0].index >= value.index) return nullptr;
    value = operation->operands[0];
  }
  const Definition& definition = function.definition(value);
  if (definition.block != function.body() || definition.position >= function.parameters.size()) return nullptr;
  return &function.parameters[definition.position];
}

std::string wrong_order_or_scope(const Rule& rule) {
  std::string_view order = rule.string(AttributeName::order), scope = rule.string(AttributeName::scope);
  if (order != "relaxed" && order != "acquire" && order != "release" && order != "acq_rel") {
    return rule.broken("order is \"", order, "\": must be relaxed, acquire, release or acq_rel");
  }
  if (scope != "cta" && scope != "gpu" && scope != "sys") return rule.broken("scope is \"", scope, "\": must be cta, gpu or sys");
  return "";
}

bool is_wide(ElementType element) { return bit_width(element) >= 32; }

}  // namespace

std::string wrong_write(const Rule& rule, std::size_t operand) {
  const Parameter* parameter = origin(rule.function, rule.operation.operands[operand]);
  if (!parameter || !parameter->read_only) return "";
  return rule.broken("parameter \"", parameter->name, "\" is read-only: declare it without const to write to it");
}

std::string offset_rule(const Rule& rule) {
  if (std::string wrong = not_a_pointer(rule); !wrong.empty()) return wrong;
  const Type &pointer = rule.operand(0), &elements = rule.operand(1);
  std::string types = join("pointer is ", pointer, ", offset is ", elements, ": ");
  if (!elements.is_number() || (elements.element != ElementType::i32 && elements.element != ElementType::i64)) {
    return rule.broken(types, "the offset must be i32 or i64");
  }
  if (elements.shape() != pointer.shape()) return rule.broken(types, "shapes must be equal, or 1 where they stretch");
  return rule.result() == pointer ? "" : rule.broken("result is ", rule.result(), ": must be ", pointer);
}

std::string load_rule(const Rule& rule) {
  if (rule.operands() < 1 || rule.operands() > 3)
    return rule.broken("takes a pointer, then a mask, then other; got ", rule.operands(), " operands");
  if (std::string wrong = not_a_pointer(rule); !wrong.empty()) return wrong;
  const Type& pointer = rule.operand(0);
  if (rule.operands() > 1) {
    if (std::string wrong = wrong_mask(rule, pointer, rule.operand(1)); !wrong.empty()) return wrong;
  }
  if (rule.operands() > 2) {
    if (std::string wrong = wrong_value(rule, pointer, "other", rule.operand(2)); !wrong.empty()) return wrong;
  }
  return rule.result() == number_like(pointer) ? "" : rule.broken("result is ", rule.result(), ": must be ", number_like(pointer));
}

std::string store_rule(const Rule& rule) {
  if (rule.operands() < 2 || rule.operands() > 3)
    return rule.broken("takes a pointer, a value, then a mask; got ", rule.operands(), " operands");
  if (std::string wrong = not_a_pointer(rule); !wrong.empty()) return wrong;
  const Type& pointer = rule.operand(0);
  if (std::string wrong = wrong_value(rule, pointer, "value", rule.operand(1)); !wrong.empty()) return wrong;
  if (rule.operands() > 2) {
    if (std::string wrong = wrong_mask(rule, pointer, rule.operand(2)); !wrong.empty()) return wrong;
  }
  return wrong_write(rule, 0);
}

std::string view_load_rule(const Rule& rule) {
  if (rule.operands() < 1) return rule.broken("needs a view");
  const Type& view = rule.operand(0);
  if (std::string wrong = not_a_view(rule, view); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_offsets(rule, view, 1); !wrong.empty()) return wrong;
  const AttributeValue* other = rule.operation.attributes.find(AttributeName::other);
  if (other && !std::holds_alternative<double>(*other) && !std::holds_alternative<std::int64_t>(*other)) {
    return rule.broken("other must be a number");
  }
  return wrong_tile_of_view(rule, view, rule.result());
}

std::string view_store_rule(const Rule& rule) {
  if (rule.operands() < 2) return rule.broken("needs a view and a value");
  const Type& view = rule.operand(0);
  if (std::string wrong = not_a_view(rule, view); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_tile_of_view(rule, view, rule.operand(1)); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_offsets(rule, view, 2); !wrong.empty()) return wrong;
  return wrong_write(rule, 0);
}

std::string gather_rule(const Rule& rule) {
  if (rule.operands() < 1) return rule.broken("needs a view");
  const Type& view = rule.operand(0);
  if (std::string wrong = not_a_view(rule, view); !wrong.empty()) return wrong;
  bool masked = rule.integer(AttributeName::has_mask, 0) != 0;
  std::size_t count = rule.operands() - 1 - (masked && rule.operands() > 1 ? 1 : 0);
  if (masked && rule.operands() == 1) return rule.broken("has_mask is set: the last operand must be the mask");
  if (count != view.rank) {
    return rule.broken("view is ", view, ", got ", count, count == 1 ? " index" : " indices", ": must be one per axis (",
                       static_cast<int>(view.rank), ")");
  }
  Type expected = Type::tile(view.element, rule.result().has_shape() ? rule.result().shape() : Shape{});
  if (rule.result() != expected) return rule.broken("view is ", view, ", result is ", rule.result(), ": must be ", expected);
  for (std::size_t i = 1; i <= count; ++i) {
    const Type& index = rule.operand(i);
    if (!index.is_number() || index.element != ElementType::i32) return rule.broken("index ", i - 1, " is ", index, ": must be i32");
    if (index.shape() != expected.shape())
      return rule.broken("index ", i - 1, " is ", index, ", result is ", expected, ": shapes must be equal");
  }
  if (masked) {
    const Type& mask = rule.operand(rule.operands() - 1);
    Type wanted = Type::tile(ElementType::i1, expected.shape());
    if (mask != wanted) return rule.broken("mask is ", mask, ", result is ", expected, ": the mask must be ", wanted);
  }
  return "";
}

std::string view_query_rule(const Rule& rule) {
  const Type& view = rule.operand(0);
  if (std::string wrong = not_a_view(rule, view); !wrong.empty()) return wrong;
  Type expected = Type::pointer(view.element);
  if (rule.operation.opcode != Opcode::view_base) {
    std::int64_t axis = rule.integer(AttributeName::axis, -1);
    if (axis < 0 || axis >= view.rank) {
      if (view.rank == 0) return rule.broken("view is ", view, ", axis is ", axis, ": the view has no axes");
      return rule.broken("view is ", view, ", axis is ", axis, ": axes go from 0 to ", view.rank - 1);
    }
    expected = Type::scalar(rule.operation.opcode == Opcode::view_size ? ElementType::i32 : ElementType::i64);
  }
  return rule.result() == expected ? "" : rule.broken("result is ", rule.result(), ": must be ", expected);
}

std::string atomic_rule(const Rule& rule) {
  if (rule.operands() < 2 || rule.operands() > 3)
    return rule.broken("takes a pointer, a value, then a mask; got ", rule.operands(), " operands");
  if (std::string wrong = not_a_pointer(rule); !wrong.empty()) return wrong;
  const Type& pointer = rule.operand(0);
  if (std::string wrong = wrong_value(rule, pointer, "value", rule.operand(1)); !wrong.empty()) return wrong;
  if (rule.operands() > 2) {
    if (std::string wrong = wrong_mask(rule, pointer, rule.operand(2)); !wrong.empty()) return wrong;
  }
  std::string_view kind = rule.string(AttributeName::kind);
  bool integer = is_integer(pointer.element) && is_wide(pointer.element);
  if (kind == "add") {
    if (!integer && (!is_float(pointer.element) || is_float8(pointer.element)))
      return rule.broken("pointer is ", pointer, ": kind add takes i32, i64, u32, u64, f16, bf16, f32 and f64");
  } else if (kind == "max" || kind == "min" || kind == "and" || kind == "or" || kind == "xor") {
    if (!integer) return rule.broken("pointer is ", pointer, ": kind ", kind, " takes i32, i64, u32 and u64");
  } else if (kind == "exchange") {
    if (!is_wide(pointer.element)) return rule.broken("pointer is ", pointer, ": kind exchange takes i32, i64, u32, u64, f32 and f64");
  } else {
    return rule.broken("kind is \"", kind, "\": must be add, max, min, and, or, xor or exchange");
  }
  if (std::string wrong = wrong_order_or_scope(rule); !wrong.empty()) return wrong;
  if (rule.result() != number_like(pointer)) return rule.broken("result is ", rule.result(), ": must be ", number_like(pointer));
  return wrong_write(rule, 0);
}

std::string atomic_cas_rule(const Rule& rule) {
  if (std::string wrong = not_a_pointer(rule); !wrong.empty()) return wrong;
  const Type& pointer = rule.operand(0);
  if (!is_wide(pointer.element)) return rule.broken("pointer is ", pointer, ": elements must be i32, i64, u32, u64, f32 or f64");
  if (std::string wrong = wrong_value(rule, pointer, "expected", rule.operand(1)); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_value(rule, pointer, "desired", rule.operand(2)); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_order_or_scope(rule); !wrong.empty()) return wrong;
  if (rule.result() != number_like(pointer)) return rule.broken("result is ", rule.result(), ": must be ", number_like(pointer));
  return wrong_write(rule, 0);
}

}  // namespace flextile::ir
