// Moves what does not change out of loops.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function loop_invariant(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
