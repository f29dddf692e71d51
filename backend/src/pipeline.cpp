// The compiler on one screen: the list of passes of each kind of target, and what happens before and after them.
#include <span>

#include <flextile/backend/assemble.hpp>
#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>

#include "host/host.hpp"
#include "nvptx/check_synchronisation.hpp"
#include "nvptx/nvptx.hpp"
#include "passes/canonicalise.hpp"
#include "passes/common_subexpressions.hpp"
#include "passes/contract.hpp"
#include "passes/dead_code.hpp"
#include "passes/limit_tiles.hpp"
#include "passes/loop_invariant.hpp"
#include "passes/simplify_control.hpp"
#include "passes/sink.hpp"
#include "stages.hpp"

namespace flextile {
namespace backend {
namespace {

struct Pass {
  std::string_view name;
  ir::Function (*run)(const ir::Function& function, const Target& target);
  bool may_refuse = false;     // a kernel can be right and yet not fit the target: its CompileError is the user's, not ours
};

constexpr Pass host_passes[] = {
    {"canonicalise", canonicalise},
    {"simplify_control", simplify_control},
    {"common_subexpressions", common_subexpressions},
    {"loop_invariant", loop_invariant},
    {"contract", contract},
    {"sink", sink},
    {"dead_code", dead_code},
};

constexpr Pass nvptx_passes[] = {
    {"canonicalise", canonicalise},
    {"simplify_control", simplify_control},
    {"common_subexpressions", common_subexpressions},
    {"loop_invariant", loop_invariant},
    {"contract", contract},
    {"sink", sink},
    {"tile_gathers", tile_gathers},
    {"dead_code", dead_code},
    {"limit_tiles", limit_tiles, true},
    {"select_matmul", select_matmul, true},
    {"bulk_loads", bulk_loads},
    {"pipeline_loads", pipeline_loads, true},
    {"select_wgmma", select_wgmma},
    {"choose_layouts", choose_layouts, true},
    {"overlap_products", overlap_products},
    {"bulk_stores", bulk_stores, true},
    {"allocate_shared", allocate_shared, true},
    {"insert_barriers", insert_barriers},
    {"check_synchronisation", check_synchronisation},
};

std::span<const Pass> passes_for(const Target& target) {
  if (target.is_gpu()) return nvptx_passes;
  return host_passes;
}

/// Runs `step`; what it throws that is no sentence for the user becomes an InternalError with the step's name.
template <class Step> auto guarded(std::string_view name, bool may_refuse, const ir::Function& before, const Stages& stages, Step&& step) {
  try {
    return step();
  } catch (const InternalError& error) {
    stages.fail(name, before, error.what());
  } catch (const Error& error) {
    if (may_refuse) throw;
    stages.fail(name, before, error.what());
  } catch (const std::exception& error) {
    stages.fail(name, before, error.what());
  }
}

/// Less shared memory for the loop that wants most stages: first without early tiles, then a stage less. False where none has any to spare.
bool take_a_stage(ir::Function& function) {
  ir::Operation* most = nullptr;
  std::int64_t stages = 1;
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    ir::Operation& operation = function.operation({i});
    const std::int64_t wanted = operation.opcode == ir::Opcode::for_ ? operation.attributes.integer(ir::AttributeName::stages, 1) : 1;
    if (wanted > stages) most = &operation, stages = wanted;
  }
  if (!most) return false;
  if (most->attributes.integer(ir::AttributeName::early_tiles, 1) != 0) most->attributes.set(ir::AttributeName::early_tiles, std::int64_t{0});
  else most->attributes.set(ir::AttributeName::stages, stages - 1);
  return true;
}

ir::Function run_passes(const ir::Function& traced, const Target& target, Stages& stages) {
  stages.restart();
  ir::Function function = stages.after("traced", traced);
  for (const Pass& pass : passes_for(target)) {
    function = stages.after(pass.name, guarded(pass.name, pass.may_refuse, function, stages, [&] { return pass.run(function, target); }));
  }
  return function;
}

/// The passes, again with fewer stages where those that were asked for leave too little shared memory for the rest.
ir::Function schedule(ir::Function traced, const Target& target, Stages& stages) {
  for (;;) {
    try {
      return run_passes(traced, target, stages);
    } catch (const OutOfSharedMemory&) {
      if (!take_a_stage(traced)) throw;
    }
  }
}

void lower(const ir::Function& scheduled, const CompileOptions& options, const Stages& stages, CompiledKernel& kernel) {
  if (kernel.target.is_gpu()) {
    NvptxCode code = guarded("lower_nvptx", true, scheduled, stages, [&] { return lower_nvptx(scheduled, kernel.target, options); });
    kernel.llvm_ir_text = std::move(code.llvm_ir);
    kernel.ptx_text = std::move(code.ptx);
    kernel.resource_usage.shared_memory = code.shared_memory;
    kernel.resource_usage.threads = code.threads;
    kernel.tensor_maps = std::move(code.tensor_maps);
    kernel.resident = code.resident;
    kernel.overlaps = code.overlaps;
    kernel.explanation = std::move(code.explanation);
  } else {
    HostCode code = guarded("lower_host", true, scheduled, stages, [&] { return lower_host(scheduled, kernel.target, options); });
    kernel.llvm_ir_text = std::move(code.llvm_ir);
    kernel.binary = std::move(code.object);
    kernel.explanation = std::move(code.explanation);
  }
}

/// Not for kernels with roles: nvJitLink assembles as one of several compilation units and ignores what each role does with its
/// registers (setmaxnreg). The driver, which assembles what has no machine code yet when it is loaded, does not.
void assemble_ptx(const CompileOptions& options, CompiledKernel& kernel) {
  AssembledKernel assembled = assemble(kernel.kernel_name, kernel.ptx_text, kernel.target, options.line_info);
  kernel.binary = std::move(assembled.cubin);
  read_assembler_log(assembled.log, kernel.kernel_name, kernel.resource_usage);
  for (std::string& sentence : assembler_complaints(kernel.resource_usage)) kernel.explanation.push_back(std::move(sentence));
}

/// Names go into PTX, object files and the names of dumps: C++'s identifiers suit all of them.
bool is_identifier(std::string_view name) {
  for (const char c : name) {
    if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) return false;
  }
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9');
}

/// The IR of a kernel that reaches us without the front end may break any rule; here that is the caller's error.
void check_input(const ir::Function& function) {
  const std::string opening = "flextile: compile error in kernel \"" + function.name + "\"\n  ";
  if (function.name.empty()) throw CompileError("flextile: compile error: the kernel has no name");
  if (!is_identifier(function.name)) {
    throw CompileError(opening + "\"" + function.name + "\" is no name for a kernel: take letters, digits and _, and no digit first");
  }
  if (function.block_count() == 0) throw CompileError(opening + "the kernel has no body: make it with ir::Function(name, parameters)");
  try {
    ir::verify(function, "while tracing");
  } catch (const InternalError& error) {
    const std::string_view message = error.what();                       // "...: kernel "name", file:line\n  operation\n  sentence"
    throw CompileError("flextile: compile error in " + std::string(message.substr(message.find(": kernel ") + 2)));
  }
  const ir::Operation& last = function.operation(function.block(function.body()).operations.back());
  if (!last.operands.empty()) {
    throw CompileError(opening + "[return] a kernel returns nothing, this one returns " + std::to_string(last.operands.size()) +
                       " values: store them through a pointer or a view");
  }
}

/// What passes put into a GPU's schedule (the last section of the operations' table) means nothing on a CPU.
void check_operations(const ir::Function& function, const Target& target) {
  if (target.is_gpu()) return;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (ir::OperationId id : function.block({block}).operations) {
      const ir::Opcode opcode = function.operation(id).opcode;
      if (opcode < ir::Opcode::convert_layout) continue;
      throw CompileError("flextile: compile error in kernel \"" + function.name + "\"\n  [" + std::string(ir::name(opcode)) + "] has no meaning on a CPU: it belongs to a GPU's schedule");
    }
  }
}

}  // namespace
}  // namespace backend

CompiledKernel compile(const ir::Function& function, const Target& target, const CompileOptions& options) {
  backend::check_input(function);
  backend::check_operations(function, target);
  backend::Stages stages(function, target, options);
  const ir::Function scheduled = backend::schedule(function, target, stages);

  CompiledKernel kernel;
  kernel.kernel_name = function.name;
  kernel.target = target;
  kernel.parameters = function.parameters;
  kernel.tile_ir_text = ir::print(function);
  backend::lower(scheduled, options, stages, kernel);
  if (!options.note.empty()) kernel.explanation.insert(kernel.explanation.begin(), options.note);
  stages.write("kernel.ll", kernel.llvm_ir_text);
  if (target.is_gpu()) {
    stages.write("kernel.ptx", kernel.ptx_text);
    if (options.binary && !kernel.resident) backend::assemble_ptx(options, kernel);
    stages.write("resources.txt", kernel.resources() + kernel.explain());
  }
  kernel.stages = stages.take();
  return kernel;
}

}  // namespace flextile
