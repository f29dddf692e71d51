#include "mod_weight.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include <flextile/runtime/argument.hpp>

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
    result_.by_distance.resize(mod.parameters.size());
    visit(mod.body());
  }

  ModReads result() { return std::move(result_); }

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
      if (is_window(operation)) ++result_.windows, result_.by_distance[mod_.definition(operation.operands[0]).position] = true;
      else result_.weight = std::max(result_.weight, is_tile(operation) ? ModWeight::matrix : ModWeight::reads);
    }
  }

  /// table(..., q - kv + c) or table(..., kv - q + c), in which other indices are the same for a tile.
  bool is_window(const ir::Operation& read) const {
    if (mod_.operation(mod_.block(mod_.body()).operations.back()).operands[0] == read.results[0]) return false;   // the mod's result, of which a branch takes care
    if (read.opcode != Opcode::gather || read.attributes.integer(ir::AttributeName::has_mask) != 0 || mod_.definition(read.operands[0]).operation) return false;
    const int width = bit_width(mod_.type(read.operands[0]).element);
    if (width != 16 && width != 32) return false;
    for (std::size_t i = 1; i + 1 < read.operands.size(); ++i)
      if (rows_[read.operands[i].index] || columns_[read.operands[i].index]) return false;
    const std::optional<std::array<int, 2>> steps = steps_of(read.operands.back());
    return steps && (*steps)[0] * (*steps)[1] == -1;
  }

  /// How often q and kv are added; none where the index is no such sum.
  std::optional<std::array<int, 2>> steps_of(Value index) const {
    if (!rows_[index.index] && !columns_[index.index]) return std::array<int, 2>{};
    const std::vector<Value>& parameters = mod_.block(mod_.body()).arguments;
    if (index == parameters[q_of_score]) return std::array<int, 2>{1, 0};
    if (index == parameters[kv_of_score]) return std::array<int, 2>{0, 1};
    const ir::Operation* sum = mod_.defining(index);
    if (!sum || (sum->opcode != Opcode::add && sum->opcode != Opcode::sub)) return std::nullopt;
    const auto a = steps_of(sum->operands[0]), b = steps_of(sum->operands[1]);
    if (!a || !b) return std::nullopt;
    const int sign = sum->opcode == Opcode::add ? 1 : -1;
    return std::array<int, 2>{(*a)[0] + sign * (*b)[0], (*a)[1] + sign * (*b)[1]};
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
  ModReads result_;
};

}  // namespace

ModWeight weight_of(const ir::Mod* score_mod) {
  if (!score_mod || !score_mod->fragment) return ModWeight::light;
  const ModReads& reads = reads_of(score_mod->fragment);
  if (reads.windows > 1) return ModWeight::reads;
  constexpr std::uint32_t most_axes = 5;   // of the copy engine
  for (std::size_t i = 0; i < score_mod->tensors.size(); ++i) {
    const ir::TensorHandle& table = score_mod->tensors[i];
    const bool is_fetched = table.rank <= most_axes && is_aligned(table) && has_unit_stride(table);
    if (reads.by_distance[score_indices + i] && !is_fetched) return ModWeight::reads;
  }
  return reads.weight;
}

const ModReads& reads_of(const ir::Function* score_mod) {
  static const ModReads nothing;
  if (!score_mod) return nothing;
  thread_local std::unordered_map<const ir::Function*, ModReads> known;   // fragments live as long as the program
  const auto found = known.find(score_mod);
  return found != known.end() ? found->second : known.emplace(score_mod, Weigher(*score_mod).result()).first->second;
}

}  // namespace flextile::attention
