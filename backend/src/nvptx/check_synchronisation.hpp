// The proof that a scheduled kernel's threads, copies and products do not disturb each other in shared memory.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Gives the function back as it is. Throws InternalError whose sentence names the operation, its bytes, their turn and what
/// they are not ordered after.
ir::Function check_synchronisation(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
