// for, while and if as LLVM blocks; carried values become phis, one per register.
#include "nvptx/lowering.hpp"
#include "nvptx/turns.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

/// Of a value: a phi per register. Neighbouring 16-bit floats go in one, as matrix instructions take them: apart, each would need a
/// register of its own and be packed again on the other side.
struct Carried {
  std::vector<llvm::PHINode*> phis;
  bool in_pairs = false;
};
using Phis = std::vector<Carried>;

int registers_of(Lowering& l, ir::Value value) { return l.type(value).has_shape() ? register_count(layout_of(l, value)) : 0; }

llvm::BasicBlock* new_block(Lowering& l, const char* name) { return llvm::BasicBlock::Create(l.b.getContext(), name, l.kernel); }

/// Phis for `values` at the start of the current block; they, or what they hold, become the values' registers.
Phis make_phis(Lowering& l, const std::vector<ir::Value>& values, std::size_t first = 0) {
  Phis result;
  for (std::size_t i = first; i < values.size(); ++i) {
    const int count = registers_of(l, values[i]);
    const ElementType element = l.type(values[i]).element;
    Carried& carried = result.emplace_back();
    carried.in_pairs = count % 2 == 0 && (element == ElementType::bf16 || element == ElementType::f16);
    l.of(values[i]).clear();
    for (int r = 0; r < count; r += carried.in_pairs ? 2 : 1) {
      carried.phis.push_back(l.b.CreatePHI(carried.in_pairs ? l.b.getInt32Ty() : register_type(l, l.type(values[i])), 2));
      if (!carried.in_pairs) l.of(values[i]).push_back(carried.phis.back());
    }
  }
  for (std::size_t i = first; i < values.size(); ++i) {   // behind all phis
    const Carried& carried = result[i - first];
    if (!carried.in_pairs) continue;
    auto* pair_type = llvm::FixedVectorType::get(register_type(l, l.type(values[i])), 2);
    for (llvm::PHINode* phi : carried.phis) {
      llvm::Value* pair = l.b.CreateBitCast(phi, pair_type);
      for (std::uint64_t k : {0, 1}) l.of(values[i]).push_back(l.b.CreateExtractElement(pair, k));
    }
  }
  return result;
}

void feed(Lowering& l, Phis& phis, const std::vector<ir::Value>& values, std::size_t first, llvm::BasicBlock* from) {
  llvm::IRBuilder<>::InsertPointGuard guard(l.b);
  if (llvm::Instruction* end = from->getTerminator()) l.b.SetInsertPoint(end);
  else l.b.SetInsertPoint(from);
  for (std::size_t i = 0; i < phis.size(); ++i) {
    const Registers& registers = l.of(values[first + i]);
    for (std::size_t r = 0; r < phis[i].phis.size(); ++r) {
      llvm::Value* incoming = phis[i].in_pairs ? nullptr : registers[r];
      if (phis[i].in_pairs) {
        llvm::Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(registers[2 * r]->getType(), 2));
        for (std::uint64_t k : {0, 1}) pair = l.b.CreateInsertElement(pair, registers[2 * r + k], k);
        incoming = l.b.CreateBitCast(pair, l.b.getInt32Ty());
      }
      phis[i].phis[r]->addIncoming(incoming, from);
    }
  }
}

/// A scheduled loop is neither unrolled nor peeled: its barriers and copies stay as they are.
void keep_rolled(Lowering& l, llvm::BranchInst* branch) {
  llvm::LLVMContext& context = l.b.getContext();
  auto text = [&](const char* name) { return llvm::MDNode::get(context, llvm::MDString::get(context, name)); };
  auto* peel = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.peeled.count"), llvm::ConstantAsMetadata::get(l.b.getInt32(0))});
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, text("llvm.loop.unroll.disable"), peel});
  loop->replaceOperandWith(0, loop);
  branch->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

