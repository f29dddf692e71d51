// Shared memory, asynchronous copies and roles.
#include "rules.hpp"

namespace flextile::ir {
namespace {

std::string wrong_buffer_and_stage(const Rule& rule) {
  const Type &buffer = rule.operand(0), &stage = rule.operand(1);
  if (!buffer.is_shared()) return rule.broken("buffer is ", buffer, ": must be a shared buffer");
  if (!is_scalar_of(stage, ElementType::i32)) return rule.broken("stage is ", stage, ": must be i32");
  const Operation* constant = rule.function.defining(rule.operation.operands[1]);
  if (!constant || constant->opcode != Opcode::constant) return "";
  std::int64_t number = constant->attributes.integer(AttributeName::value);
  if (number >= 0 && number < buffer.stages) return "";
  return rule.broken("buffer is ", buffer, ", stage is ", number, ": must be from 0 to ", buffer.stages - 1);
}

/// The view at operand 2 and an offset for each of its axes from operand 3 on.
std::string wrong_copy(const Rule& rule, std::size_t count) {
  const Type &buffer = rule.operand(0), &view = rule.operand(2);
  if (count != view.rank)
    return rule.broken("view is ", view, ", got ", count, " offsets: must be one per axis (", static_cast<int>(view.rank), ")");
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_scalar_of(rule.operand(3 + i), ElementType::i32))
      return rule.broken("offset ", i, " is ", rule.operand(3 + i), ": must be i32");
  }
  std::string types = join("buffer is ", buffer, ", view is ", view, ": ");
  if (buffer.element != view.element) return rule.broken(types, "element types must be equal");
  if (buffer.rank > view.rank)
    return rule.broken(types, "a stage has ", static_cast<int>(buffer.rank), " axes, more than the view (", static_cast<int>(view.rank),
                       ")");
  return "";
}

std::string wrong_ring(const Rule& rule, std::size_t operand) {
  if (!rule.operand(operand).is_shared()) return rule.broken("buffer is ", rule.operand(operand), ": must be a shared buffer");
  const Operation* buffer = rule.function.defining(rule.operation.operands[operand]);
  if (!buffer || buffer->attributes.integer(AttributeName::barriers) == 0) return rule.broken("buffer has no barriers: must come from alloc_shared with barriers");
  return "";
}

std::string wrong_ring_and_turn(const Rule& rule) {
  if (!is_scalar_of(rule.operand(1), ElementType::i32)) return rule.broken("turn is ", rule.operand(1), ": must be i32");
  return wrong_ring(rule, 0);
}

/// Blocks that take and give nothing.
std::string wrong_blocks(const Rule& rule) {
  for (BlockId block : rule.operation.blocks) {
    if (!rule.function.block(block).arguments.empty()) return rule.broken("its blocks take no arguments");
    const Operation* last = terminator_of(rule.function, block);
    if (last && (last->opcode != Opcode::yield || !last->operands.empty())) return rule.broken("its blocks must end in a yield of nothing");
  }
  return "";
}

std::string wrong_block(const Rule& rule) {
  if (rule.operation.blocks.size() != 1) return rule.broken("has ", rule.operation.blocks.size(), " blocks: must be one");
  return wrong_blocks(rule);
}

Type stage_of(const Type& buffer) { return Type::tile(buffer.element, buffer.shape()); }

}  // namespace

std::string convert_layout_rule(const Rule& rule) {
  const Type& type = rule.operand(0);
  if (!type.has_shape()) return rule.broken("operand is ", type, ": must be a tile");
  return rule.result() == type ? "" : rule.broken("operand is ", type, ", result is ", rule.result(), ": types must be equal");
}

std::string alloc_shared_rule(const Rule& rule) {
  if (!rule.result().is_shared()) return rule.broken("result is ", rule.result(), ": must be a shared buffer");
  std::int64_t swizzle = rule.integer(AttributeName::swizzle, 0);
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return rule.broken("swizzle is ", swizzle, ": must be 0, 32, 64 or 128 bytes");
  std::int64_t offset = rule.integer(AttributeName::offset, 0);
  if (offset < 0) return rule.broken("offset is ", offset, ": must be at least 0");
  return "";
}

