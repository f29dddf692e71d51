// Rings that the copy engine (TMA) fills, and their barriers in shared memory.
#pragma once
#include <cstdint>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// Bytes behind the stages of a buffer: the full barriers of its stages, then the empty ones.
std::int64_t barrier_bytes(const ir::Function& function, const ir::Operation& alloc_shared);
/// ring_start, ring_wait, ring_release, ring_refill, bulk_copy.
void lower_ring(Lowering& l, const ir::Operation& operation);

}  // namespace flextile::backend
