#include "passes/canonicalise.hpp"

#include <cmath>

#include <flextile/ir/rewriter.hpp>

#include "passes/canonical.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed stay as they are

namespace flextile::backend {

using ir::AttributeName;
using ir::Opcode;
using ir::Value;

Value Canonical::emit(Candidate candidate) {
  Value value;
  if (ir::has(candidate.opcode, ir::elementwise)) {
    value = simplify_elementwise(*this, candidate);
  } else {
    value = simplify_shape(*this, candidate);
  }
  return value ? value : create(std::move(candidate));
}

Value Canonical::create(Candidate candidate) {
  const ir::Type type = candidate.type;
  return builder_.results(builder_.create(
      {.opcode = candidate.opcode, .operands = std::move(candidate.operands), .attributes = std::move(candidate.attributes)}, {type}))[0];
}

Value Canonical::constant(const ir::Type& type, const Element& element) {
  return builder_.results(builder_.create({.opcode = Opcode::constant, .attributes = {{AttributeName::value, attribute(element)}}}, {type}))[0];
}

const ir::Operation* Canonical::defined_by(Value value, Opcode opcode) const {
  const ir::Operation* operation = defining(value);
  return operation && operation->opcode == opcode ? operation : nullptr;
}

bool Canonical::is_integer_constant(Value value, std::int64_t number) const {
  Element element;
  return constant_element(value, element) && !is_float(element.type) && element.integer == number;
}

bool Canonical::is_real_constant(Value value, double number) const {
  Element element;
  return constant_element(value, element) && is_float(element.type) && element.real == number && std::signbit(element.real) == std::signbit(number);
}

namespace {

bool is_shape_operation(Opcode opcode) {
  return opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::reshape || opcode == Opcode::transpose;
}

/// Loads, stores, gathers and atomics whose mask is a constant: all true needs no mask, all false does nothing.
class MaskRule {
 public:
  explicit MaskRule(ir::Rewriter& rewriter) : rewriter_(rewriter), canonical_(rewriter.builder()) {}

  /// True: handled.
  bool operator()(const ir::Operation& operation) {
    const std::size_t mask = mask_operand(operation);
    Element element;
    if (mask == 0 || !canonical_.constant_element(rewriter_[operation.operands[mask]], element)) return false;
    return element.integer ? drop_mask(operation, mask) : drop_access(operation);
  }

 private:
  static std::size_t mask_operand(const ir::Operation& operation) {
    switch (operation.opcode) {
      case Opcode::load: return operation.operands.size() > 1 ? 1 : 0;
      case Opcode::store:
      case Opcode::atomic: return operation.operands.size() > 2 ? 2 : 0;
      case Opcode::gather: return operation.attributes.integer(AttributeName::has_mask) ? operation.operands.size() - 1 : 0;
      default: return 0;
    }
  }

  bool drop_mask(const ir::Operation& operation, std::size_t mask) {
    ir::Operation unmasked{.opcode = operation.opcode,
                           .operands = rewriter_.map({operation.operands.begin(), operation.operands.begin() + static_cast<std::ptrdiff_t>(mask)}),
                           .attributes = operation.attributes,
                           .location = operation.location};
    unmasked.attributes.erase(AttributeName::has_mask);
    std::vector<ir::Type> types;
    for (Value result : operation.results) types.push_back(rewriter_.source().type(result));
    const ir::OperationId id = rewriter_.builder().create(std::move(unmasked), types);
    for (std::size_t i = 0; i < types.size(); ++i) rewriter_.replace(operation.results[i], rewriter_.builder().results(id)[i]);
    return true;
  }

  bool drop_access(const ir::Operation& operation) {
    if (operation.results.empty()) return true;
    const ir::Type type = rewriter_.source().type(operation.results[0]);
    const bool has_other = operation.opcode == Opcode::load && operation.operands.size() > 2;
    rewriter_.replace(operation.results[0], has_other ? rewriter_[operation.operands[2]] : canonical_.constant(type, {type.element, 0, 0}));
    return true;
  }

  ir::Rewriter& rewriter_;
  Canonical canonical_;
};

/// A reduction over one element is that element.
bool drop_reduction(ir::Rewriter& rewriter, const ir::Operation& operation) {
  const ir::Function& source = rewriter.source();
  const auto axis = static_cast<std::size_t>(operation.attributes.integer(AttributeName::axis));
  if (source.type(operation.operands[0]).extents[axis] != 1) return false;
  for (std::size_t i = 0; i < operation.results.size(); ++i) {
    Canonical canonical(rewriter.builder());
    rewriter.replace(operation.results[i], canonical.emit({.opcode = Opcode::reshape,
                                                           .operands = {rewriter[operation.operands[i]]},
                                                           .type = source.type(operation.results[i])}));
  }
  return true;
}

}  // namespace

ir::Function canonicalise(const ir::Function& function, const Target&) {
  ir::Rewriter rewriter(function);
  MaskRule mask_rule(rewriter);
  rewriter.run([&](ir::OperationId id) {
    const ir::Operation& operation = function.operation(id);
    rewriter.builder().location = operation.location;
    if (operation.opcode == Opcode::reduce) return drop_reduction(rewriter, operation);
    if (!ir::has(operation.opcode, ir::elementwise) && !is_shape_operation(operation.opcode)) return mask_rule(operation);
    Canonical canonical(rewriter.builder());
    rewriter.replace(operation.results[0], canonical.emit({.opcode = operation.opcode,
                                                           .operands = rewriter.map(operation.operands),
                                                           .type = function.type(operation.results[0]),
                                                           .attributes = operation.attributes}));
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
