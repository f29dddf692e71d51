#include <cmath>
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>
#include <utility>

#include "builder_support.hpp"

namespace flextile::ir {
namespace {

// The operation that holds `block`, or none for the body.
OperationId owner(const Function& function, BlockId block) {
  for (std::uint32_t i = static_cast<std::uint32_t>(function.operation_count()); i-- > 0;) {
    for (BlockId inner : function.operation(OperationId{i}).blocks) {
      if (inner == block) return OperationId{i};
    }
  }
  return {};
}

// What is wrong with the place of the terminator that was just put into `block`.
std::string misplaced(const Function& function, const Operation& operation, BlockId block) {
  std::string who = join("[", name(operation.opcode), "] ");
  if (operation.opcode == Opcode::return_) return block == function.body() ? "" : who + "stands in a loop or branch: only the body returns";
  OperationId holder = owner(function, block);
  if (!holder) return who + "stands in the body, which ends in return";
  return rule_violation(function, function.operation(holder));
}

std::int64_t wrapped(ElementType element, std::int64_t value) {
  // As in C++, a negative literal next to an unsigned value wraps.
  int width = bit_width(element);
  if (value >= 0 || !is_unsigned(element) || width == 64 || width == 1 || value < -(std::int64_t{1} << (width - 1))) return value;
  return value + (std::int64_t{1} << width);
}

}  // namespace

Builder::Builder(Function& function) : function_(function) {
  if (function.block_count() == 0) function.add_block();
  block_ = function.body();
}

void Builder::set_location(std::string_view file, std::uint32_t line) {
  bool same = location.file < function_.files.size() && function_.files[location.file] == file;
  location = {same ? location.file : function_.file(file), line};
}

void Builder::fail(std::string_view sentence) const {
  std::string message = join("flextile: compile error in kernel \"", function_.name, "\"");
  if (location.line != 0) {
    std::string_view file = location.file < function_.files.size() ? std::string_view(function_.files[location.file]) : "";
    message += join(", ", file, ":", location.line);
  }
  throw CompileError(join(message, "\n  ", sentence));
}

OperationId Builder::create(Operation operation, const std::vector<Type>& result_types) {
  if (operation.location == Location{}) operation.location = location;
  Opcode opcode = operation.opcode;
  const std::vector<OperationId>& before = function_.block(block_).operations;
  if (!before.empty() && has(function_.operation(before.back()).opcode, terminator)) {
    fail(join("[", name(opcode), "] follows ", name(function_.operation(before.back()).opcode),
              ", which ends its block: nothing can follow"));
  }
  OperationId id = function_.append(block_, std::move(operation), result_types);
  std::string sentence = rule_violation(function_, function_.operation(id));
  if (sentence.empty() && has(opcode, terminator)) sentence = misplaced(function_, function_.operation(id), block_);
  if (!sentence.empty()) {
    function_.block(block_).operations.pop_back();
    fail(sentence);
  }
  return id;
}

Value Builder::argument(OperationId operation, int block, int index) const {
  return function_.block(function_.operation(operation).blocks[block]).arguments[index];
}

Value Builder::splat(const Type& type, double value) {
  Operation operation{.opcode = Opcode::constant};
  if (is_float(type.element)) {
    operation.attributes.set(AttributeName::value, value);
  } else if (std::trunc(value) == value && std::abs(value) < 0x1p63) {
    operation.attributes.set(AttributeName::value, wrapped(type.element, static_cast<std::int64_t>(value)));
  } else {
    fail(join("[constant] ", std::to_string(value), " is no ", type.element));
  }
  return results(create(std::move(operation), {type}))[0];
}

Value Builder::splat(const Type& type, std::int64_t value) {
  Operation operation{.opcode = Opcode::constant};
  if (is_float(type.element)) {
    operation.attributes.set(AttributeName::value, static_cast<double>(value));
  } else {
    operation.attributes.set(AttributeName::value, wrapped(type.element, value));
  }
  return results(create(std::move(operation), {type}))[0];
}

Value Builder::constant(ElementType element, double value) { return splat(Type::scalar(element), value); }
Value Builder::constant(ElementType element, std::int64_t value) { return splat(Type::scalar(element), value); }

Value Builder::arange(int count, std::int64_t start) {
  return results(
      create({.opcode = Opcode::arange, .attributes = {{AttributeName::start, start}}}, {Type::tile(ElementType::i32, {count})}))[0];
}

Value Builder::program_id(int axis) {
  return results(create({.opcode = Opcode::program_id, .attributes = {{AttributeName::axis, std::int64_t{axis}}}},
                        {Type::scalar(ElementType::i32)}))[0];
}

Value Builder::num_programs(int axis) {
  return results(create({.opcode = Opcode::num_programs, .attributes = {{AttributeName::axis, std::int64_t{axis}}}},
                        {Type::scalar(ElementType::i32)}))[0];
}

void broadcast_together(Builder& builder, Opcode opcode, std::initializer_list<Value*> values) {
  Shape shape;
  for (const Value* value : values) {
    Type type = operand_type(builder, opcode, *value);
    if (!type.has_shape() || !broadcast_shapes(shape, type.shape(), shape)) return;
  }
  for (Value* value : values) *value = builder.broadcast(*value, shape);
}

Value as_index(Builder& builder, Opcode opcode, Value value) {
  Type type = operand_type(builder, opcode, value, "index");
  bool fits = type.is_number() && !is_float(type.element) && bit_width(type.element) <= 32 && type.element != ElementType::i32;
  return fits ? builder.cast(value, ElementType::i32) : value;
}

}  // namespace flextile::ir
