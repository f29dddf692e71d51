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
  /// `mask`, to which this belongs, in these tiles, for work on `stream` (null: the device's own). Null where a stream is being captured and they
  /// were never asked for (what is captured is done later, or never), and where there is no memory for them.
  const BlockMask* get(const BlockMask& mask, MaskBlock tiles, const Stream* stream);

 private:
  static BlockMask listed_in(const BlockMask& mask, MaskBlock tiles);

  struct Made {
    BlockMask mask;
    Event built;
    bool is_built = false;   // as seen on the host
  };
  std::mutex mutex_;
  std::list<Made> made_;     // which stay where they are
};

namespace attention {

/// Mask mods that are worth listing anew: they let rows see much (sees_one_side), and capture nothing that changes, so that a mask is made once and used often.
bool may_take_other_tiles(const ir::Mod& mod);

/// The tiles that such a mask, if its own are left open, is taken in where there are many programs of q_len rows: those that suit the head dim best
/// (best_mask_block), or 128x128 where rows are few (or q_len is 0: any number), or the score mod reads memory for each score.
MaskBlock suitable_tiles(const AttentionShape& shape, const Target& target, std::int64_t q_len);

/// The problem's mask, or the same in suitable tiles, where it may take them, the caller leaves the schedule to the library, and programs are many. They
/// give other bits.
const BlockMask* suitable_mask(const AttentionProblem& problem, const AttentionOptions& options, const Device& device);

}  // namespace attention
}  // namespace flextile
