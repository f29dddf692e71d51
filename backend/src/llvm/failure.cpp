#include "llvm/failure.hpp"

#include <cstdio>

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>

#include <flextile/ir/error.hpp>

namespace flextile::backend {
namespace {

thread_local int scopes_of_this_thread = 0;

void on_fatal_error(void*, const char* reason, bool) {
  if (scopes_of_this_thread > 0) throw InternalError(std::string("flextile: internal error in LLVM: ") + reason);
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);   // not ours: LLVM goes on to end the process, as it does by default
}

void on_diagnostic(const llvm::DiagnosticInfo* info, void* errors) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream stream(*static_cast<std::string*>(errors));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
  stream << '\n';
}

}  // namespace

void install_failure_handler() { llvm::install_fatal_error_handler(on_fatal_error, nullptr); }

FailureScope::FailureScope(llvm::LLVMContext& context) : context_(context) {
  ++scopes_of_this_thread;
  context_.setDiagnosticHandlerCallBack(on_diagnostic, &errors_, true);
}

FailureScope::~FailureScope() {
  --scopes_of_this_thread;
  context_.setDiagnosticHandlerCallBack(nullptr, nullptr);
}

void FailureScope::check(const char* what) const {
  if (!errors_.empty()) throw InternalError(std::string("flextile: internal error: LLVM could not ") + what + ": " + errors_);
}

}  // namespace flextile::backend
