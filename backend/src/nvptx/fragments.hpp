// Which operands of dots are read straight from shared memory.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// A dot's operand that is read straight from shared memory: by ldmatrix, or element by element where the dot is fma.
struct FragmentSource {
  const ir::Operation* load = nullptr;   // shared_load
  bool transposed = false;               // the buffer's last axis is not K
};
/// Where a dot's operand lies in shared memory, when it is a shared_load (perhaps transposed) in the same block with nothing in
/// between that writes or waits; else none.
FragmentSource shared_source(const ir::Function& function, const ir::Operation& dot, int operand);
/// The same where the dot's instruction reads it there: ldmatrix moves 16-bit elements, wgmma and fma take any.
FragmentSource fragment_source(const ir::Function& function, const ir::Operation& dot, int operand);
/// True for operations whose result only fragment reads of dots use: they need no code of their own.
bool is_read_by_fragments(const ir::Function& function, const ir::Operation& operation);

}  // namespace flextile::backend