std::string shared_load_rule(const Rule& rule) {
  const std::int64_t diagonals = rule.integer(AttributeName::diagonals, 0);
  if (const std::size_t wanted = diagonals == 0 ? 2 : 3; rule.operands() != wanted) return rule.broken("takes ", wanted, " operands; got ", rule.operands());
  if (std::string wrong = wrong_buffer_and_stage(rule); !wrong.empty()) return wrong;
  Type expected = stage_of(rule.operand(0));
  if (diagonals != 0) {
    if (!is_scalar_of(rule.operand(2), ElementType::i32)) return rule.broken("first is ", rule.operand(2), ": must be one i32");
    if (diagonals != 1 && diagonals != -1) return rule.broken("diagonals is ", diagonals, ": must be 1 or -1");
    const Type& tile = rule.result();
    const bool fits = tile.has_shape() && tile.rank == 2 && expected.rank == 1 && tile.element == expected.element && tile.extents[0] + tile.extents[1] - 1 <= expected.extents[0];
    return fits ? "" : rule.broken("buffer is ", rule.operand(0), ", result is ", tile, ": the stage must have a number for each of the tile's diagonals");
  }
  if (rule.result() == expected) return "";
  Type narrow = rule.result();
  if (narrow.rank == expected.rank && narrow.rank > 0 && narrow.extents[narrow.rank - 1] < expected.extents[narrow.rank - 1]) {
    narrow.extents[narrow.rank - 1] = expected.extents[narrow.rank - 1];
    if (narrow == expected) return "";
  }
  return rule.broken("buffer is ", rule.operand(0), ", result is ", rule.result(), ": must be ", expected, " or fewer columns of it");
}

std::string shared_store_rule(const Rule& rule) {
  if (std::string wrong = wrong_buffer_and_stage(rule); !wrong.empty()) return wrong;
  Type expected = stage_of(rule.operand(0));
  return rule.operand(2) == expected ? ""
                                     : rule.broken("buffer is ", rule.operand(0), ", value is ", rule.operand(2), ": must be ", expected);
}

std::string async_copy_rule(const Rule& rule) {
  if (rule.operands() < 3) return rule.broken("takes a buffer, a stage, a view and its offsets; got ", rule.operands(), " operands");
  if (std::string wrong = wrong_buffer_and_stage(rule); !wrong.empty()) return wrong;
  const Type& view = rule.operand(2);
  if (!view.is_view()) return rule.broken("view is ", view, ": must be a tensor view");
  bool predicated = rule.integer(AttributeName::has_predicate, 0) != 0;
  std::size_t count = rule.operands() - 3;
  if (predicated) {
    if (count == 0) return rule.broken("has_predicate is set: the last operand must be the predicate");
    --count;
    const Type& predicate = rule.operand(rule.operands() - 1);
    if (!is_scalar_of(predicate, ElementType::i1)) return rule.broken("predicate is ", predicate, ": must be one i1");
  }
  if (std::string wrong = wrong_copy(rule, count); !wrong.empty()) return wrong;
  return rule.result().kind == Type::Kind::token ? "" : rule.broken("result is ", rule.result(), ": must be token");
}

std::string async_wait_rule(const Rule& rule) {
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    if (rule.operand(i).kind != Type::Kind::token) return rule.broken("operand ", i, " is ", rule.operand(i), ": must be token");
  }
  std::int64_t pending = rule.integer(AttributeName::pending, 0);
  return pending >= 0 ? "" : rule.broken("pending is ", pending, ": must be at least 0");
}

std::string product_wait_rule(const Rule& rule) {
  const std::size_t results = rule.operation.results.size();
  const bool counts = rule.operands() == results || (results == 1 && rule.operands() == 2);
  if (results > 1 || !counts) return rule.broken("takes and gives one value or none, and may take a tile that comes first; got ", rule.operands(), " operands and ", results, " results");
  if (rule.operands() == 2 && rule.operand(1).element != ElementType::f32) return rule.broken("what comes first is ", rule.operand(1), ": must be a tile of f32");
  const Operation* source = results == 0 ? nullptr : rule.function.defining(rule.operation.operands[0]);
  const bool started = source && (source->opcode == Opcode::for_ || (source->opcode == Opcode::dot && source->attributes.integer(AttributeName::async) != 0));
  if (results == 1 && !started) return rule.broken("operand is ", rule.operand(0), ": must be the result of a dot with async, or of a loop that carries one");
  if (results == 1 && rule.result() != rule.operand(0)) return rule.broken("operand is ", rule.operand(0), ", result is ", rule.result(), ": types must be equal");
  std::int64_t pending = rule.integer(AttributeName::pending, 0);
  return pending >= 0 ? "" : rule.broken("pending is ", pending, ": must be at least 0");
}

std::string turn_rule(const Rule& rule) {
  const std::string_view kind = rule.operation.attributes.string(AttributeName::kind);
  if (kind == "open" || kind == "take" || kind == "pass" || kind == "close") return "";
  return rule.broken("kind is \"", kind, "\": must be open, take, pass or close");
}

