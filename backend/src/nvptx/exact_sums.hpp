// Integers that are written as something and a number: registers of a row or a column differ in the number alone. And of which of these
// sums it is known that they do not wrap, so that the number may go to the other side of a comparison.
#pragma once
#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// x = rest + number, where it is written so; of a literal the rest is null.
struct WithNumber {
  llvm::Value* rest = nullptr;
  llvm::ConstantInt* number = nullptr;
  std::int64_t value() const { return number ? number->getSExtValue() : 0; }
};
WithNumber split_number(llvm::Value* x);

/// `sum` is a place in a sequence (attribute `position`): it does not wrap, and neither it nor its rest is below 0.
void note_position(Lowering& l, llvm::Value* sum);
/// `difference` is a - b; it does not wrap where both are such places.
void note_difference(Lowering& l, llvm::Value* difference, llvm::Value* a, llvm::Value* b);

bool is_position(const Lowering& l, llvm::Value* x);
/// x is its rest and its number, as whole numbers: the sum does not wrap, or there is none.
bool is_exact(const Lowering& l, llvm::Value* x);

}  // namespace flextile::backend
