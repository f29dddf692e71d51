// Work that only branches need is done in them.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Moves element-wise and shape operations whose results are used in branches alone into these, one copy for each, where some path
/// then goes without.
ir::Function sink(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
