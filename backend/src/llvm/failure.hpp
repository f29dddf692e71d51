// LLVM reports what it cannot do by ending the process. Inside a compile of ours it throws InternalError instead.
#pragma once
#include <string>

namespace llvm {
class LLVMContext;
}

namespace flextile::backend {

/// Called once, when LLVM's targets are set up. Other users of LLVM in this process keep LLVM's own behaviour.
void install_failure_handler();

/// While it lives, LLVM's fatal errors in this thread throw InternalError, and errors that the context reports are kept.
class FailureScope {
 public:
  explicit FailureScope(llvm::LLVMContext& context);
  FailureScope(const FailureScope&) = delete;
  FailureScope& operator=(const FailureScope&) = delete;
  ~FailureScope();

  /// Throws InternalError when the context reported an error since the scope began.
  void check(const char* what) const;

 private:
  llvm::LLVMContext& context_;
  std::string errors_;
};

}  // namespace flextile::backend
