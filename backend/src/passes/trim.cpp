#include "passes/trim.hpp"

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::Value;

/// Where the carried values begin among the operands, the block arguments and the terminator's operands.
struct Places {
  std::size_t operand, argument;
};

Places places(Opcode opcode) {
  if (opcode == Opcode::for_) return {3, 1};
  if (opcode == Opcode::while_) return {0, 0};
  return {1, 0};
}

}  // namespace

void Trimmer::copy(ir::OperationId id, const std::vector<bool>& keep, const std::vector<Value>& replacement) {
  const ir::Function& source = rewriter_.source();
  const ir::Operation& old = source.operation(id);
  ir::Builder& builder = rewriter_.builder();
  const Places from = places(old.opcode);

  ir::Operation trimmed{.opcode = old.opcode, .attributes = old.attributes, .location = old.location};
  std::vector<ir::Type> types;
  for (std::size_t i = 0; i < old.operands.size(); ++i) {
    if (i < from.operand || old.opcode == Opcode::if_ || keep[i - from.operand]) trimmed.operands.push_back(rewriter_[old.operands[i]]);
  }
  for (std::size_t i = 0; i < old.results.size(); ++i) {
    if (keep[i]) types.push_back(source.type(old.results[i]));
  }
  for (const ir::BlockId block : old.blocks) {
    const ir::BlockId fresh = builder.function().add_block();
    trimmed.blocks.push_back(fresh);
    const std::vector<Value>& arguments = source.block(block).arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (i < from.argument || keep[i - from.argument]) {
        rewriter_.replace(arguments[i], builder.function().add_argument(fresh, source.type(arguments[i])));
      } else if (!replacement.empty() && replacement[i - from.argument]) {
        rewriter_.replace(arguments[i], replacement[i - from.argument]);
      }
    }
    const ir::OperationId last = source.block(block).operations.back();
    std::vector<bool> flags(keep.begin(), keep.end());
    if (source.operation(last).opcode == Opcode::condition) flags.insert(flags.begin(), true);
    kept_operands_.emplace(last.index, std::move(flags));
  }
  const std::vector<ir::BlockId> blocks = trimmed.blocks;
  const ir::OperationId made = builder.create(std::move(trimmed), types);
  const ir::BlockId after = builder.insertion_block();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    builder.set_insertion_block(blocks[i]);
    rewriter_.rewrite_block(old.blocks[i]);
  }
  builder.set_insertion_block(after);
  for (std::size_t i = 0, next = 0; i < old.results.size(); ++i) {
    if (keep[i]) rewriter_.replace(old.results[i], builder.results(made)[next++]);
  }
}

bool Trimmer::terminator(ir::OperationId id) {
  const auto found = kept_operands_.find(id.index);
  if (found == kept_operands_.end()) return false;
  const ir::Operation& old = rewriter_.source().operation(id);
  ir::Operation trimmed{.opcode = old.opcode, .attributes = old.attributes, .location = old.location};
  for (std::size_t i = 0; i < old.operands.size(); ++i) {
    if (found->second[i]) trimmed.operands.push_back(rewriter_[old.operands[i]]);
  }
  rewriter_.builder().create(std::move(trimmed), {});
  return true;
}

}  // namespace flextile::backend
