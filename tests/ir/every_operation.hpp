// Functions that together use every operation, for tests that go over all of them.
#pragma once
#include <flextile/ir/builder.hpp>
#include <vector>

namespace flextile::ir {

/// Element-wise operations, shapes, memory, control flow, shared memory: one function each.
std::vector<Function> functions_with_every_operation();

}  // namespace flextile::ir
