// What the passes over loops with products in flight share: the loop they look at, who uses what in it, and copies of its
// operations under other names.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

class ProductLoops {
 protected:
  using AttributeName = ir::AttributeName;
  using Attributes = ir::Attributes;
  using BlockId = ir::BlockId;
  using Function = ir::Function;
  using Opcode = ir::Opcode;
  using Operation = ir::Operation;
  using OperationId = ir::OperationId;
  using Type = ir::Type;
  using Value = ir::Value;
  using Values = std::map<std::uint32_t, Value>;

  explicit ProductLoops(Function& function) : f_(function) {}

  int users(Value value) const {
    int count = 0;
    for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
      for (OperationId id : f_.block({block}).operations) {
        const auto& operands = f_.operation(id).operands;
        count += static_cast<int>(std::count(operands.begin(), operands.end(), value));
      }
    }
    return count;
  }

  /// The operation, or one in its blocks, takes the value.
  bool depends_on(const Operation& operation, Value value) const {
    if (std::find(operation.operands.begin(), operation.operands.end(), value) != operation.operands.end()) return true;
    return std::any_of(operation.blocks.begin(), operation.blocks.end(), [&](BlockId block) {
      const auto& inner = f_.block(block).operations;
      return std::any_of(inner.begin(), inner.end(), [&](OperationId id) { return depends_on(f_.operation(id), value); });
    });
  }

  /// Of the body's values, the operation and those in its blocks take only such as `accept` says.
  template <class Accept> bool needs_only(const Operation& operation, const Accept& accept) const {
    for (Value operand : operation.operands) {
      if (f_.definition(operand).block == body_ && !accept(operand)) return false;
    }
    return std::all_of(operation.blocks.begin(), operation.blocks.end(), [&](BlockId block) {
      const auto& inner = f_.block(block).operations;
      return std::all_of(inner.begin(), inner.end(), [&](OperationId id) { return needs_only(f_.operation(id), accept); });
    });
  }

  /// The index of the loop's last iteration.
  Value last_index(BlockId block, const Operation& loop) {
    const Value lower = loop.operands[0], upper = loop.operands[1];
    const std::int64_t stride = f_.defining(loop.operands[2])->attributes.integer(AttributeName::value);
    if (stride == 1) return arithmetic(block, Opcode::sub, upper, number(block, 1));
    const Value trips = arithmetic(block, Opcode::div, arithmetic(block, Opcode::sub, arithmetic(block, Opcode::sub, upper, lower), number(block, 1)), number(block, stride));
    return arithmetic(block, Opcode::add, lower, arithmetic(block, Opcode::mul, trips, number(block, stride)));
  }

  /// The turn of the iteration whose index `names` holds, computed as the body does.
  Value turn_at(BlockId block, Values& names) {
    std::vector<OperationId> chain;
    for (Value value = turn_; f_.definition(value).block == body_ && f_.definition(value).operation; value = f_.operation(chain.back()).operands[0]) chain.push_back(f_.definition(value).operation);
    for (auto id = chain.rbegin(); id != chain.rend(); ++id) {
      for (Value operand : std::vector<Value>(f_.operation(*id).operands)) {
        const Operation* constant = f_.defining(operand);
        if (constant && constant->opcode == Opcode::constant && f_.definition(operand).block == body_ && !names.contains(operand.index)) copy(f_.definition(operand).operation, block, names);
      }
      copy(*id, block, names);
    }
    return renamed(names, turn_);
  }

  // ---- copies of operations
  Value renamed(const Values& names, Value value) const {
    const auto found = names.find(value.index);
    return found == names.end() ? value : found->second;
  }

  void keep_layout(Value from, Value to) {
    if (f_.layout_of(from) >= 0) f_.set_layout(to, ir::Layout(f_.layouts[f_.layout_of(from)]));
  }

  OperationId copy(OperationId id, BlockId block, Values& names) {
    Operation operation = f_.operation(id);
    const std::vector<Value> results = std::exchange(operation.results, {});
    std::vector<Type> types;
    for (Value result : results) types.push_back(f_.type(result));
    for (Value& operand : operation.operands) operand = renamed(names, operand);
    for (BlockId& inner : operation.blocks) inner = copy_block(inner, names);
    const OperationId made = f_.append(block, std::move(operation), types);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Value result = f_.operation(made).results[i];
      keep_layout(results[i], result);
      names[results[i].index] = result;
    }
    return made;
  }

  BlockId copy_block(BlockId source, Values& names) {
    const BlockId block = f_.add_block();
    for (Value argument : std::vector<Value>(f_.block(source).arguments)) {
      names[argument.index] = f_.add_argument(block, f_.type(argument));
      keep_layout(argument, names[argument.index]);
    }
    for (OperationId id : std::vector<OperationId>(f_.block(source).operations)) {
      if (!copied_.contains(id.index)) copy(id, block, names);
    }
    return block;
  }

  Value make(BlockId block, Opcode opcode, std::vector<Value> operands, const Type& type, Attributes attributes = {}) {
    return f_.operation(f_.append(block, {opcode, std::move(operands), {}, {}, std::move(attributes), location_}, {type})).results[0];
  }
  Value number(BlockId block, std::int64_t value) { return make(block, Opcode::constant, {}, Type::scalar(ElementType::i32), {{AttributeName::value, value}}); }
  Value arithmetic(BlockId block, Opcode opcode, Value a, Value b) { return make(block, opcode, {a, b}, f_.type(a)); }
  /// Waits for the product; `first`, if any, is what else is computed until then.
  Value wait(BlockId block, Value product, std::int64_t pending, Value first = {}) {
    std::vector<Value> operands{product};
    if (first) operands.push_back(first);
    const Value done = make(block, Opcode::product_wait, std::move(operands), f_.type(product), {{AttributeName::pending, pending}});
    keep_layout(product, done);
    return done;
  }

  Function& f_;
  BlockId outer_, body_;                       // the loop's block and its body
  Value turn_;                                 // of the body's rings
  std::set<std::uint32_t> copied_;             // operations inside others that stand in front of the copy that is being made
  ir::Location location_;
};

}  // namespace flextile::backend
