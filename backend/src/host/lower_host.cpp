// The host back end's entry: plans, writes the program's LLVM function, optimises it and makes an object file.
//
//   void flextile_kernel_<name>(void* const* arguments, const HostProgram* program)
#include "host/host.hpp"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

#include <flextile/ir/error.hpp>

#include "host/lowering.hpp"
#include "host/support.hpp"
#include "llvm/machine.hpp"

namespace flextile::backend {
namespace host {
namespace {

constexpr std::int64_t most_bytes_on_the_stack = 16 << 10;

Machine machine_of(const llvm::TargetMachine& target) {
  const llvm::MCSubtargetInfo& features = *target.getMCSubtargetInfo();
  const llvm::Triple& triple = target.getTargetTriple();
  if (triple.isX86()) {
    if (features.checkFeatures("+avx512f")) return {.lanes = 16, .registers = 32};
    if (features.checkFeatures("+avx2")) return {.lanes = 8, .registers = 16};
    return {.lanes = 4, .registers = 16};
  }
  return {.lanes = 4, .registers = 32};
}

/// Where each parameter's flattened arguments start.
class Parameters {
 public:
  explicit Parameters(Lowering& l) : l_(l) {}

  void unpack() {
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < l_.function.parameters.size(); ++i) {
      const ir::Parameter& parameter = l_.function.parameters[i];
      const ir::Value value = l_.function.parameter(i);
      if (!parameter.type.is_view()) {
        l_.scalars[value.index] = scalar(parameter.type, next++);
        continue;
      }
      ViewValue view;
      view.parameter = static_cast<int>(i);
      view.base = read(l_.builder.getPtrTy(), next++);
      for (int axis = 0; axis < parameter.type.rank; ++axis) {
        view.sizes.push_back(l_.builder.CreateSExt(read(l_.builder.getInt32Ty(), next++), l_.builder.getInt64Ty()));
      }
      for (int axis = 0; axis < parameter.type.rank; ++axis) {
        const bool unit = parameter.unit_stride && axis + 1 == parameter.type.rank;
        view.strides.push_back(unit ? index_constant(l_, 1) : read(l_.builder.getInt64Ty(), next));
        ++next;
      }
      l_.views[value.index] = view;
    }
  }

 private:
  llvm::Value* address(std::uint64_t position) {
    llvm::IRBuilder<>& b = l_.builder;
    return b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getPtrTy(), l_.program->getArg(0), position));
  }
  llvm::Value* read(llvm::Type* type, std::uint64_t position) { return l_.builder.CreateLoad(type, address(position)); }
  llvm::Value* scalar(const ir::Type& type, std::uint64_t position) {
    if (type.is_pointer()) return read(l_.builder.getPtrTy(), position);
    return decode(l_, type.element, read(memory_type(l_, type.element), position));
  }

  Lowering& l_;
};

class ProgramWriter {
 public:
  ProgramWriter(const ir::Function& function, const Target& target, const CompileOptions& options)
      : target_(target), module_(function.name, context_), builder_(context_), machine_(machine_of(target_machine(target))), plan_(make_plan(function, machine_)),
        debug_(module_), l_{.function = function, .plan = plan_, .machine = machine_, .options = options, .context = context_, .module = module_,
                            .builder = builder_, .scalars = std::vector<llvm::Value*>(function.value_count(), nullptr), .views = {}, .kernels = {}, .debug_files = {}} {
    prepare_module(module_, target);
  }

  HostCode write() {
    begin_function();
    if (l_.options.line_info) begin_debug_info();
    Parameters(l_).unpack();
    find_scratch();
    emit_block(l_, l_.function.body());
    builder_.CreateRetVoid();
    if (l_.debug) debug_.finalize();
    verify_module(module_);
    optimise(module_, target_);
    HostCode code;
    code.llvm_ir = print_module(module_);
    code.explanation = explain();
    if (l_.options.binary) code.object = emit_object(module_, target_);
    return code;
  }

