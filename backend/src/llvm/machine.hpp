// What both back ends need of LLVM: target machines, optimisation, and the way from a module to text and code.
// A back end builds its module in a context of its own (one per compile), calls prepare_module before it adds
// functions, then optimise, then emit_ptx or emit_object. Everything here may run in many threads at once.
#pragma once
#include <string>

#include <flextile/backend/target.hpp>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace flextile::backend {

/// LLVM's names for the target: "sm_90a" and "+ptx86", or this machine's CPU and what it has.
struct MachineNames {
  std::string triple;
  std::string cpu;
  std::string features;
};
MachineNames machine_names(const Target& target);

/// This thread's machine for `target`; made once per thread. Throws ArgumentError when LLVM does not know the CPU.
llvm::TargetMachine& target_machine(const Target& target);

/// Gives the module the target's triple and data layout.
void prepare_module(llvm::Module& module, const Target& target);

/// Checks the module; throws InternalError with LLVM's sentence and the module's text.
void verify_module(const llvm::Module& module);

/// Runs the short list of passes in optimise.cpp.
void optimise(llvm::Module& module, const Target& target);

std::string print_module(const llvm::Module& module);
/// Nvptx modules. Consumes the module's contents.
std::string emit_ptx(llvm::Module& module, const Target& target);
/// Host modules: a relocatable object file. Consumes the module's contents.
std::string emit_object(llvm::Module& module, const Target& target);
/// Host modules: assembly text, for reading.
std::string emit_assembly(llvm::Module& module, const Target& target);

}  // namespace flextile::backend
