// Fuses a product and the sum that alone uses it into one fma, where both come from one expression of f32 or f64.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

ir::Function contract(const ir::Function& function, const Target& target);

}  // namespace flextile::backend
