// Which rule holds for which operation, and what holds for every one: arity, existing operands, well-formed types.
#include "rules.hpp"

namespace flextile::ir {
namespace {

std::string rule_of(const Rule& rule) {
  switch (rule.operation.opcode) {
    case Opcode::constant:
      return constant_rule(rule);
    case Opcode::arange:
      return arange_rule(rule);
    case Opcode::program_id:
    case Opcode::num_programs:
      return program_rule(rule);
    case Opcode::neg:
    case Opcode::abs:
      return unary_rule(rule, ElementClass::numbers);
    case Opcode::bit_not:
      return unary_rule(rule, ElementClass::bits);
    case Opcode::unlikely:
      return unlikely_rule(rule);
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round:
    case Opcode::trunc:
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::exp:
    case Opcode::exp2:
    case Opcode::log:
    case Opcode::log2:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::erf:
      return unary_rule(rule, ElementClass::floats);
    case Opcode::cast:
      return cast_rule(rule);
    case Opcode::bitcast:
      return bitcast_rule(rule);
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::div:
    case Opcode::rem:
    case Opcode::min:
    case Opcode::max:
      return binary_rule(rule, ElementClass::numbers);
    case Opcode::pow:
      return binary_rule(rule, ElementClass::floats);
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
      return binary_rule(rule, ElementClass::bits);
    case Opcode::shl:
    case Opcode::shr:
      return binary_rule(rule, ElementClass::integers);
    case Opcode::eq:
    case Opcode::ne:
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge:
      return comparison_rule(rule);
    case Opcode::fma:
      return fma_rule(rule);
    case Opcode::select:
      return select_rule(rule);
    case Opcode::broadcast:
      return broadcast_rule(rule);
    case Opcode::expand_dims:
      return expand_dims_rule(rule);
    case Opcode::reshape:
      return reshape_rule(rule);
    case Opcode::transpose:
      return transpose_rule(rule);
    case Opcode::offset:
      return offset_rule(rule);
    case Opcode::load:
      return load_rule(rule);
    case Opcode::store:
      return store_rule(rule);
    case Opcode::view_load:
      return view_load_rule(rule);
    case Opcode::view_store:
      return view_store_rule(rule);
    case Opcode::gather:
      return gather_rule(rule);
    case Opcode::view_size:
    case Opcode::view_stride:
    case Opcode::view_base:
      return view_query_rule(rule);
    case Opcode::atomic:
      return atomic_rule(rule);
    case Opcode::atomic_cas:
      return atomic_cas_rule(rule);
    case Opcode::dot:
      return dot_rule(rule);
    case Opcode::reduce:
      return reduce_rule(rule);
    case Opcode::for_:
      return for_rule(rule);
    case Opcode::while_:
      return while_rule(rule);
    case Opcode::if_:
      return if_rule(rule);
    case Opcode::yield:
    case Opcode::return_:
      return yield_rule(rule);
    case Opcode::condition:
      return condition_rule(rule);
    case Opcode::convert_layout:
      return convert_layout_rule(rule);
    case Opcode::alloc_shared:
      return alloc_shared_rule(rule);
    case Opcode::shared_load:
      return shared_load_rule(rule);
    case Opcode::shared_store:
      return shared_store_rule(rule);
    case Opcode::async_copy:
      return async_copy_rule(rule);
    case Opcode::async_wait:
      return async_wait_rule(rule);
    case Opcode::barrier:
      return "";
    case Opcode::product_wait:
      return product_wait_rule(rule);
    case Opcode::turn:
      return turn_rule(rule);
    case Opcode::bulk_copy:
      return bulk_copy_rule(rule);
    case Opcode::matrix_store:
      return matrix_store_rule(rule);
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
      return "";
    case Opcode::bulk_store:
      return bulk_store_rule(rule);
    case Opcode::bulk_wait:
      return bulk_wait_rule(rule);
    case Opcode::ring_start:
      return ring_start_rule(rule);
    case Opcode::ring_wait:
      return ring_wait_rule(rule);
    case Opcode::ring_release:
    case Opcode::ring_refill:
      return ring_release_rule(rule);
    case Opcode::ring_put:
    case Opcode::ring_get:
      return scalar_ring_rule(rule);
    case Opcode::take_program:
    case Opcode::worker_id:
    case Opcode::num_workers:
      return worker_rule(rule);
    case Opcode::roles:
      return roles_rule(rule);
  }
  return rule.broken("is no operation");
}

std::string structure_violation(const Rule& rule) {
  const Operation& operation = rule.operation;
  int operands = operand_count(operation.opcode), results = result_count(operation.opcode);
  if (operands >= 0 && rule.operands() != static_cast<std::size_t>(operands)) {
    return rule.broken("takes ", operands, operands == 1 ? " operand" : " operands", ", got ", rule.operands());
  }
  if (results >= 0 && rule.results() != static_cast<std::size_t>(results)) {
    return rule.broken("gives ", results, results == 1 ? " result" : " results", ", got ", rule.results());
  }
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    if (operation.operands[i].index >= rule.function.value_count()) return rule.broken("operand ", i, " is no value of this function");
    if (rule.operand(i).kind == Type::Kind::none) return rule.broken("operand ", i, " has no type");
  }
  for (std::size_t i = 0; i < rule.results(); ++i) {
    if (operation.results[i].index >= rule.function.value_count()) return rule.broken("result ", i, " is no value of this function");
    if (std::string wrong = type_violation(rule.result(i)); !wrong.empty()) return rule.broken("result is ", rule.result(i), ": ", wrong);
  }
  if (!has(operation.opcode, regions) && !operation.blocks.empty()) return rule.broken("has no blocks, got ", operation.blocks.size());
  for (BlockId block : operation.blocks) {
    if (block.index >= rule.function.block_count()) return rule.broken("has a block that is not in this function");
    for (Value argument : rule.function.block(block).arguments) {
      if (argument.index >= rule.function.value_count()) return rule.broken("a block argument is no value of this function");
      const Type& type = rule.function.type(argument);
      if (std::string wrong = type_violation(type); !wrong.empty()) return rule.broken("block argument is ", type, ": ", wrong);
    }
  }
  return "";
}

}  // namespace

