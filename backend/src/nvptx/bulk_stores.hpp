// Tiles that the copy engine (TMA) stores: from buffers whose rows the warpgroups share out.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::backend {

struct Lowering;

/// Rows of a stage that a warpgroup writes and has stored: neighbours, those of its products' sums.
int rows_of_warpgroup(const ir::Function& function, ir::Value buffer);
/// Tiles pass through the buffer on their way to memory, and nothing else uses its bytes.
bool is_store_buffer(const ir::Function& function, ir::Value buffer);

/// matrix_store, proxy_fence, warpgroup_barrier, bulk_store, bulk_wait.
void lower_bulk_store(Lowering& l, const ir::Operation& operation);

}  // namespace flextile::backend
