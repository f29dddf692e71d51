// Turns of a ring and the stages they use. A turn counts up by one in each iteration of its loop; its stage (turn % stages) and
// the parity of its phase (turn / stages % 2) are kept as counters of their own, so that no iteration divides.
#pragma once
#include "nvptx/lowering.hpp"

namespace flextile::backend {

struct Slot {
  llvm::Value* stage = nullptr;
  llvm::Value* parity = nullptr;
};

/// Of a turn, which is never negative.
Slot slot_of(Lowering& l, ir::Value turn, int stages);
/// value % divisor by such a counter; null where `operation` is no such remainder.
llvm::Value* counted_remainder(Lowering& l, const ir::Operation& operation);

/// Around the lowering of a loop's body, whose block has a phi for the index and is entered from `before`.
void open_loop(Lowering& l, const ir::Operation& loop, llvm::BasicBlock* before, llvm::BasicBlock* body);
void close_loop(Lowering& l, llvm::BasicBlock* latch);

}  // namespace flextile::backend