std::string rule_violation(const Function& function, const Operation& operation) {
  Rule rule{function, operation};
  std::string sentence = structure_violation(rule);
  return sentence.empty() ? rule_of(rule) : sentence;
}

bool contains(ElementClass set, ElementType element) {
  switch (set) {
    case ElementClass::numbers:
      return element != ElementType::i1 && !is_float8(element);
    case ElementClass::floats:
      return is_float(element) && !is_float8(element);
    case ElementClass::integers:
      return is_integer(element);
    case ElementClass::bits:
      return !is_float(element);
    case ElementClass::all:
      return true;
  }
  return false;
}

std::string_view describe(ElementClass set) {
  switch (set) {
    case ElementClass::numbers:
      return "integer or floating point";
    case ElementClass::floats:
      return "floating point";
    case ElementClass::integers:
      return "integer";
    case ElementClass::bits:
      return "integer or i1";
    case ElementClass::all:
      return "any";
  }
  return "";
}

bool is_scalar_of(const Type& type, ElementType element) { return type.is_scalar() && type.element == element; }

std::string type_violation(const Type& type) {
  if (type.kind == Type::Kind::none) return "a value must have a type";
  if (type.kind == Type::Kind::view || type.kind == Type::Kind::token) return "";
  for (int axis = 0; axis < type.rank; ++axis) {
    if (type.extents[axis] < 1) return join("axis ", axis, " has ", type.extents[axis], " elements, must have at least 1");
  }
  if (type.elements() > max_tile_elements) return join("it has ", type.elements(), " elements, a tile has at most ", max_tile_elements);
  if (type.is_shared() && type.stages < 1) return join("it has ", type.stages, " stages, must have at least 1");
  return "";
}

const Operation* terminator_of(const Function& function, BlockId block) {
  const std::vector<OperationId>& operations = function.block(block).operations;
  if (operations.empty() || operations.back().index >= function.operation_count()) return nullptr;
  const Operation& last = function.operation(operations.back());
  return has(last.opcode, terminator) ? &last : nullptr;
}

}  // namespace flextile::ir