 private:
  void begin_function() {
    llvm::Type* pointer = builder_.getPtrTy();
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, pointer}, false);
    l_.program = llvm::Function::Create(type, llvm::Function::ExternalLinkage, entry_symbol(l_.function.name), module_);
    l_.program->getArg(0)->setName("arguments");
    l_.program->getArg(1)->setName("program");
    l_.program->setUWTableKind(llvm::UWTableKind::Default);
    if (machine_.lanes == 16) {
      l_.program->addFnAttr("prefer-vector-width", "512");
      l_.program->addFnAttr("min-legal-vector-width", "512");
    }
    l_.entry = llvm::BasicBlock::Create(context_, "entry", l_.program);
    llvm::BasicBlock* start = llvm::BasicBlock::Create(context_, "start", l_.program);
    builder_.SetInsertPoint(l_.entry);
    builder_.CreateBr(start);
    builder_.SetInsertPoint(start);
  }

  void begin_debug_info() {
    module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    module_.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
    l_.debug = &debug_;
    for (const std::string& path : l_.function.files) {
      const std::size_t slash = path.rfind('/');
      const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
      const std::string name = path.empty() ? "unknown" : slash == std::string::npos ? path : path.substr(slash + 1);
      l_.debug_files.push_back(debug_.createFile(name, folder));
    }
    if (l_.debug_files.empty()) l_.debug_files.push_back(debug_.createFile("unknown", "."));
    const ir::Location first = first_location();
    llvm::DIFile* file = l_.debug_files[first.file < l_.debug_files.size() ? first.file : 0];
    debug_.createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C_plus_plus_14), file, "flextile", true, "", 0);
    llvm::DISubroutineType* type = debug_.createSubroutineType(debug_.getOrCreateTypeArray({}));
    l_.debug_function = debug_.createFunction(file, l_.function.name, l_.program->getName(), file, first.line, type, first.line, llvm::DINode::FlagZero,
                                              llvm::DISubprogram::SPFlagDefinition);
    l_.program->setSubprogram(l_.debug_function);
    builder_.SetCurrentDebugLocation(llvm::DILocation::get(context_, first.line, 0, l_.debug_function));
  }

  ir::Location first_location() const {
    for (ir::OperationId id : l_.function.block(l_.function.body()).operations) {
      if (l_.function.operation(id).location.line != 0) return l_.function.operation(id).location;
    }
    return {};
  }

  void find_scratch() {
    l_.nowhere = local(l_, llvm::ArrayType::get(builder_.getInt8Ty(), 64), "nowhere");
    llvm::cast<llvm::AllocaInst>(l_.nowhere)->setAlignment(llvm::Align(64));
    const std::int64_t bytes = std::max<std::int64_t>(plan_.scratch_bytes, 64);
    if (bytes <= most_bytes_on_the_stack) {
      llvm::AllocaInst* area = local(l_, llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<std::uint64_t>(bytes)), "scratch");
      area->setAlignment(llvm::Align(64));
      l_.scratch = area;
      return;
    }
    llvm::FunctionCallee callee = module_.getOrInsertFunction("flextile_host_scratch", llvm::FunctionType::get(builder_.getPtrTy(), {builder_.getInt64Ty()}, false));
    llvm::CallInst* call = builder_.CreateCall(callee, {index_constant(l_, bytes)});
    call->addRetAttr(llvm::Attribute::NoAlias);
    call->addRetAttr(llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    l_.scratch = call;
  }

  std::vector<std::string> explain() const {
    int sweeps = 0;
    for (const std::vector<Group>& groups : plan_.blocks) {
      for (const Group& group : groups) sweeps += group.kind == Group::Kind::sweep;
    }
    return {"host: vectors of " + std::to_string(machine_.lanes) + " f32, " + std::to_string(sweeps) + " fused sweeps, " + std::to_string(l_.kernels.size()) +
            " matmul micro-kernels, " + std::to_string(plan_.scratch_bytes) + " bytes of tiles in memory per thread"};
  }

  const Target target_;
  llvm::LLVMContext context_;
  llvm::Module module_;
  llvm::IRBuilder<> builder_;
  const Machine machine_;
  const Plan plan_;
  llvm::DIBuilder debug_;
  Lowering l_;
};

}  // namespace
}  // namespace host

HostCode lower_host(const ir::Function& function, const Target& target, const CompileOptions& options) {
  return host::ProgramWriter(function, target, options).write();
}

}  // namespace flextile::backend
