// One copy of each pure operation per place where it is visible.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function common_subexpressions(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