std::string bulk_copy_rule(const Rule& rule) {
  if (rule.operands() < 3) return rule.broken("takes a buffer, a turn, a view and its offsets; got ", rule.operands(), " operands");
  if (std::string wrong = wrong_ring_and_turn(rule); !wrong.empty()) return wrong;
  if (!rule.operand(2).is_view()) return rule.broken("view is ", rule.operand(2), ": must be a tensor view");
  if (rule.operation.attributes.has(AttributeName::precision)) {
    const std::string_view precision = rule.string(AttributeName::precision);
    if (precision != "tf32") return rule.broken("precision is \"", precision, "\": must be \"tf32\"");
    if (rule.operand(0).element != ElementType::f32) return rule.broken("buffer is ", rule.operand(0), ": f32 alone is rounded to tf32");
  }
  return wrong_copy(rule, rule.operands() - 3);
}

/// The rows of a stage are shared out to the warpgroups.
std::string wrong_rows(const Rule& rule) {
  const Type& buffer = rule.operand(0);
  const int warps = rule.function.num_warps;
  if (buffer.rank != 2 || bit_width(buffer.element) != 16) return rule.broken("buffer is ", buffer, ": a stage must be a matrix of 16-bit numbers");
  if (warps % 4 == 0 && buffer.extents[0] % (16 * warps) == 0) return "";
  return rule.broken("buffer is ", buffer, ", a program has ", warps, " warps: each of its warpgroups takes a multiple of 64 rows");
}

std::string matrix_store_rule(const Rule& rule) {
  if (std::string wrong = wrong_buffer_and_stage(rule); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_rows(rule); !wrong.empty()) return wrong;
  const Type &buffer = rule.operand(0), &value = rule.operand(2);
  const std::int64_t start = rule.integer(AttributeName::start, 0);
  const std::string types = join("buffer is ", buffer, ", value is ", value, ": ");
  if (!value.is_number() || value.rank != 2 || value.element != buffer.element || value.extents[0] != buffer.extents[0])
    return rule.broken(types, "must be a tile of as many rows");
  if (start < 0 || start + buffer.extents[1] > value.extents[1])
    return rule.broken(types, "columns ", start, " to ", start + buffer.extents[1], " must be the value's");
  return "";
}

std::string bulk_store_rule(const Rule& rule) {
  if (rule.operands() < 3) return rule.broken("takes a buffer, a stage, a view and its offsets; got ", rule.operands(), " operands");
  if (std::string wrong = wrong_buffer_and_stage(rule); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_rows(rule); !wrong.empty()) return wrong;
  if (!rule.operand(2).is_view()) return rule.broken("view is ", rule.operand(2), ": must be a tensor view");
  if (std::string wrong = wrong_write(rule, 2); !wrong.empty()) return wrong;
  return wrong_copy(rule, rule.operands() - 3);
}

std::string bulk_wait_rule(const Rule& rule) {
  const std::int64_t pending = rule.integer(AttributeName::pending, 0);
  return pending >= 0 ? "" : rule.broken("pending is ", pending, ": must be at least 0");
}

std::string ring_start_rule(const Rule& rule) {
  if (rule.operands() == 0) return rule.broken("needs at least one buffer");
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    if (std::string wrong = wrong_ring(rule, i); !wrong.empty()) return wrong;
  }
  return wrong_block(rule);
}

std::string ring_wait_rule(const Rule& rule) { return wrong_ring_and_turn(rule); }

std::string ring_release_rule(const Rule& rule) {
  if (std::string wrong = wrong_ring_and_turn(rule); !wrong.empty()) return wrong;
  return wrong_block(rule);
}

std::string scalar_ring_rule(const Rule& rule) {
  if (rule.operands() < 2) return rule.broken("takes a buffer and a turn; got ", rule.operands(), " operands");
  if (std::string wrong = wrong_ring_and_turn(rule); !wrong.empty()) return wrong;
  const Type& buffer = rule.operand(0);
  std::vector<Type> scalars;
  for (std::size_t i = 2; i < rule.operands(); ++i) scalars.push_back(rule.operand(i));
  for (Value result : rule.operation.results) scalars.push_back(rule.function.type(result));
  std::int64_t words = 0;
  for (const Type& scalar : scalars) {
    if (!scalar.is_number() || scalar.rank != 0) return rule.broken("a value is ", scalar, ": must be a scalar");
    words += bit_width(scalar.element) > 32 ? 2 : 1;
  }
  if (buffer.element != ElementType::i32 || buffer.elements() < words) return rule.broken("buffer is ", buffer, ": a stage must be i32, ", words, " of them at least");
  return "";
}

std::string roles_rule(const Rule& rule) {
  const std::vector<std::int64_t>& registers = rule.operation.attributes.list(AttributeName::registers);
  std::size_t count = rule.operation.blocks.size();
  if (count == 0) return rule.broken("needs at least one block");
  if (registers.size() != count) return rule.broken("has ", count, " blocks and ", registers.size(), " register budgets: must be as many");
  return wrong_blocks(rule);
}

}  // namespace flextile::ir
