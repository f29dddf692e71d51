// Links a host kernel's object file into this process with ORC. One session serves the process; each kernel is a library of
// its own in it, which is taken out again when its HostModule goes.
#include <atomic>
#include <memory>
#include <mutex>

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/Debugging/DebuggerSupport.h>
#include <llvm/Support/MemoryBuffer.h>

#include <flextile/backend/host_module.hpp>
#include <flextile/ir/error.hpp>

#include "host/support.hpp"
#include "llvm/machine.hpp"

namespace flextile {
namespace {

std::string text_of(llvm::Error error) { return llvm::toString(std::move(error)); }

/// Never destroyed: kernels may be called while the program's own globals are being destroyed.
llvm::orc::LLJIT& session() {
  static llvm::orc::LLJIT* const jit = [] {
    backend::target_machine(Target::host());       // sets up LLVM's targets
    auto made = llvm::orc::LLJITBuilder().create();
    if (!made) throw InternalError("flextile: internal error: ORC does not start: " + text_of(made.takeError()));
    if (llvm::Error error = llvm::orc::enableDebuggerSupport(**made)) llvm::consumeError(std::move(error));   // debuggers then see no lines
    return made->release();
  }();
  return *jit;
}

struct Code {
  llvm::orc::JITDylib* library = nullptr;
};

void discard(void* code) {
  if (!code) return;
  const std::unique_ptr<Code> owned(static_cast<Code*>(code));
  if (llvm::Error error = session().getExecutionSession().removeJITDylib(*owned->library)) llvm::consumeError(std::move(error));
}

}  // namespace

HostModule::HostModule(const CompiledKernel& kernel) {
  namespace orc = llvm::orc;
  static std::atomic<std::uint64_t> count = 0;
  const auto failed = [&](llvm::Error error) {
    return InternalError("flextile: internal error: kernel \"" + kernel.kernel_name + "\" cannot be linked: " + text_of(std::move(error)));
  };
  if (kernel.target.is_gpu()) {
    throw InternalError("flextile: internal error: kernel \"" + kernel.kernel_name + "\" is code for " + kernel.target.name() + ", not for this machine's CPU");
  }
  if (kernel.binary.empty()) throw InternalError("flextile: internal error: kernel \"" + kernel.kernel_name + "\" was compiled without an object file");
  orc::LLJIT& jit = session();
  auto library = jit.createJITDylib(kernel.kernel_name + "." + std::to_string(count++));
  if (!library) throw failed(library.takeError());
  auto owned = std::make_unique<Code>(Code{&*library});
  code_ = owned.release();
  try {
    const auto address = [](auto* function) {
      return orc::ExecutorSymbolDef(orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable);
    };
    llvm::Error defined = library->define(orc::absoluteSymbols({
        {jit.mangleAndIntern("flextile_host_scratch"), address(&backend::host::flextile_host_scratch)},
        {jit.mangleAndIntern("flextile_host_fault"), address(&backend::host::flextile_host_fault)},
    }));
    if (defined) throw failed(std::move(defined));
    auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit.getDataLayout().getGlobalPrefix());
    if (!process) throw failed(process.takeError());
    library->addGenerator(std::move(*process));
    if (llvm::Error error = jit.addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(kernel.binary, kernel.kernel_name))) throw failed(std::move(error));
    auto entry = jit.lookup(*library, backend::host::entry_symbol(kernel.kernel_name));
    if (!entry) throw failed(entry.takeError());
    entry_ = entry->toPtr<HostEntry>();
  } catch (...) {
    discard(code_);
    code_ = nullptr;
    throw;
  }
}

HostModule::HostModule(HostModule&& other) noexcept : code_(other.code_), entry_(other.entry_) {
  other.code_ = nullptr;
  other.entry_ = nullptr;
}

HostModule& HostModule::operator=(HostModule&& other) noexcept {
  std::swap(code_, other.code_);
  std::swap(entry_, other.entry_);
  return *this;
}

HostModule::~HostModule() { discard(code_); }

}  // namespace flextile
