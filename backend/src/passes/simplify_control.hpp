// Loops that never run, branches whose condition is known.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function simplify_control(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
