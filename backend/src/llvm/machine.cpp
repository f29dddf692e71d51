#include "llvm/machine.hpp"

#include <map>
#include <memory>
#include <mutex>

#include <llvm/IR/Module.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <flextile/ir/error.hpp>

#include "llvm/failure.hpp"

namespace flextile::backend {
namespace {

void initialise_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    install_failure_handler();
  });
}

/// The features of the CPU that this process runs on, as LLVM spells them.
const std::string& host_features() {
  static const std::string features = [] {
    llvm::SubtargetFeatures list;
    for (const auto& [feature, enabled] : llvm::sys::getHostCPUFeatures()) list.AddFeature(feature, enabled);
    return list.getString();
  }();
  return features;
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  initialise_once();
  const MachineNames names = machine_names(target);
  const llvm::Triple triple(names.triple);
  std::string error;
  const llvm::Target* known = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!known) throw InternalError("flextile: internal error: LLVM has no target for " + names.triple + ": " + error);
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(known->createMCSubtargetInfo(triple, "", ""));
  if (subtarget && !subtarget->isCPUStringValid(names.cpu)) {
    throw ArgumentError("flextile: [target] \"" + target.name() + "\": LLVM knows no CPU \"" + names.cpu + "\" for " + names.triple +
                        "; \"host\" means this machine's own");
  }
  std::unique_ptr<llvm::TargetMachine> machine(known->createTargetMachine(
      triple, names.cpu, names.features, llvm::TargetOptions{}, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (!machine) throw InternalError("flextile: internal error: LLVM makes no machine for " + target.name());
  return machine;
}

}  // namespace

MachineNames machine_names(const Target& target) {
  if (target.is_gpu()) return {"nvptx64-nvidia-cuda", target.name(), target.sm >= 120 ? "+ptx87" : "+ptx86"};
  if (!target.cpu.empty()) return {llvm::sys::getDefaultTargetTriple(), target.cpu, ""};
  return {llvm::sys::getDefaultTargetTriple(), llvm::sys::getHostCPUName().str(), host_features()};
}

llvm::TargetMachine& target_machine(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[target.name()];
  if (!machine) machine = make_machine(target);
  return *machine;
}

void prepare_module(llvm::Module& module, const Target& target) {
  const llvm::TargetMachine& machine = target_machine(target);
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

}  // namespace flextile::backend
