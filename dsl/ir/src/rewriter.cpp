#include <flextile/ir/error.hpp>
#include <flextile/ir/rewriter.hpp>
#include <utility>

#include "text.hpp"

namespace flextile::ir {

Rewriter::Rewriter(const Function& source)
    : source_(source), result_(source.name, source.parameters), builder_(result_), map_(source.value_count()) {
  result_.files = source.files;
  result_.layouts = source.layouts;
  result_.num_warps = source.num_warps;
  result_.occupancy = source.occupancy;
  for (std::size_t i = 0; i < source.parameters.size(); ++i) {
    replace(source.parameter(i), result_.parameter(i));
    int layout = source.layout_of(source.parameter(i));
    if (layout >= 0) result_.set_layout(result_.parameter(i), source.layouts[layout]);
  }
}

std::vector<Value> Rewriter::map(const std::vector<Value>& old) const {
  std::vector<Value> values;
  values.reserve(old.size());
  for (Value value : old) values.push_back((*this)[value]);
  return values;
}

void Rewriter::replace(Value old, Value replacement) { map_[old.index] = replacement; }

OperationId Rewriter::copy(OperationId id) {
  const Operation& old = source_.operation(id);
  Operation operation = old;
  operation.operands = map(old.operands);
  for (std::size_t i = 0; i < operation.operands.size(); ++i) {
    if (operation.operands[i]) continue;
    throw InternalError(join("flextile: internal error: kernel \"", source_.name, "\"\n  ", print(source_, id), "\n  operand ", i,
                             " was dropped while it is still used"));
  }
  auto keep_layout = [&](Value from, Value to) {
    int layout = source_.layout_of(from);
    if (layout >= 0) result_.set_layout(to, source_.layouts[layout]);
    replace(from, to);
  };
  for (BlockId& block : operation.blocks) {
    BlockId fresh = result_.add_block();
    for (Value argument : source_.block(block).arguments) keep_layout(argument, result_.add_argument(fresh, source_.type(argument)));
    block = fresh;
  }
  std::vector<BlockId> blocks = operation.blocks;
  std::vector<Type> types;
  for (Value result : old.results) types.push_back(source_.type(result));
  OperationId copied = builder_.create(std::move(operation), types);
  for (std::size_t i = 0; i < old.results.size(); ++i) keep_layout(old.results[i], result_.operation(copied).results[i]);
  BlockId here = builder_.insertion_block();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    builder_.set_insertion_block(blocks[i]);
    rewrite_block(old.blocks[i]);
  }
  builder_.set_insertion_block(here);
  return copied;
}

void Rewriter::rewrite_block(BlockId block) {
  for (OperationId id : source_.block(block).operations) {
    builder_.location = source_.operation(id).location;
    if (!visit_ || !visit_(context_, id)) copy(id);
  }
}

Function Rewriter::take() { return std::move(result_); }

}  // namespace flextile::ir
