// Changes to a scheduled kernel: operations dropped, moved, repeated, made conditional.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::test {

/// A place in a function: operation number `at` of a block.
struct Site {
  ir::BlockId block;
  std::size_t at = 0;
};

class Mutator {
 public:
  explicit Mutator(const ir::Function& function) : f(function) {}

  ir::Function f;

  const ir::Operation& operation(const Site& site) const { return f.operation(id(site)); }
  ir::Operation& operation(const Site& site) { return f.operation(id(site)); }
  ir::OperationId id(const Site& site) const { return f.block(site.block).operations[site.at]; }

  /// Where such operations stand, in the order of the text.
  template <class Accept> std::vector<Site> all(Accept accept) const {
    std::vector<Site> sites;
    collect(f.body(), accept, sites);
    return sites;
  }
  std::vector<Site> all(ir::Opcode opcode) const {
    return all([&](const ir::Operation& each) { return each.opcode == opcode; });
  }

  /// What took its result takes `operand` instead, if it has one.
  void drop(const Site& site, ir::Value operand = {}) {
    if (operand) replace(operation(site).results[0], operand);
    f.block(site.block).operations.erase(f.block(site.block).operations.begin() + static_cast<std::ptrdiff_t>(site.at));
  }
  void replace(ir::Value old, ir::Value value) {
    for (std::uint32_t i = 0; i < f.operation_count(); ++i) {
      for (ir::Value& operand : f.operation({i}).operands) {
        if (operand == old) operand = value;
      }
    }
  }
  /// The operation goes in front of the one at `place`, of the same block.
  void move(const Site& site, std::size_t place) {
    auto& operations = f.block(site.block).operations;
    const ir::OperationId moved = operations[site.at];
    operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(site.at));
    operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(place - (place > site.at)), moved);
  }
  /// In front of the operation at `site`.
  ir::OperationId insert(const Site& site, ir::Operation operation, const std::vector<ir::Type>& types) {
    const ir::OperationId made = f.append(site.block, std::move(operation), types);
    auto& operations = f.block(site.block).operations;
    operations.pop_back();
    operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(site.at), made);
    return made;
  }
  ir::Value number(const Site& site, std::int64_t value, ElementType element = ElementType::i32) {
    return f.operation(insert(site, {ir::Opcode::constant, {}, {}, {}, {{ir::AttributeName::value, value}}, {}}, {ir::Type::scalar(element)})).results[0];
  }
  /// value + delta, in front of the operation at `site`, which moves on by two.
  ir::Value plus(Site& site, ir::Value value, std::int64_t delta) {
    const ir::Value other = number(site, delta, f.type(value).element);
    ++site.at;
    const ir::Value sum = f.operation(insert(site, {ir::Opcode::add, {value, other}, {}, {}, {}, {}}, {f.type(value)})).results[0];
    ++site.at;
    return sum;
  }
  /// The operation once more, behind itself, with its blocks.
  void repeat(const Site& site) {
    const ir::OperationId made = copy(id(site), site.block);
    auto& operations = f.block(site.block).operations;
    operations.pop_back();
    operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(site.at) + 1, made);
  }
  /// The operation happens only where a condition holds that has nothing to do with it.
  void make_conditional(const Site& site) {
    Site at = site;
    const ir::Value zero = number(at, 0);
    ++at.at;
    const ir::Value program = f.operation(insert(at, {ir::Opcode::program_id, {}, {}, {}, {{ir::AttributeName::axis, std::int64_t{0}}}, {}}, {ir::Type::scalar(ElementType::i32)})).results[0];
    ++at.at;
    const ir::Value condition = f.operation(insert(at, {ir::Opcode::gt, {program, zero}, {}, {}, {}, {}}, {ir::Type::scalar(ElementType::i1)})).results[0];
    ++at.at;
    const ir::OperationId moved = id(at);
    const ir::BlockId inside = f.add_block(), otherwise = f.add_block();
    f.block(inside).operations.push_back(moved);
    f.append(inside, {ir::Opcode::yield, {}, {}, {}, {}, {}}, {});
    f.append(otherwise, {ir::Opcode::yield, {}, {}, {}, {}, {}}, {});
    drop(at);
    insert(at, {ir::Opcode::if_, {condition}, {}, {inside, otherwise}, {}, {}}, {});
  }

 private:
  template <class Accept> void collect(ir::BlockId block, Accept& accept, std::vector<Site>& sites) const {
    const auto& operations = f.block(block).operations;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const ir::Operation& each = f.operation(operations[i]);
      if (accept(each)) sites.push_back({block, i});
      for (ir::BlockId inner : each.blocks) collect(inner, accept, sites);
    }
  }
  ir::OperationId copy(ir::OperationId source, ir::BlockId block) {
    ir::Operation made = f.operation(source);
    std::vector<ir::Type> types;
    for (ir::Value result : made.results) types.push_back(f.type(result));
    const std::vector<ir::Value> results = std::exchange(made.results, {});
    for (ir::BlockId& inner : made.blocks) {
      const ir::BlockId fresh = f.add_block();
      for (ir::OperationId each : std::vector<ir::OperationId>(f.block(inner).operations)) copy(each, fresh);
      inner = fresh;
    }
    for (ir::Value& operand : made.operands) {
      for (const auto& [old, now] : renamed_) operand = operand == old ? now : operand;
    }
    const ir::OperationId id = f.append(block, std::move(made), types);
    for (std::size_t i = 0; i < results.size(); ++i) renamed_.emplace_back(results[i], f.operation(id).results[i]);
    return id;
  }

  std::vector<std::pair<ir::Value, ir::Value>> renamed_;
};

}  // namespace flextile::test
