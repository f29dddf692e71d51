// Rings that the copy engine (TMA) fills: their barriers in shared memory, and what the launch must hand over for them.
#pragma once
#include <vector>

#include <flextile/backend/compile.hpp>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// What the launch must hand over for the bulk copies of the function, in the order of the kernel's last parameters.
std::vector<TensorMap> tensor_maps(const ir::Function& function);
/// Bytes behind the stages of a buffer: the full barriers of its stages, then the empty ones.
std::int64_t barrier_bytes(const ir::Function& function, const ir::Operation& alloc_shared);
/// At the start of the program: they are far away until they are first used.
void prefetch_tensor_maps(Lowering& l);
/// ring_start, ring_wait, ring_release, ring_refill, bulk_copy.
void lower_ring(Lowering& l, const ir::Operation& operation);

}  // namespace flextile::backend
