// Element-wise operations: constants fold, exact identities apply, and work on broadcast tiles is done before the broadcast.
#include <cmath>

#include "passes/canonical.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed have no rule

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::Value;

bool is_commutative(Opcode opcode) {
  switch (opcode) {
    case Opcode::add:
    case Opcode::mul:
    case Opcode::min:
    case Opcode::max:
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::eq:
    case Opcode::ne: return true;
    default: return false;
  }
}

Opcode mirrored(Opcode opcode) {
  switch (opcode) {
    case Opcode::lt: return Opcode::gt;
    case Opcode::le: return Opcode::ge;
    case Opcode::gt: return Opcode::lt;
    case Opcode::ge: return Opcode::le;
    default: return opcode;
  }
}

Value fold_constants(Canonical& canonical, const Candidate& candidate) {
  Element elements[3];
  if (candidate.operands.size() > 3) return {};
  for (std::size_t i = 0; i < candidate.operands.size(); ++i) {
    if (!canonical.constant_element(candidate.operands[i], elements[i])) return {};
  }
  Element folded;
  if (!fold(candidate.opcode, candidate.type.element, elements, folded)) return {};
  return canonical.constant(candidate.type, folded);
}

/// op(broadcast a, broadcast b) = broadcast op(a, b), on the smallest shape that a and b share; constants have every shape.
Value sink_broadcast(Canonical& canonical, const Candidate& candidate) {
  ir::Shape shape;
  bool any = false;
  Element element;
  for (Value operand : candidate.operands) {
    if (canonical.constant_element(operand, element)) continue;
    const ir::Operation* broadcast = canonical.defined_by(operand, Opcode::broadcast);
    if (!broadcast || !ir::broadcast_shapes(shape, canonical.type(broadcast->operands[0]).shape(), shape)) return {};
    any = true;
  }
  const ir::Type small = candidate.type.with_shape(shape);
  if (!any || small.elements() >= candidate.type.elements()) return {};
  std::vector<Value> operands;
  for (Value operand : candidate.operands) {
    const ir::Type wanted = canonical.type(operand).with_shape(shape);
    if (canonical.constant_element(operand, element)) {
      operands.push_back(canonical.constant(wanted, element));
    } else {
      const Value source = canonical.defined_by(operand, Opcode::broadcast)->operands[0];
      operands.push_back(canonical.emit({.opcode = Opcode::broadcast, .operands = {source}, .type = wanted}));
    }
  }
  const Value result = canonical.emit({.opcode = candidate.opcode, .operands = std::move(operands), .type = small, .attributes = candidate.attributes});
  return canonical.emit({.opcode = Opcode::broadcast, .operands = {result}, .type = candidate.type});
}

Value simplify_unary(Canonical& canonical, const Candidate& candidate) {
  const Value x = candidate.operands[0];
  const ir::Operation* inner = canonical.defining(x);
  if (!inner) return {};
  switch (candidate.opcode) {
    case Opcode::neg:
      if (inner->opcode == Opcode::neg) return inner->operands[0];
      return {};
    case Opcode::abs:
      if (inner->opcode == Opcode::abs) return x;
      if (inner->opcode == Opcode::neg && is_float(candidate.type.element)) {
        return canonical.emit({.opcode = Opcode::abs, .operands = {inner->operands[0]}, .type = candidate.type});
      }
      return {};
    case Opcode::bit_not: {
      if (inner->opcode == Opcode::bit_not) return inner->operands[0];
      if (!ir::is_comparison(inner->opcode) || candidate.type.element != ElementType::i1) return {};
      constexpr std::pair<Opcode, Opcode> opposites[] = {{Opcode::eq, Opcode::ne}, {Opcode::ne, Opcode::eq}, {Opcode::lt, Opcode::ge},
                                                         {Opcode::ge, Opcode::lt}, {Opcode::gt, Opcode::le}, {Opcode::le, Opcode::gt}};
      const bool ordered = !is_float(canonical.type(inner->operands[0]).element);      // with NaN, not (a < b) is not a >= b
      for (auto [from, to] : opposites) {
        const bool equality = from == Opcode::eq || from == Opcode::ne;
        if (inner->opcode == from && (ordered || equality)) {
          return canonical.emit({.opcode = to, .operands = std::vector<Value>(inner->operands), .type = candidate.type});
        }
      }
      return {};
    }
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round:
    case Opcode::trunc: {
      const bool whole = inner->opcode == Opcode::ceil || inner->opcode == Opcode::floor || inner->opcode == Opcode::round || inner->opcode == Opcode::trunc;
      return whole ? x : Value{};
    }
    default: return {};
  }
}

/// (x op c) op d = x op (c op d), for wrapping integers.
Value merge_constants(Canonical& canonical, const Candidate& candidate) {
  const ir::Operation* inner = canonical.defined_by(candidate.operands[0], candidate.opcode);
  Element first, second, folded;
  if (!inner || !canonical.constant_element(candidate.operands[1], second) || !canonical.constant_element(inner->operands[1], first)) return {};
  const Element both[2] = {first, second};
  if (!fold(candidate.opcode, candidate.type.element, both, folded)) return {};
  const Value x = inner->operands[0];
  return canonical.emit({.opcode = candidate.opcode, .operands = {x, canonical.constant(candidate.type, folded)}, .type = candidate.type});
}

