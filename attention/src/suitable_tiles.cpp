#include "suitable_tiles.hpp"

#include <algorithm>
#include <utility>

#include <flextile/ir/error.hpp>
#include <flextile/runtime/tensor.hpp>

#include "forward_launch.hpp"
#include "mod_trend.hpp"
#include "mod_weight.hpp"
#include "tile_table.hpp"

namespace flextile {
namespace {

bool is(const BlockMask& mask, MaskBlock tiles) { return mask.q_block() == tiles.q && mask.kv_block() == tiles.kv; }

}  // namespace

const BlockMask* BlockMask::OtherTiles::get(const BlockMask& mask, MaskBlock tiles, const Stream* where) {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& made) { return is(made.mask, tiles); });
  if (found != made_.end() && found->is_built) return &found->mask;
  const Stream own = mask.device().stream();   // on which tensors are made
  const Stream stream = where ? *where : own;
  if (found == made_.end()) {
    if (stream.is_capturing() || own.is_capturing()) return nullptr;
    try {
      Made made{listed_in(mask, tiles), Event(mask.device())};
      made.built.record(own);
      found = made_.insert(made_.end(), std::move(made));
    } catch (const OutOfMemory&) {
      return nullptr;
    }
  }
  const bool captured = stream.is_capturing();
  if (captured) found->built.synchronize();                    // a graph may run anywhere
  found->is_built = captured || found->built.is_done();
  if (!found->is_built && !(stream == own)) stream.wait(found->built);
  return &found->mask;
}

BlockMask BlockMask::OtherTiles::listed_in(const BlockMask& mask, MaskBlock tiles) {
  BlockMask other = mask;
  other.other_tiles_.reset();
  other.q_block_ = tiles.q, other.kv_block_ = tiles.kv;
  other.rows_ = other.columns_ = {};
  attention::build_lists(other.mod_, other, BlockMaskOptions().workspace, other.rows_, nullptr);
  return other;
}

namespace attention {

bool may_take_other_tiles(const ir::Mod& mod) { return mod && mod.tensors.empty() && mod.scalars.empty() && sees_one_side(*mod.fragment); }

MaskBlock suitable_tiles(const AttentionShape& shape, const Target& target, std::int64_t q_len) {
  if (q_len == 0 || shape.weight != ModWeight::light || shape.dim % 8 != 0 || shape.value_dim % 8 != 0) return {};
  return best_mask_block(shape.element, std::max(shape.dim, shape.value_dim), target, q_len);
}

const BlockMask* suitable_mask(const AttentionProblem& p, const AttentionOptions& options, const Device& device) {
  constexpr std::int64_t few_keys = 1024;   // of rows that see a few tiles, others fit them badly
  if (!p.mask || !p.mask->other_tiles() || sets_schedule(options) || p.kv_len <= few_keys) return p.mask;
  const AttentionShape shape{.element = p.query.element, .dim = static_cast<int>(p.dim), .value_dim = static_cast<int>(p.value_dim), .weight = weight_of(p.score)};
  const MaskBlock best = suitable_tiles(shape, device.target(), p.q_len);
  if (is(*p.mask, best)) return p.mask;
  const auto [batch, heads, q_len, kv_len] = p.mask->shape();
  const std::int64_t rows = ceil_div(q_len, best.q), tiles = batch * heads * rows * ceil_div(kv_len, best.kv);
  const bool fills_device = p.batch * p.heads * rows >= 2 * device.properties().multiprocessors;
  if (!fills_device || tiles * 4 > pitched_bytes) return p.mask;      // larger tables are counted first, which waits
  const BlockMask* other = p.mask->other_tiles()->get(*p.mask, best, options.stream);
  return other ? other : p.mask;
}

}  // namespace attention
}  // namespace flextile
