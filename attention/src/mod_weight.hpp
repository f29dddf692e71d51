// What a score mod costs the kernel's schedule.
#pragma once
#include <flextile/attention/attention_config.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::attention {

/// Null: no mod, which is light. Each thread surveys an interned fragment once.
ModWeight weight_of(const ir::Function* score_mod);

}  // namespace flextile::attention
