#include "nvptx/tile_copies.hpp"

#include <algorithm>

#include "nvptx/matmul.hpp"

namespace flextile::backend {

using ir::AttributeName;
using ir::Attributes;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;
using ir::Value;

OperationId TileCopies::emit(Order& order, BlockId block, Operation operation, const std::vector<Type>& types) {
  const OperationId id = f_.append(block, std::move(operation), types);
  f_.block(block).operations.pop_back();
  order.push_back(id);
  facts_.resize(f_.value_count());
  return id;
}

Value TileCopies::emit_value(Order& order, BlockId block, Opcode opcode, std::vector<Value> operands, const Type& type, Attributes attributes) {
  const OperationId id = emit(order, block, {opcode, std::move(operands), {}, {}, std::move(attributes), location_}, {type});
  return f_.operation(id).results[0];
}

Value TileCopies::number(Order& order, BlockId block, std::int64_t value) {
  return emit_value(order, block, Opcode::constant, {}, Type::scalar(ElementType::i32), {{AttributeName::value, value}});
}

Value TileCopies::arithmetic(Order& order, BlockId block, Opcode opcode, Value a, Value b) { return emit_value(order, block, opcode, {a, b}, f_.type(a)); }

std::vector<OperationId> TileCopies::users(Value value) const {
  std::vector<OperationId> result;
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (OperationId id : f_.block({block}).operations) {
      const auto& operands = f_.operation(id).operands;
      if (std::find(operands.begin(), operands.end(), value) != operands.end()) result.push_back(id);
    }
  }
  return result;
}

bool TileCopies::feeds_dots(Value value, bool transposed) const {
  const std::vector<OperationId> list = users(value);
  if (list.empty()) return false;
  for (OperationId id : list) {
    const Operation& user = f_.operation(id);
    if (user.opcode == Opcode::transpose && !transposed) {
      if (!feeds_dots(user.results[0], true)) return false;
    } else if (user.opcode != Opcode::dot || user.operands[2] == value) {
      return false;
    }
  }
  return true;
}

bool TileCopies::is_in_chunks(const Operation& operation) const {
  if (operation.opcode != Opcode::view_load) return false;
  const Type& type = f_.type(operation.results[0]);
  const int bytes = byte_size(type.element);
  if (type.rank != 2 || type.element == ElementType::i1 || type.extents[1] * bytes % 16 != 0) return false;
  const ir::Parameter* parameter = parameter_of(operation.operands[0]);
  if (!parameter || !parameter->aligned || !parameter->unit_stride) return false;
  if (operation.attributes.number(AttributeName::other) != 0) return false;
  return facts_[operation.operands.back().index].divisor * bytes % 16 == 0;
}

const ir::Parameter* TileCopies::parameter_of(Value value) const {
  const ir::Definition& definition = f_.definition(value);
  return !definition.operation && definition.block == f_.body() ? &f_.parameters[definition.position] : nullptr;
}

bool TileCopies::reads_what_nobody_writes(const Operation& operation) const { return reads_constant_memory(f_, operation); }

bool TileCopies::contains_loop(BlockId block) const {
  for (OperationId id : f_.block(block).operations) {
    const Operation& operation = f_.operation(id);
    if (operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_) return true;
    for (BlockId inner : operation.blocks) {
      if (contains_loop(inner)) return true;
    }
  }
  return false;
}

bool TileCopies::uses(OperationId id, Value value) const {
  const Operation& operation = f_.operation(id);
  if (std::find(operation.operands.begin(), operation.operands.end(), value) != operation.operands.end()) return true;
  for (BlockId inner : operation.blocks) {
    for (OperationId each : f_.block(inner).operations) {
      if (uses(each, value)) return true;
    }
  }
  return false;
}

