// The optimisation of LLVM IR: one short list per kind of target. The tile passes have already done what depends on
// tiles; these clean up what lowering writes. No pass of the GPU's list copies a block: barriers and inline assembly stay single.
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <flextile/ir/error.hpp>

#include "llvm/failure.hpp"
#include "llvm/machine.hpp"

namespace flextile::backend {
namespace {

// No loop-invariant code motion on the GPU: addresses that LLVM hoists stay in registers over the whole loop. The tile pass
// loop_invariant has moved what pays; the rest is the assembler's choice, which knows how many registers are left.
constexpr const char* nvptx_list =
    "always-inline,"
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "gvn,instcombine<no-verify-fixpoint>,adce,simplifycfg)";

// Host code is already written in vectors: nothing is left to vectorise, and its loops are unrolled as they should be.
constexpr const char* host_list =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),"
    "gvn,instcombine<no-verify-fixpoint>,dse,adce,simplifycfg)";

}  // namespace

void optimise(llvm::Module& module, const Target& target) {
  FailureScope scope(module.getContext());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&target_machine(target));
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, target.is_gpu() ? nvptx_list : host_list)) {
    throw InternalError("flextile: internal error: LLVM does not know the list of passes: " + llvm::toString(std::move(error)));
  }
  passes.run(module, modules);
  scope.check("optimise");
}

}  // namespace flextile::backend
