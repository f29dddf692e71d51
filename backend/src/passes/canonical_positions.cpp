// Places in a sequence, first + 0, 1, ... (attribute `position`): a tile of them often lies within one block of a mask's (chunks, pages).
// Then first / size is the block's number for all of them, and first % size + 0, 1, ... are their places in it.
//
// Of conditions that must all hold (a mask), those on positions alone stand together, in front of those on what is read:
// (q >= kv && ids[q] == ids[kv]) && q - kv < 100  is  (q >= kv && q - kv < 100) && ids[q] == ids[kv]. A GPU decides the first part without waiting.
#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/canonical.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed have no rule

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;
using ir::Value;

constexpr int deepest = 6;   // operations above each other that are looked at

/// A power of two, up to 2^30, that surely divides the integer, also where it wrapped.
std::int64_t power_of_two_in(const Canonical& canonical, Value value, int depth = 0) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  Element constant;
  if (canonical.constant_element(value, constant)) return constant.integer == 0 ? most : std::min(most, constant.integer & -constant.integer);
  const Operation* operation = canonical.defining(value);
  if (!operation || depth == deepest) return 1;
  auto of = [&](std::size_t i) { return power_of_two_in(canonical, operation->operands[i], depth + 1); };
  switch (operation->opcode) {
    case Opcode::broadcast: return of(0);
    case Opcode::mul: return std::min(most, of(0) * of(1));
    case Opcode::add:
    case Opcode::sub: return std::min(of(0), of(1));
    default: return 1;
  }
}

/// first + 0, 1, ..., and how they came to their shape.
struct Positions {
  Value first, count;
  std::int64_t end = 0;              // of the numbers that are added
  ir::Type line;
  ir::Attributes attributes;
  std::vector<Operation> shapes;     // the last one first
};

std::optional<Positions> positions_in(const Canonical& canonical, Value value) {
  Positions result;
  const Operation* sum = canonical.defining(value);
  for (; sum && (sum->opcode == Opcode::expand_dims || sum->opcode == Opcode::broadcast); sum = canonical.defining(sum->operands[0])) result.shapes.push_back(*sum);
  if (!sum || sum->opcode != Opcode::add || sum->attributes.integer(AttributeName::position) == 0) return std::nullopt;
  const Operation* first = canonical.defined_by(sum->operands[0], Opcode::broadcast);
  const Operation* count = canonical.defined_by(sum->operands[1], Opcode::arange);
  if (!first || !count || canonical.type(first->operands[0]).rank > 0) return std::nullopt;
  result.first = first->operands[0];
  result.count = sum->operands[1];
  result.line = canonical.type(sum->results[0]);
  result.end = count->attributes.integer(AttributeName::start) + result.line.extents[0];
  result.attributes = sum->attributes;
  return result;
}

/// Nothing that a tile reads decides the value.
bool is_of_positions(const Canonical& canonical, Value value, int depth = 0) {
  if (canonical.type(value).rank == 0) return true;
  const Operation* operation = canonical.defining(value);
  if (!operation || depth == 2 * deepest || !ir::has(operation->opcode, ir::pure) || !operation->blocks.empty() || operation->opcode == Opcode::dot) return false;
  return std::all_of(operation->operands.begin(), operation->operands.end(), [&](Value operand) { return is_of_positions(canonical, operand, depth + 1); });
}

/// Conditions that must all hold: those on positions, and the rest. Either may be none.
struct Conditions {
  Value positions, rest;
};

Conditions conditions_of(const Canonical& canonical, Value value) {
  if (is_of_positions(canonical, value)) return {value, {}};
  const Operation* both = canonical.defined_by(value, Opcode::bit_and);
  if (both && is_of_positions(canonical, both->operands[0])) return {both->operands[0], both->operands[1]};
  return {{}, value};
}

}  // namespace

Value join_positions(Canonical& canonical, const Candidate& candidate) {
  if (candidate.type.element != ElementType::i1 || candidate.type.rank == 0) return {};
  const Conditions a = conditions_of(canonical, candidate.operands[0]), b = conditions_of(canonical, candidate.operands[1]);
  const bool of_one_kind = (!a.positions && !b.positions) || (!a.rest && !b.rest), in_order = !a.rest && !b.positions;
  if (of_one_kind || in_order) return {};
  auto all = [&](Value x, Value y) { return !x ? y : !y ? x : canonical.create({.opcode = Opcode::bit_and, .operands = {x, y}, .type = candidate.type}); };   // which no rule takes apart again
  return all(all(a.positions, b.positions), all(a.rest, b.rest));
}

Value simplify_position(Canonical& canonical, const Candidate& candidate) {
  Element size;
  if (!canonical.constant_element(candidate.operands[1], size) || size.integer < 2) return {};
  const std::optional<Positions> positions = positions_in(canonical, candidate.operands[0]);
  if (!positions || positions->end > std::gcd(power_of_two_in(canonical, positions->first), size.integer)) return {};
  const ir::Type scalar = canonical.type(positions->first);
  const Value part = canonical.emit({.opcode = candidate.opcode, .operands = {positions->first, canonical.constant(scalar, size)}, .type = scalar});
  if (candidate.opcode == Opcode::div) return canonical.emit({.opcode = Opcode::broadcast, .operands = {part}, .type = candidate.type});
  Value value = canonical.emit({.opcode = Opcode::broadcast, .operands = {part}, .type = positions->line});
  value = canonical.emit({.opcode = Opcode::add, .operands = {value, positions->count}, .type = positions->line, .attributes = positions->attributes});
  for (auto shape = positions->shapes.rbegin(); shape != positions->shapes.rend(); ++shape) {
    value = canonical.emit({.opcode = shape->opcode, .operands = {value}, .type = canonical.type(shape->results[0]), .attributes = shape->attributes});
  }
  return value;
}

}  // namespace flextile::backend
