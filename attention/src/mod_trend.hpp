// How mods change along keys and rows: which keys a score mod gives the largest scores (where they are the last ones, those are visited first), and
// whether a mask lets a row see many keys.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::attention {

/// How a score mod's result changes while kv grows, as far as can be seen: `rises` and `falls` (never the other way, and not the same for
/// all keys: a bias that falls with the distance, as ALiBi's, rises), `one_way` where the sign of captured numbers decides which of the two,
/// the same for all keys of a row.
enum class Trend { same, rises, falls, one_way, unknown };

Trend trend_along_keys(const ir::Function& score_mod);

/// A mask mod whose border is a staircase, as far as can be seen: as q grows it hides no key that it has shown, or shows none that it has hidden, and so as kv
/// grows (causal, a prefix and causal; not a window, documents, or every eighth key). Its rows see half of the keys or so, most of them in tiles that are full.
bool sees_one_side(const ir::Function& mask_mod);

}  // namespace flextile::attention
