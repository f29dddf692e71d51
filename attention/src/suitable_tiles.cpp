#include "suitable_tiles.hpp"

#include <algorithm>

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
    const auto [batch, heads, q_len, kv_len] = mask.shape();
    found = made_.insert(made_.end(), Made{build_block_mask(mask.mod(), {.batch = batch, .heads = heads, .q_len = q_len, .kv_len = kv_len, .q_block = tiles.q,
                                                                          .kv_block = tiles.kv, .device = mask.device()}),
                                           Event(mask.device())});
    found->built.record(own);
  }
  found->is_built = found->built.is_done();
  if (found->is_built) return &found->mask;
  if (stream.is_capturing()) return nullptr;
  if (!(stream == own)) stream.wait(found->built);
  return &found->mask;
}

namespace attention {

bool may_take_other_tiles(const ir::Mod& mod, int q_block, int kv_block) {
  return mod && mod.tensors.empty() && MaskBlock{q_block, kv_block} == MaskBlock{} && sees_one_side(*mod.fragment);
}

const BlockMask* suitable_mask(const AttentionProblem& p, const AttentionOptions& options, const Device& device) {
  constexpr std::int64_t few_rows = 1024;   // up to so many, the default tiles are as quick
  if (!p.mask || !p.mask->other_tiles() || p.q_len <= few_rows || sets_schedule(options) || weight_of(p.score) != ModWeight::light) return p.mask;
  if (p.dim % 8 != 0 || p.value_dim % 8 != 0) return p.mask;
  const MaskBlock best = best_mask_block(p.query.element, static_cast<int>(std::max(p.dim, p.value_dim)), device.target(), p.q_len);
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
