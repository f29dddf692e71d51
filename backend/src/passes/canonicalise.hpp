// Constants folded with the IR's own arithmetic, exact identities, shorter chains of shape operations.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function canonicalise(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
