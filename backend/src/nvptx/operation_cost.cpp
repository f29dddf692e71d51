#include "nvptx/operation_cost.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed costs nothing: shapes, memory, control flow

namespace flextile::backend {

using ir::Opcode;

namespace {

constexpr OperationCost fp32(double count) { return {0, count, 0}; }
constexpr OperationCost integer(double count) { return {0, 0, count}; }

OperationCost of_cast(ElementType from, ElementType to) {
  if (is_float(to) && bit_width(to) == 16) return integer(is_float(from) ? 0.5 : 1);   // two at a time
  return from == ElementType::f16 && is_float(to) ? fp32(1) : integer(1);
}

/// Products and sums of integers of 64 bits take several instructions.
OperationCost arithmetic(ElementType element, Opcode opcode) {
  if (element == ElementType::f64) return fp32(2);
  if (is_float(element)) return fp32(1);
  const bool wide = bit_width(element) == 64;
  return integer(wide ? (opcode == Opcode::mul ? 4 : 2) : 1);
}

/// f32 in terms of the instructions that math.cpp makes of it.
OperationCost of_function(const ir::Operation& operation, ElementType element) {
  const bool approximate = operation.attributes.integer(ir::AttributeName::approximate) != 0;
  if (element == ElementType::f64) return fp32(60);
  switch (operation.opcode) {
    case Opcode::exp2: return {1, 0, 0};
    case Opcode::exp: return {1, 5, 2};
    case Opcode::log2: return {1, 2, 1};
    case Opcode::log: return {1, 3, 1};
    case Opcode::rsqrt: return {1, 2, 1};
    case Opcode::sqrt: return {1, 5, 1};
    case Opcode::tanh: return approximate ? OperationCost{1, 0, 0} : OperationCost{2, 12, 4};
    case Opcode::erf: return {2, 24, 4};
    case Opcode::sin:
    case Opcode::cos: return fp32(50);                       // in f64
    case Opcode::pow: return {1, 100, 10};
    default: return {1, 0, 0};                               // ceil, floor, round, trunc
  }
}

}  // namespace

OperationCost operation_cost(const ir::Function& function, const ir::Operation& operation) {
  const ElementType element = operation.operands.empty() ? ElementType::i32 : function.type(operation.operands[0]).element;
  switch (operation.opcode) {
    case Opcode::arange: return integer(1);
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
    case Opcode::pow: return of_function(operation, element);
    case Opcode::cast: return of_cast(element, function.type(operation.results[0]).element);
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul: return arithmetic(element, operation.opcode);
    case Opcode::fma: return fp32(element == ElementType::f64 ? 2 : 1);
    case Opcode::div:
      if (!is_float(element)) return {1, 2, 12};
      return operation.attributes.integer(ir::AttributeName::approximate) ? fp32(1) : OperationCost{1, 4, 2};
    case Opcode::rem: return {1, 4, 14};
    case Opcode::offset: return integer(2);
    case Opcode::bit_not:
    case Opcode::min:
    case Opcode::max:
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::eq:
    case Opcode::ne:
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge:
    case Opcode::select: return integer(1);
    case Opcode::reduce: {
      const std::string_view kind = operation.attributes.string(ir::AttributeName::kind);
      return is_float(element) && (kind == "sum" || kind == "prod") ? fp32(1) : integer(1);
    }
    default: return {};
  }
}

}  // namespace flextile::backend
