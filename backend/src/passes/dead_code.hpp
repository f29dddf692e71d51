// Drops operations and carried values that nobody needs.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function dead_code(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
