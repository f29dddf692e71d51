// 8-bit floats in LLVM IR, for targets without instructions for them. All take scalars and vectors.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <flextile/ir/element_type.hpp>

namespace flextile::backend {

/// The float of some bits (i8): exact, infinities and NaN too.
llvm::Value* float_of_float8(llvm::IRBuilder<>& b, ElementType element, llvm::Value* bits);
/// The bits of a float that the element type holds.
llvm::Value* float8_of_float(llvm::IRBuilder<>& b, ElementType element, llvm::Value* value);
/// The float that the element type holds nearest to `value`, ties to even, no larger than its largest number; NaN stays.
llvm::Value* round_to_float8(llvm::IRBuilder<>& b, ElementType element, llvm::Value* value);

}  // namespace flextile::backend