/// Bottom-tested: the body is entered only when it runs at least once.
void lower_for(Lowering& l, const ir::Operation& operation) {
  const ir::BlockId body_id = operation.blocks[0];
  const auto& arguments = l.f.block(body_id).arguments;
  llvm::Value* lower = l.scalar(operation.operands[0]);
  llvm::Value* upper = l.scalar(operation.operands[1]);
  llvm::Value* step = l.scalar(operation.operands[2]);
  const bool is_signed = !is_unsigned(l.type(operation.operands[0]).element);
  llvm::Value* zero = llvm::ConstantInt::get(step->getType(), 0);
  auto in_range = [&](llvm::Value* index) {   // a negative step counts down
    llvm::Value* up = is_signed ? l.b.CreateICmpSLT(index, upper) : l.b.CreateICmpULT(index, upper);
    if (!is_signed) return up;
    if (auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(step); fixed && fixed->getSExtValue() > 0) return up;
    return l.b.CreateSelect(l.b.CreateICmpSGT(step, zero), up, l.b.CreateICmpSGT(index, upper));
  };
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  llvm::BasicBlock* body = new_block(l, "loop");
  llvm::BasicBlock* after = new_block(l, "loop.end");
  l.b.CreateCondBr(in_range(lower), body, after);
  before = l.b.GetInsertBlock();

  l.b.SetInsertPoint(body);
  llvm::PHINode* index = l.b.CreatePHI(lower->getType(), 2);
  l.of(arguments[0]) = {index};
  Phis carried = make_phis(l, arguments, 1);
  known_here(l, arguments);
  index->addIncoming(lower, before);
  feed(l, carried, operation.operands, 3, before);
  open_loop(l, operation, before, body);
  lower_block(l, body_id);
  const std::vector<ir::Value> yielded = l.block_results;
  llvm::Value* next = l.b.CreateAdd(index, step, "", false, is_signed);
  llvm::BasicBlock* latch = l.b.GetInsertBlock();
  keep_rolled(l, l.b.CreateCondBr(in_range(next), body, after));
  close_loop(l, latch);
  index->addIncoming(next, latch);
  feed(l, carried, yielded, 0, latch);

  l.b.SetInsertPoint(after);
  Phis results = make_phis(l, operation.results);
  feed(l, results, operation.operands, 3, before);
  feed(l, results, yielded, 0, latch);
}

void lower_while(Lowering& l, const ir::Operation& operation) {
  const auto& tested = l.f.block(operation.blocks[0]).arguments;
  const auto& inside = l.f.block(operation.blocks[1]).arguments;
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  llvm::BasicBlock* header = new_block(l, "while");
  llvm::BasicBlock* body = new_block(l, "while.body");
  llvm::BasicBlock* after = new_block(l, "while.end");
  l.b.CreateBr(header);

  l.b.SetInsertPoint(header);
  Phis carried = make_phis(l, tested);
  known_here(l, tested);
  feed(l, carried, operation.operands, 0, before);
  lower_block(l, operation.blocks[0]);
  const std::vector<ir::Value> handed = l.block_results;   // the condition, then the carried values
  l.b.CreateCondBr(l.scalar(handed[0]), body, after);
  for (std::size_t i = 0; i < inside.size(); ++i) l.of(inside[i]) = l.of(handed[1 + i]);
  for (std::size_t i = 0; i < operation.results.size(); ++i) l.of(operation.results[i]) = l.of(handed[1 + i]);

  l.b.SetInsertPoint(body);
  known_here(l, inside);
  lower_block(l, operation.blocks[1]);
  const std::vector<ir::Value> yielded = l.block_results;
  feed(l, carried, yielded, 0, l.b.GetInsertBlock());
  keep_rolled(l, l.b.CreateBr(header));
  l.b.SetInsertPoint(after);
}

void lower_if(Lowering& l, const ir::Operation& operation) {
  llvm::BasicBlock* blocks[] = {new_block(l, "then"), new_block(l, "else")};
  llvm::BasicBlock* after = new_block(l, "if.end");
  l.b.CreateCondBr(l.scalar(operation.operands[0]), blocks[0], blocks[1]);
  std::vector<ir::Value> yielded[2];
  llvm::BasicBlock* ends[2];
  for (int i : {0, 1}) {
    l.b.SetInsertPoint(blocks[i]);
    if (i < static_cast<int>(operation.blocks.size())) {
      lower_block(l, operation.blocks[i]);
      yielded[i] = l.block_results;
    }
    ends[i] = l.b.GetInsertBlock();
    l.b.CreateBr(after);
  }
  l.b.SetInsertPoint(after);
  Phis results = make_phis(l, operation.results);
  for (int i : {0, 1}) feed(l, results, yielded[i], 0, ends[i]);
}

}  // namespace

void lower_control_flow(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case ir::Opcode::for_: return lower_for(l, operation);
    case ir::Opcode::while_: return lower_while(l, operation);
    case ir::Opcode::if_: return lower_if(l, operation);
    default: l.block_results = operation.operands; return;   // a terminator
  }
}

}  // namespace flextile::backend
