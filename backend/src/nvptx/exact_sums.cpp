#include "nvptx/exact_sums.hpp"

namespace flextile::backend {

WithNumber split_number(llvm::Value* x) {
  if (!x->getType()->isIntegerTy(32)) return {x};
  if (auto* literal = llvm::dyn_cast<llvm::ConstantInt>(x)) return {nullptr, literal};
  auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(x);
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return {x};
  auto* number = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1));
  return number ? WithNumber{sum->getOperand(0), number} : WithNumber{x};
}

void note_position(Lowering& l, llvm::Value* sum) {
  l.exact[sum] = Exact::position;
  if (llvm::Value* rest = split_number(sum).rest) l.exact[rest] = Exact::position;
}

void note_difference(Lowering& l, llvm::Value* difference, llvm::Value* a, llvm::Value* b) {
  if (is_position(l, a) && is_position(l, b)) l.exact[difference] = Exact::difference;
}

bool is_position(const Lowering& l, llvm::Value* x) {
  const auto found = l.exact.find(x);
  return found != l.exact.end() && found->second == Exact::position;
}

bool is_exact(const Lowering& l, llvm::Value* x) { return !split_number(x).number || llvm::isa<llvm::ConstantInt>(x) || l.exact.contains(x); }

}  // namespace flextile::backend
