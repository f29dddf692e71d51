// A loop with one product that only sums up keeps it in flight from iteration to iteration: the next one is started before the
// last is waited for, and rings are released a turn late.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Changes the loop, which stands in `outer`, if it is such a one.
void keep_sums_in_flight(ir::Function& function, ir::BlockId outer, ir::OperationId loop);

}  // namespace flextile::backend
