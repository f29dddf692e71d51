// What a score mod reads of captured tensors for each score, and what that costs the kernel's schedule.
#pragma once
#include <vector>

#include <flextile/attention/attention_config.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::attention {

struct ModReads {
  ModWeight weight = ModWeight::light;
  std::vector<bool> by_distance{};   // of each parameter of the mod: a table that is read at q - kv or kv - q and what a tile has in common
};

/// Null: no mod, which is light. Each thread surveys an interned fragment once.
const ModReads& reads_of(const ir::Function* score_mod);
inline ModWeight weight_of(const ir::Function* score_mod) { return reads_of(score_mod).weight; }

}  // namespace flextile::attention
