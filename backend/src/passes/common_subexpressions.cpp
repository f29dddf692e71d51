#include "passes/common_subexpressions.hpp"

#include <bit>
#include <string_view>
#include <unordered_map>

#include <flextile/ir/rewriter.hpp>

#include "effects.hpp"

namespace flextile::backend {
namespace {

using ir::OperationId;
using ir::Value;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); }

/// Equal to the bit: 0 and -0 are different constants, and a NaN is itself.
bool same(const ir::AttributeValue& a, const ir::AttributeValue& b) {
  const double* left = std::get_if<double>(&a);
  const double* right = std::get_if<double>(&b);
  if (left && right) return std::bit_cast<std::uint64_t>(*left) == std::bit_cast<std::uint64_t>(*right);
  return a == b;
}

bool same(const ir::Attributes& a, const ir::Attributes& b) {
  auto other = b.begin();
  for (const auto& [name, value] : a) {
    if (other == b.end() || other->first != name || !same(value, other->second)) return false;
    ++other;
  }
  return other == b.end();
}

std::uint64_t hash_of(const ir::AttributeValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<std::uint64_t>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return std::bit_cast<std::uint64_t>(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return std::hash<std::string_view>{}(*text);
  std::uint64_t hash = 7;
  for (const std::int64_t entry : std::get<std::vector<std::int64_t>>(value)) hash = mix(hash, static_cast<std::uint64_t>(entry));
  return hash;
}

/// Finds for every value the first one that is equal and visible. What a block defines is visible in the blocks inside it
/// and forgotten at its end. Loads are equal while nothing was written between them.
class Numbering {
 public:
  explicit Numbering(const ir::Function& function) : function_(function), leaders_(function.value_count()) {
    for (std::uint32_t i = 0; i < leaders_.size(); ++i) leaders_[i] = Value{i};
    visit(function.body());
  }
  Value leader(Value value) const { return leaders_[value.index]; }

 private:
  struct Entry {
    OperationId operation;
    std::uint64_t epoch;
  };

  void visit(ir::BlockId block) {
    std::vector<std::uint64_t> added;
    for (const OperationId id : function_.block(block).operations) {
      const ir::Operation& operation = function_.operation(id);
      const bool changes = changes_memory(function_, operation);
      if (changes) ++epoch_;                       // also before a loop: its end comes before its beginning
      for (const ir::BlockId inner : operation.blocks) visit(inner);
      if (changes) ++epoch_;
      const bool reads = ir::has(operation.opcode, ir::reads);
      if (!operation.blocks.empty() || changes || operation.results.empty() || !(reads || ir::has(operation.opcode, ir::pure))) continue;
      const std::uint64_t epoch = reads ? epoch_ : 0;
      const std::uint64_t hash = hash_of(operation, epoch);
      if (!join(id, hash, epoch)) {
        table_[hash].push_back({id, epoch});
        added.push_back(hash);
      }
    }
    for (const std::uint64_t hash : added) table_[hash].pop_back();
  }

  std::uint64_t hash_of(const ir::Operation& operation, std::uint64_t epoch) const {
    std::uint64_t hash = mix(static_cast<std::uint64_t>(operation.opcode), epoch);
    for (const Value operand : operation.operands) hash = mix(hash, leader(operand).index);
    for (const auto& [name, value] : operation.attributes) hash = mix(mix(hash, static_cast<std::uint64_t>(name)), backend::hash_of(value));
    return hash;
  }

  bool equal(const ir::Operation& a, const ir::Operation& b) const {
    if (a.opcode != b.opcode || a.operands.size() != b.operands.size() || a.results.size() != b.results.size()) return false;
    for (std::size_t i = 0; i < a.operands.size(); ++i) {
      if (leader(a.operands[i]) != leader(b.operands[i])) return false;
    }
    for (std::size_t i = 0; i < a.results.size(); ++i) {
      if (function_.type(a.results[i]) != function_.type(b.results[i])) return false;
    }
    return same(a.attributes, b.attributes);
  }

  bool join(OperationId id, std::uint64_t hash, std::uint64_t epoch) {
    const auto found = table_.find(hash);
    if (found == table_.end()) return false;
    const ir::Operation& operation = function_.operation(id);
    for (const Entry& entry : found->second) {
      const ir::Operation& first = function_.operation(entry.operation);
      if (entry.epoch != epoch || !equal(first, operation)) continue;
      for (std::size_t i = 0; i < operation.results.size(); ++i) leaders_[operation.results[i].index] = first.results[i];
      return true;
    }
    return false;
  }

  const ir::Function& function_;
  std::vector<Value> leaders_;
  std::unordered_map<std::uint64_t, std::vector<Entry>> table_;
  std::uint64_t epoch_ = 1;               // counts writes
};

}  // namespace

ir::Function common_subexpressions(const ir::Function& function, const Target&) {
  const Numbering numbering(function);
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    const std::vector<Value>& results = function.operation(id).results;
    if (results.empty() || numbering.leader(results[0]) == results[0]) return false;
    for (const Value result : results) rewriter.replace(result, rewriter[numbering.leader(result)]);
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