bool TileCopies::collect_slice(Value value, BlockId body, bool loop_writes, std::vector<OperationId>& slice) const {
  const ir::Definition& definition = f_.definition(value);
  if (definition.block != body) return true;   // from outside: dominance says so
  if (!definition.operation) return definition.position == 0;
  const Operation& operation = f_.operation(definition.operation);
  if (std::find(slice.begin(), slice.end(), definition.operation) != slice.end()) return true;
  const bool read = operation.opcode == Opcode::load || operation.opcode == Opcode::gather || operation.opcode == Opcode::view_load;
  if (!operation.blocks.empty() || (!read && !ir::has(operation.opcode, ir::pure))) return false;
  if (read && loop_writes && !reads_what_nobody_writes(operation)) return false;
  if (f_.type(operation.results[0]).has_shape() && f_.type(operation.results[0]).rank > 0) return false;
  for (Value operand : operation.operands) {
    if (!collect_slice(operand, body, loop_writes, slice)) return false;
  }
  slice.push_back(definition.operation);
  return true;
}

Value TileCopies::renamed(const Renamed& names, Value value) {
  const auto found = names.find(value.index);
  return found == names.end() ? value : found->second;
}

void TileCopies::repeat(Order& order, BlockId block, const std::vector<OperationId>& slice, Value predicate, Renamed& names) {
  for (OperationId id : slice) {
    Operation operation = f_.operation(id);
    const Value old = operation.results[0];
    if (names.contains(old.index)) continue;
    for (Value& operand : operation.operands) operand = renamed(names, operand);
    const bool gathers = operation.opcode == Opcode::gather;
    if (predicate && (gathers || operation.opcode == Opcode::load)) {
      const bool masked = gathers ? operation.attributes.integer(AttributeName::has_mask) != 0 : operation.operands.size() > 1;
      if (masked) {
        Value& mask = gathers ? operation.operands.back() : operation.operands[1];
        mask = arithmetic(order, block, Opcode::bit_and, mask, predicate);
      } else {
        operation.operands.push_back(predicate);
        if (gathers) operation.attributes.set(AttributeName::has_mask, std::int64_t{1});
      }
    }
    operation.results.clear();
    const Type type = f_.type(old);
    names[old.index] = f_.operation(emit(order, block, std::move(operation), {type})).results[0];
  }
}

std::vector<OperationId> TileCopies::read_at_uses(OperationId load, Value buffer, Value stage) {
  std::vector<OperationId> dots;
  const Value value = f_.operation(load).results[0];
  const Type type = f_.type(value);
  for (OperationId id : users(value)) {
    const Operation user = f_.operation(id);
    if (user.opcode == Opcode::transpose) {
      for (OperationId dot : users(user.results[0])) {
        const Value read = read_before(dot, buffer, stage, type);
        Order order;
        const BlockId block = block_of(dot);
        const Value turned = emit_value(order, block, Opcode::transpose, {read}, f_.type(user.results[0]), user.attributes);
        insert_before(dot, block, order);
        substitute(dot, user.results[0], turned);
        dots.push_back(dot);
      }
      remove(id);
    } else {
      substitute(id, value, read_before(id, buffer, stage, type));
      dots.push_back(id);
    }
  }
  return dots;
}

Value TileCopies::read_before(OperationId dot, Value buffer, Value stage, const Type& type) {
  Order order;
  const BlockId block = block_of(dot);
  const Value read = emit_value(order, block, Opcode::shared_load, {buffer, stage}, type);
  insert_before(dot, block, order);
  return read;
}

void TileCopies::insert_before(OperationId place, BlockId block, const Order& order) {
  auto& operations = f_.block(block).operations;
  operations.insert(std::find(operations.begin(), operations.end(), place), order.begin(), order.end());
}

void TileCopies::insert_after(OperationId place, BlockId block, const Order& order) {
  auto& operations = f_.block(block).operations;
  operations.insert(std::find(operations.begin(), operations.end(), place) + 1, order.begin(), order.end());
}

void TileCopies::remove(OperationId id) {
  auto& operations = f_.block(block_of(id)).operations;
  operations.erase(std::find(operations.begin(), operations.end(), id));
}

void TileCopies::substitute(OperationId id, Value old, Value replacement) {
  for (Value& operand : f_.operation(id).operands) {
    if (operand == old) operand = replacement;
  }
}

}  // namespace flextile::backend
