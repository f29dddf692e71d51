// What a score mod reads of captured tensors for each score, and what that costs the kernel's schedule.
#pragma once
#include <vector>

#include <flextile/attention/attention_config.hpp>
#include <flextile/ir/function.hpp>
#include <flextile/ir/mod.hpp>

namespace flextile::attention {

struct ModReads {
  ModWeight weight = ModWeight::light;
  std::vector<bool> by_distance{};   // of each parameter of the mod: a table that is read at q - kv or kv - q and what a tile has in common
  int windows = 0;                   // such reads
};

/// Null: no mod, which is light. Each thread surveys an interned fragment once.
const ModReads& reads_of(const ir::Function* score_mod);
/// A table that is read by distance, of whose windows the copy engine can fetch none, costs reads of its own: rows of other than whole
/// 16 bytes, more than 5 axes. So do two windows: their values take as many registers.
ModWeight weight_of(const ir::Mod* score_mod);

}  // namespace flextile::attention
