// Which operands of dots are read straight from shared memory.
#pragma once
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// A dot's operand that is read straight from shared memory: by ldmatrix, or element by element where the dot is fma.
struct FragmentSource {
  const ir::Operation* load = nullptr;   // shared_load
  bool transposed = false;               // the buffer's last axis is not K
};
/// The source of a dot's operand when it is a shared_load (perhaps transposed) in the same block
/// with nothing in between that writes or waits; else none.
FragmentSource fragment_source(const ir::Function& function, const ir::Operation& dot, int operand);
/// True for operations whose result only fragment reads of dots use: they need no code of their own.
bool is_read_by_fragments(const ir::Function& function, const ir::Operation& operation);

}  // namespace flextile::backend
