// The tiles that a call takes a mask in: the mask's own, or those that suit the kernel best.
#pragma once
#include <list>
#include <mutex>

#include <flextile/attention/attention_config.hpp>
#include <flextile/attention/attention_options.hpp>
#include <flextile/attention/block_mask.hpp>
#include <flextile/runtime/stream.hpp>

#include "attention_problem.hpp"

namespace flextile {

/// A mask in other tiles than its own, each made when a call first asks for it. May be asked by several threads.
class BlockMask::OtherTiles {
 public:
  /// `mask`, to which this belongs, in these tiles, for work on `stream` (null: the device's own). Null where a stream is being captured before they
  /// are there: what is captured is done later, or never.
  const BlockMask* get(const BlockMask& mask, MaskBlock tiles, const Stream* stream);

 private:
  struct Made {
    BlockMask mask;
    Event built;
    bool is_built = false;   // as seen on the host
  };
  std::mutex mutex_;
  std::list<Made> made_;     // which stay where they are
};

namespace attention {

/// Masks that are made with room for others: in the default tiles, of mods that let rows see much (sees_one_side) and capture no tensor, and are thus
/// made once and used often.
bool may_take_other_tiles(const ir::Mod& mod, int q_block, int kv_block);

/// The problem's mask, or the same in the tiles that suit its head dim best (best_mask_block), where it is one of those, the
/// caller leaves the schedule to the library, and rows are many. They give other bits.
const BlockMask* suitable_mask(const AttentionProblem& problem, const AttentionOptions& options, const Device& device);

}  // namespace attention
}  // namespace flextile
