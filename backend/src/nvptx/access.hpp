// Loads and stores of `run` neighbouring elements in global memory, one instruction each.
#pragma once
#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// The elements at `address` (aligned to the access), under `predicate` (null: always); where it is false, `other`
/// (one value per element; empty: zeros).
Registers load_run(Lowering& l, llvm::Value* address, ElementType element, int run, llvm::Value* predicate, const Registers& other, std::string_view cache);
void store_run(Lowering& l, llvm::Value* address, ElementType element, const Registers& values, llvm::Value* predicate, std::string_view cache);

/// The conjunction; null stands for true.
llvm::Value* both(Lowering& l, llvm::Value* a, llvm::Value* b);

}  // namespace flextile::backend
