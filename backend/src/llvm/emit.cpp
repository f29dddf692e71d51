// From an LLVM module to text and machine code.
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <flextile/ir/error.hpp>

#include "llvm/failure.hpp"
#include "llvm/machine.hpp"

namespace flextile::backend {
namespace {

std::string emit(llvm::Module& module, const Target& target, llvm::CodeGenFileType kind, const char* what) {
  FailureScope scope(module.getContext());
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (target_machine(target).addPassesToEmitFile(passes, stream, nullptr, kind, /*DisableVerify=*/true)) {
    throw InternalError("flextile: internal error: LLVM cannot emit code for " + target.name());
  }
  passes.run(module);
  scope.check(what);
  return text.str().str();
}

}  // namespace

void verify_module(const llvm::Module& module) {
  std::string sentence;
  llvm::raw_string_ostream stream(sentence);
  if (llvm::verifyModule(module, &stream)) {
    throw InternalError("flextile: internal error: the lowering made wrong LLVM IR: " + sentence + "\n" + print_module(module));
  }
}

std::string print_module(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream.SetBufferSize(1 << 16);   // else each word is a call: 6 % of a compilation
  module.print(stream, nullptr);
  stream.flush();
  return text;
}

std::string emit_ptx(llvm::Module& module, const Target& target) {
  return emit(module, target, llvm::CodeGenFileType::AssemblyFile, "emit PTX");
}

std::string emit_object(llvm::Module& module, const Target& target) {
  return emit(module, target, llvm::CodeGenFileType::ObjectFile, "emit an object file");
}

std::string emit_assembly(llvm::Module& module, const Target& target) {
  return emit(module, target, llvm::CodeGenFileType::AssemblyFile, "emit assembly");
}

}  // namespace flextile::backend