Value simplify_integer(Canonical& canonical, const Candidate& candidate) {
  const Value a = candidate.operands[0], b = candidate.operands[1];
  const ElementType element = candidate.type.element;
  const std::int64_t ones = is_unsigned(element) && bit_width(element) < 64 ? (std::int64_t{1} << bit_width(element)) - 1 : -1;
  auto right = [&](std::int64_t number) { return canonical.is_integer_constant(b, number); };
  auto zero = [&] { return canonical.integer(candidate.type, 0); };
  switch (candidate.opcode) {
    case Opcode::add:
      if (right(0)) return a;
      return merge_constants(canonical, candidate);
    case Opcode::sub: {
      if (right(0)) return a;
      if (a == b) return zero();
      Element constant, negated;
      if (canonical.constant_element(b, constant) && fold(Opcode::neg, element, &constant, negated)) {
        return canonical.emit({.opcode = Opcode::add, .operands = {a, canonical.constant(candidate.type, negated)}, .type = candidate.type});
      }
      return {};
    }
    case Opcode::mul:
      if (right(0)) return b;
      if (right(1)) return a;
      return merge_constants(canonical, candidate);
    case Opcode::div: return right(1) ? a : simplify_position(canonical, candidate);
    case Opcode::rem: return right(1) ? zero() : simplify_position(canonical, candidate);
    case Opcode::shl:
    case Opcode::shr: return right(0) ? a : Value{};
    case Opcode::min:
    case Opcode::max: return a == b ? a : merge_constants(canonical, candidate);
    case Opcode::bit_and:
      if (right(0)) return b;
      if (right(ones) || a == b) return a;
      if (const Value joined = join_positions(canonical, candidate)) return joined;
      return merge_constants(canonical, candidate);
    case Opcode::bit_or:
      if (right(ones)) return b;
      if (right(0) || a == b) return a;
      return merge_constants(canonical, candidate);
    case Opcode::bit_xor:
      if (right(0)) return a;
      if (a == b) return zero();
      if (right(ones)) return canonical.emit({.opcode = Opcode::bit_not, .operands = {a}, .type = candidate.type});
      return merge_constants(canonical, candidate);
    default: return {};
  }
}

/// The reciprocal, where it is exact: a power of two whose reciprocal is normal in every float type of that width or more.
bool exact_reciprocal(const Element& element, double& reciprocal) {
  int exponent = 0;
  const int limit = element.type == ElementType::f16 ? 13 : element.type == ElementType::f64 ? 1000 : 120;
  if (!std::isfinite(element.real) || std::fabs(std::frexp(element.real, &exponent)) != 0.5 || std::abs(exponent) > limit) return false;
  reciprocal = 1 / element.real;
  return true;
}

Value simplify_real(Canonical& canonical, const Candidate& candidate) {
  const Value a = candidate.operands[0], b = candidate.operands[1];
  auto right = [&](double number) { return canonical.is_real_constant(b, number); };
  auto emit = [&](Opcode opcode, Value x, Value y) { return canonical.emit({.opcode = opcode, .operands = {x, y}, .type = candidate.type}); };
  const ir::Operation* negated = canonical.defined_by(b, Opcode::neg);
  switch (candidate.opcode) {
    case Opcode::add:                                   // x + 0 is not x where x is -0
      if (right(-0.0)) return a;
      return negated ? emit(Opcode::sub, a, negated->operands[0]) : Value{};
    case Opcode::sub:
      if (right(0.0)) return a;
      return negated ? emit(Opcode::add, a, negated->operands[0]) : Value{};
    case Opcode::mul: {
      if (right(1.0)) return a;
      const ir::Operation* left_negated = canonical.defined_by(a, Opcode::neg);
      return negated && left_negated ? emit(Opcode::mul, left_negated->operands[0], negated->operands[0]) : Value{};
    }
    case Opcode::div: {
      if (right(1.0)) return a;
      Element divisor;
      double reciprocal = 0;
      if (!canonical.constant_element(b, divisor) || !exact_reciprocal(divisor, reciprocal)) return {};
      return emit(Opcode::mul, a, canonical.constant(candidate.type, {divisor.type, 0, reciprocal}));
    }
    case Opcode::min:
    case Opcode::max: return a == b ? a : Value{};
    default: return {};
  }
}

}  // namespace

Value simplify_elementwise(Canonical& canonical, Candidate& candidate) {
  std::vector<Value>& operands = candidate.operands;
  Element element;
  if (operands.size() == 2 && canonical.constant_element(operands[0], element) && !canonical.constant_element(operands[1], element) &&
      (is_commutative(candidate.opcode) || ir::is_comparison(candidate.opcode))) {
    std::swap(operands[0], operands[1]);
    candidate.opcode = mirrored(candidate.opcode);
  }
  if (Value value = fold_constants(canonical, candidate)) return value;
  if (Value value = sink_broadcast(canonical, candidate)) return value;
  switch (candidate.opcode) {
    case Opcode::cast:
    case Opcode::bitcast: return simplify_cast(canonical, candidate);
    case Opcode::select: return simplify_select(canonical, candidate);
    case Opcode::offset: return canonical.is_integer_constant(operands[1], 0) ? operands[0] : Value{};
    case Opcode::fma:
      if (!canonical.is_real_constant(operands[1], 1.0)) return {};
      return canonical.emit({.opcode = Opcode::add, .operands = {operands[0], operands[2]}, .type = candidate.type});
    default: break;
  }
  if (ir::is_comparison(candidate.opcode)) return simplify_comparison(canonical, candidate);
  if (operands.size() == 1) return simplify_unary(canonical, candidate);
  return is_float(candidate.type.element) ? simplify_real(canonical, candidate) : simplify_integer(canonical, candidate);
}

}  // namespace flextile::backend
