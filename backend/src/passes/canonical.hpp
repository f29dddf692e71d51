// The rules of canonicalise, by family. A rule looks at one operation whose operands are already canonical and says what
// stands for it; what it emits on the way goes through the rules itself, so one walk over the function is enough.
#pragma once
#include <vector>

#include <flextile/ir/builder.hpp>

#include "passes/fold.hpp"

namespace flextile::backend {

/// An operation with one result, before it exists.
struct Candidate {
  ir::Opcode opcode{};
  std::vector<ir::Value> operands;
  ir::Type type;                      // of the result
  ir::Attributes attributes = {};
};

class Canonical {
 public:
  explicit Canonical(ir::Builder& builder) : builder_(builder) {}

  /// The value of the candidate: what the rules give, or a new operation.
  ir::Value emit(Candidate candidate);
  /// A new operation as it is.
  ir::Value create(Candidate candidate);
  ir::Value constant(const ir::Type& type, const Element& element);
  ir::Value integer(const ir::Type& type, std::int64_t value) { return constant(type, {type.element, value, 0}); }

  const ir::Type& type(ir::Value value) const { return builder_.type(value); }
  const ir::Operation* defining(ir::Value value) const { return builder_.function().defining(value); }
  /// The operation that defines `value` if it is an `opcode`, else null.
  const ir::Operation* defined_by(ir::Value value, ir::Opcode opcode) const;
  bool constant_element(ir::Value value, Element& element) const { return backend::constant_element(builder_.function(), value, element); }
  bool is_integer_constant(ir::Value value, std::int64_t number) const;
  bool is_real_constant(ir::Value value, double number) const;

 private:
  ir::Builder& builder_;
};

/// Each returns the value that stands for the candidate, or none after at most reordering its operands.
ir::Value simplify_shape(Canonical& canonical, Candidate& candidate);
ir::Value simplify_elementwise(Canonical& canonical, Candidate& candidate);
/// Part of simplify_elementwise.
ir::Value simplify_select(Canonical& canonical, Candidate& candidate);
ir::Value simplify_cast(Canonical& canonical, Candidate& candidate);
ir::Value simplify_comparison(Canonical& canonical, Candidate& candidate);
/// Part of simplify_elementwise, of an i32's div and rem.
ir::Value simplify_position(Canonical& canonical, const Candidate& candidate);
/// Part of simplify_elementwise, of conditions that must all hold.
ir::Value join_positions(Canonical& canonical, const Candidate& candidate);

}  // namespace flextile::backend
