// Whether a score mod raises scores towards the last keys: those are visited first then.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::attention {

/// True where it can be seen that the mod's result never falls while kv grows, and is not the same for all of them: a bias that falls
/// with the distance, as ALiBi's. False where it may fall, or where nothing is known, as of what depends on captured numbers.
bool rises_along_keys(const ir::Function& score_mod);

}  // namespace flextile::attention
