// A mod that reads a captured matrix at its own position, bias(q, kv), reads a tile of it: rows and columns that count up by one.
// Such a gather becomes a view_load, which the copy engine can fetch.
#include <flextile/ir/rewriter.hpp>

#include "nvptx/nvptx.hpp"
#include "nvptx/tile_index.hpp"

namespace flextile::backend {
namespace {

using ir::Opcode;
using ir::OperationId;
using ir::Value;

/// The last index counts columns, the one before it rows, and no other counts.
bool is_tile(const std::vector<TileIndex>& indices) {
  if (indices.size() < 2) return false;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::array<int, 2> wanted = {i + 2 == indices.size(), i + 1 == indices.size()};
    if (indices[i].steps != wanted) return false;
  }
  return true;
}

}  // namespace

ir::Function tile_gathers(const ir::Function& function, const Target&) {
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    const ir::Operation& gather = function.operation(id);
    if (gather.opcode != Opcode::gather) return false;
    const std::vector<TileIndex> indices = gathered_indices(function, gather);
    if (!is_tile(indices)) return false;
    ir::Builder& b = rewriter.builder();
    std::vector<Value> offsets;
    for (const TileIndex& index : indices) {
      offsets.push_back(first_of(index, [&](Opcode opcode, Value x, Value y) { return b.binary(opcode, x, y); },
                                 [&](std::int64_t number) { return b.constant(ElementType::i32, number); }, [&](Value scalar) { return rewriter[scalar]; }));
    }
    rewriter.replace(gather.results[0], b.view_load(rewriter[gather.operands[0]], offsets, function.type(gather.results[0]).shape()));
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
