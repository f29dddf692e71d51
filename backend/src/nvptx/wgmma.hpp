// wgmma.mma_async: matrix products of a warpgroup (four warps) with B, and perhaps A, read straight from shared memory.
#pragma once
#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// Whether some dot of the function is a wgmma: then threads order their own writes to shared memory for it at each barrier.
bool uses_wgmma(const ir::Function& function);
void lower_wgmma(Lowering& l, const ir::Operation& operation);
void lower_turn(Lowering& l, const ir::Operation& operation);
void lower_product_wait(Lowering& l, const ir::Operation& operation);

}  // namespace flextile::backend
