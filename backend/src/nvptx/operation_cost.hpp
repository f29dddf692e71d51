// What an element of an element-wise operation or a reduction costs a GPU, in instructions of a thread.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Instructions per element, by the unit that runs them. Those of functions that are polynomials are estimates.
struct OperationCost {
  double special = 0;
  double fp32 = 0;
  double integer = 0;
};
OperationCost operation_cost(const ir::Function& function, const ir::Operation& operation);

}  // namespace flextile::backend
