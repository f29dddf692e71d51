// Refuses kernels that a multiprocessor cannot hold: tiles far too large for the threads' registers, or an occupancy of more warps or programs than it has room for.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Returns the function as it is. Throws CompileError that names the operation, its line, the tile and the numbers.
ir::Function limit_tiles(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
