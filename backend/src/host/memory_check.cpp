// The bounds-checked mode: an index outside its tensor calls flextile_host_fault, which throws an ArgumentError.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::Operation;

void emit_fault(Lowering& l, const Operation& operation, int parameter, int axis, llvm::Value* index, llvm::Value* size) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Type* pointer = b.getPtrTy();
  const ir::Location& location = operation.location;
  const std::string file = location.file < l.function.files.size() ? l.function.files[location.file] : "";
  llvm::FunctionType* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, b.getInt32Ty(), pointer, pointer, b.getInt32Ty(), b.getInt64Ty(), b.getInt64Ty()}, false);
  llvm::FunctionCallee fault = l.module.getOrInsertFunction("flextile_host_fault", type);
  const auto text = [&](std::string_view string) { return b.CreateGlobalString(llvm::StringRef(string.data(), string.size())); };
  const std::string& tensor = l.function.parameters[static_cast<std::size_t>(parameter)].name;
  llvm::CallInst* call = b.CreateCall(fault, {text(l.function.name), text(file), b.getInt32(location.line), text(ir::name(operation.opcode)), text(tensor),
                                              b.getInt32(static_cast<std::uint32_t>(axis)), index, size});
  call->setDoesNotReturn();
  b.CreateUnreachable();
}

void check_index(Lowering& l, const Operation& operation, const ViewValue& view, int axis, llvm::Value* index, llvm::Value* live) {
  if (!l.options.bounds_checked) return;
  llvm::IRBuilder<>& b = l.builder;
  llvm::Value* size = view.sizes[static_cast<std::size_t>(axis)];
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  llvm::Value* limit = vector ? b.CreateVectorSplat(vector->getNumElements(), size) : size;
  llvm::Value* outside = b.CreateICmpUGE(index, limit);
  if (live) outside = b.CreateAnd(outside, live);
  llvm::BasicBlock* fault = llvm::BasicBlock::Create(l.context, "outside", l.program);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(l.context, "checked", l.program);
  b.CreateCondBr(vector ? b.CreateOrReduce(outside) : outside, fault, after);
  b.SetInsertPoint(fault);
  llvm::Value* first = index;
  if (vector) {
    first = b.CreateExtractElement(index, std::uint64_t{vector->getNumElements() - 1});
    for (unsigned lane = vector->getNumElements() - 1; lane-- > 0;) {
      first = b.CreateSelect(b.CreateExtractElement(outside, std::uint64_t{lane}), b.CreateExtractElement(index, std::uint64_t{lane}), first);
    }
  }
  emit_fault(l, operation, view.parameter, axis, first, size);
  b.SetInsertPoint(after);
}

}  // namespace flextile::backend::host
