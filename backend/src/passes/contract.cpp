#include "passes/contract.hpp"

#include <flextile/ir/rewriter.hpp>

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::OperationId;
using ir::Value;

class Contraction {
 public:
  explicit Contraction(const ir::Function& function) : function_(function), uses_(function.value_count()) {
    for (std::uint32_t block = 0; block < function.block_count(); ++block) {
      for (const OperationId id : function.block(ir::BlockId{block}).operations) {
        for (const Value operand : function.operation(id).operands) ++uses_[operand.index];
      }
    }
  }

  /// The product that `sum` may absorb as its operand: used here alone, written in the same expression.
  const ir::Operation* product(const ir::Operation& sum, Value operand) const {
    const ir::Operation* operation = function_.defining(operand);
    if (!operation || operation->opcode != Opcode::mul || uses_[operand.index] != 1) return nullptr;
    const bool same_block = function_.definition(operand).block == function_.definition(sum.results[0]).block;
    return same_block && operation->location == sum.location ? operation : nullptr;
  }

 private:
  const ir::Function& function_;
  std::vector<int> uses_;
};

Value negated(ir::Builder& builder, Value value) { return builder.unary(Opcode::neg, value); }

}  // namespace

ir::Function contract(const ir::Function& function, const Target&) {
  const Contraction contraction(function);
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    const ir::Operation& sum = function.operation(id);
    if (sum.opcode != Opcode::add && sum.opcode != Opcode::sub) return false;
    const ElementType element = function.type(sum.results[0]).element;
    if (element != ElementType::f32 && element != ElementType::f64) return false;
    const bool subtract = sum.opcode == Opcode::sub;
    const ir::Operation* left = contraction.product(sum, sum.operands[0]);
    const ir::Operation* right = left ? nullptr : contraction.product(sum, sum.operands[1]);
    if (!left && !right) return false;

    ir::Builder& builder = rewriter.builder();
    builder.location = sum.location;
    const ir::Operation& product = left ? *left : *right;
    Value a = rewriter[product.operands[0]], b = rewriter[product.operands[1]];
    Value c = rewriter[sum.operands[left ? 1 : 0]];
    if (subtract && left) c = negated(builder, c);          // a * b - c
    if (subtract && right) a = negated(builder, a);         // c - a * b
    rewriter.replace(sum.results[0], builder.fma(a, b, c));
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
