#include "mod_weight.hpp"

#include <algorithm>
#include <unordered_map>

#include "mod_arguments.hpp"

namespace flextile::attention {
namespace {

using ir::Opcode;
using ir::Value;

class Weigher {
 public:
  explicit Weigher(const ir::Function& mod) : mod_(mod), rows_(mod.value_count()), columns_(mod.value_count()) {
    const std::vector<Value>& parameters = mod.block(mod.body()).arguments;
    rows_[parameters[q_of_score].index] = columns_[parameters[kv_of_score].index] = true;
    visit(mod.body());
  }

  ModWeight weight() const { return weight_; }

 private:
  void visit(ir::BlockId block) {
    for (ir::OperationId id : mod_.block(block).operations) {
      const ir::Operation& operation = mod_.operation(id);
      for (ir::BlockId inner : operation.blocks) {
        for (Value argument : mod_.block(inner).arguments) rows_[argument.index] = columns_[argument.index] = true;   // of loops nothing is known
        visit(inner);
      }
      auto any = [&](const std::vector<bool>& depends) { return std::any_of(operation.operands.begin(), operation.operands.end(), [&](Value x) { return depends[x.index]; }); };
      const bool by_row = !operation.blocks.empty() || any(rows_), by_column = !operation.blocks.empty() || any(columns_);
      for (Value result : operation.results) rows_[result.index] = by_row, columns_[result.index] = by_column;
      if (!ir::has(operation.opcode, ir::reads) || !by_row || !by_column) continue;
      weight_ = std::max(weight_, is_tile(operation) ? ModWeight::matrix : ModWeight::reads);
    }
  }

  /// matrix(..., q, kv) of 16-bit numbers, in which other indices are the same for a tile.
  bool is_tile(const ir::Operation& read) const {
    if (read.opcode != Opcode::gather || read.attributes.integer(ir::AttributeName::has_mask) != 0) return false;
    const std::size_t count = read.operands.size();
    if (count < 3 || bit_width(mod_.type(read.operands[0]).element) != 16) return false;
    for (std::size_t i = 1; i + 2 < count; ++i)
      if (rows_[read.operands[i].index] || columns_[read.operands[i].index]) return false;
    return counts(read.operands[count - 2], q_of_score) && counts(read.operands[count - 1], kv_of_score);
  }

  /// The parameter, or the parameter and a number.
  bool counts(Value index, std::size_t parameter) const {
    const Value wanted = mod_.block(mod_.body()).arguments[parameter];
    if (index == wanted) return true;
    const ir::Operation* sum = mod_.defining(index);
    if (!sum || sum->opcode != Opcode::add) return false;
    const bool left = sum->operands[0] == wanted, right = sum->operands[1] == wanted;
    const Value other = sum->operands[left ? 1 : 0];
    return left != right && !rows_[other.index] && !columns_[other.index];
  }

  const ir::Function& mod_;
  std::vector<bool> rows_, columns_;   // values that depend on q, on kv
  ModWeight weight_ = ModWeight::light;
};

}  // namespace

ModWeight weight_of(const ir::Function* score_mod) {
  if (!score_mod) return ModWeight::light;
  thread_local std::unordered_map<const ir::Function*, ModWeight> known;   // fragments live as long as the program
  const auto found = known.find(score_mod);
  return found != known.end() ? found->second : known.emplace(score_mod, Weigher(*score_mod).weight()).first->second;
}

}  // namespace flextile::attention
