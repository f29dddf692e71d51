// Tile IR → LLVM IR → PTX. One program is one block of 32 * num_warps threads.
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <optional>

#include <flextile/ir/error.hpp>

#include "llvm/machine.hpp"
#include "nvptx/bound.hpp"
#include "nvptx/bulk_stores.hpp"
#include "nvptx/launch_overlap.hpp"
#include "nvptx/lowering.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/rings.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/tensor_maps.hpp"
#include "nvptx/wgmma.hpp"

namespace flextile::backend {

using ir::Opcode;

/// The user's source lines, for .loc.
class SourceLines {
 public:
  SourceLines(llvm::Module& module, const ir::Function& function, llvm::Function& kernel) : builder_(module) {
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    for (const std::string& path : function.files) files_.push_back(builder_.createFile(path.empty() ? "unknown" : path, ""));
    if (files_.empty()) files_.push_back(builder_.createFile("unknown", ""));
    llvm::DIFile* first = files_[files_.size() > 1 ? 1 : 0];
    builder_.createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C_plus_plus_14), first, "flextile", true, "", 0, "",
                               llvm::DICompileUnit::DebugDirectivesOnly);
    auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
    scope_ = builder_.createFunction(first, function.name, function.name, first, 1, type, 1, llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
    kernel.setSubprogram(scope_);
  }
  void at(llvm::IRBuilder<>& b, ir::Location location) {
    if (location.line == 0 || location.file >= files_.size()) return;
    llvm::DIScope* scope = scope_;
    if (files_[location.file] != scope_->getFile()) {
      auto& block = blocks_[location.file];
      if (!block) block = builder_.createLexicalBlockFile(scope_, files_[location.file]);
      scope = block;
    }
    b.SetCurrentDebugLocation(llvm::DILocation::get(b.getContext(), location.line, 0, scope));
  }
  void finish() { builder_.finalize(); }

 private:
  llvm::DIBuilder builder_;
  std::vector<llvm::DIFile*> files_;
  std::map<std::uint32_t, llvm::DIScope*> blocks_;
  llvm::DISubprogram* scope_ = nullptr;
};

namespace {

std::vector<llvm::Type*> parameter_types(Lowering& l) {
  std::vector<llvm::Type*> types;
  llvm::Type* pointer = llvm::PointerType::get(l.b.getContext(), 1);
  for (const ir::Parameter& parameter : l.f.parameters) {
    if (parameter.type.is_view()) {
      types.push_back(pointer);
      types.insert(types.end(), parameter.type.rank, l.b.getInt32Ty());
      types.insert(types.end(), parameter.type.rank, l.b.getInt64Ty());
    } else if (parameter.type.is_pointer()) {
      types.push_back(pointer);
    } else {
      types.push_back(parameter.type.element == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, parameter.type.element));
    }
  }
  if (is_resident(l.f)) {
    types.insert(types.end(), 3, l.b.getInt32Ty());
    types.push_back(pointer);
  }
  types.insert(types.end(), tensor_maps(l.f).size(), llvm::PointerType::get(l.b.getContext(), 0));
  return types;
}

/// Tensor maps come by value behind the other parameters and stay where the launch put them.
void mark_tensor_maps(Lowering& l) {
  llvm::LLVMContext& context = l.b.getContext();
  const auto count = static_cast<unsigned>(tensor_maps(l.f).size());
  llvm::AttrBuilder attributes(context);
  attributes.addByValAttr(llvm::ArrayType::get(l.b.getInt8Ty(), 128));
  attributes.addAlignmentAttr(64);
  attributes.addAttribute("nvvm.grid_constant");
  for (unsigned i = 0; i < count; ++i) l.kernel->addParamAttrs(static_cast<unsigned>(l.kernel->arg_size()) - count + i, attributes);
}

void bind_parameters(Lowering& l) {
  unsigned next = 0;
  for (std::size_t i = 0; i < l.f.parameters.size(); ++i) {
    const ir::Parameter& parameter = l.f.parameters[i];
    const ir::Value value = l.f.parameter(i);
    llvm::Argument* first = l.kernel->getArg(next++);
    first->setName(parameter.name);
    if (!parameter.type.is_view()) {
      l.of(value) = {parameter.type.is_pointer() ? first : from_memory(l, first, parameter.type.element)};
      continue;
    }
    ViewParts& view = l.views[value.index];
    view.base = first;
    view.unit_stride = parameter.unit_stride;
    view.aligned = parameter.aligned;
    for (int axis = 0; axis < parameter.type.rank; ++axis) view.sizes.push_back(l.kernel->getArg(next++));
    for (int axis = 0; axis < parameter.type.rank; ++axis) view.strides.push_back(l.kernel->getArg(next++));
    if (view.unit_stride && !view.strides.empty()) view.strides.back() = l.b.getInt64(1);
  }
  if (!is_resident(l.f)) return;
  for (llvm::Value*& programs : l.programs) programs = l.kernel->getArg(next++);
  l.counter = l.kernel->getArg(next++);
}

void build(Lowering& l, const CompileOptions& options) {
  llvm::LLVMContext& context = l.b.getContext();
  auto* type = llvm::FunctionType::get(l.b.getVoidTy(), parameter_types(l), false);
  l.kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, l.f.name, l.module);
  l.kernel->setCallingConv(llvm::CallingConv::PTX_Kernel);
  l.kernel->addFnAttr(llvm::Attribute::NoUnwind);
  l.kernel->addFnAttr("nvvm.reqntid", std::to_string(lanes_per_warp * l.launched_warps));
  if (is_resident(l.f) || l.f.occupancy > 1) l.kernel->addFnAttr("nvvm.minctasm", std::to_string(l.f.occupancy));
  mark_tensor_maps(l);
  l.shared = new llvm::GlobalVariable(l.module, llvm::ArrayType::get(l.b.getInt8Ty(), 0), false, llvm::GlobalValue::ExternalLinkage, nullptr, "shared_memory",
                                      nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  l.shared->setAlignment(llvm::Align(1024));

  std::optional<SourceLines> lines;
  if (options.line_info) lines.emplace(l.module, l.f, *l.kernel);
  l.lines = lines ? &*lines : nullptr;
  l.prologue = llvm::BasicBlock::Create(context, "entry", l.kernel);
  auto* body = llvm::BasicBlock::Create(context, "program", l.kernel);
  l.b.SetInsertPoint(l.prologue);
  bind_parameters(l);
  l.thread = call(l, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  l.lane = l.b.CreateAnd(l.thread, l.b.getInt32(lanes_per_warp - 1));
  // The warp's number through a shuffle: the assembler then knows that a warp agrees on what is computed from it.
  llvm::Value* warp = l.b.CreateLShr(l.thread, l.b.getInt32(5));
  l.warp = l.launched_warps == 1 ? l.b.getInt32(0)
                              : call(l, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, {l.b.getInt32(-1), warp, l.b.getInt32(0), l.b.getInt32(31)});
  l.b.SetInsertPoint(body);
  prefetch_tensor_maps(l);
  lower_block(l, l.f.body());
  l.b.CreateRetVoid();
  llvm::IRBuilder<>(l.prologue).CreateBr(body);
  if (lines) lines->finish();
  l.lines = nullptr;
}

/// Whether threads put tiles into shared buffers themselves.
bool writes_shared_tiles(const ir::Function& function) {
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    const Opcode opcode = function.operation({i}).opcode;
    if (opcode == Opcode::async_copy || opcode == Opcode::shared_store) return true;
  }
  return false;
}

/// What the loop's body reads, or a producer's refills, is fetched ahead; also where an iteration is there twice, in a branch.
bool is_pipelined(const ir::Function& function, ir::BlockId body) {
  const auto& operations = function.block(body).operations;
  return std::any_of(operations.begin(), operations.end(), [&](ir::OperationId id) {
    const ir::Operation& operation = function.operation(id);
    if (operation.opcode == Opcode::async_copy || operation.opcode == Opcode::ring_wait || operation.opcode == Opcode::ring_refill) return true;
    return operation.opcode == Opcode::if_ && std::any_of(operation.blocks.begin(), operation.blocks.end(), [&](ir::BlockId inner) { return is_pipelined(function, inner); });
  });
}

/// What was chosen, for CompiledKernel::explain().
std::vector<std::string> explain(const ir::Function& function) {
  std::vector<std::string> sentences;
  auto say = [&](ir::Location location, const std::string& sentence) {
    std::string place;
    if (location.line > 0 && location.file < function.files.size()) place = function.files[location.file] + ":" + std::to_string(location.line) + ": ";
    if (std::find(sentences.begin(), sentences.end(), place + sentence) == sentences.end()) sentences.push_back(place + sentence);
  };
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (ir::OperationId id : function.block({block}).operations) {
      const ir::Operation& operation = function.operation(id);
      if (operation.opcode == Opcode::dot) {
        const std::string instruction(operation.attributes.string(ir::AttributeName::instruction));
        const std::string why(operation.attributes.string(ir::AttributeName::schedule));
        say(operation.location, instruction == "fma" ? "[dot] scalar multiply-adds: no matrix instruction has these types, this precision and this shape (M a multiple of 16, N of 8)"
                                                     : "[dot] " + instruction + (operation.attributes.integer(ir::AttributeName::async) ? ", while other work of the loop goes on" : "") + (why.empty() ? "" : "; " + why));
      } else if (operation.opcode == Opcode::alloc_shared) {
        const ir::Type& type = function.type(operation.results[0]);
        if (operation.attributes.integer(ir::AttributeName::readers) != 0) continue;   // of scalars, for roles
        if (is_store_buffer(function, operation.results[0])) continue;
        say(operation.location, "[load] " + to_string(ir::Type::tile(type.element, type.shape())) +
                                    (operation.attributes.integer(ir::AttributeName::barriers) ? " by the copy engine, " : " by asynchronous copies, ") + std::to_string(type.stages) +
                                    (type.stages == 1 ? " stage" : " stages"));
      } else if (operation.opcode == Opcode::for_ && !operation.attributes.string(ir::AttributeName::schedule).empty()) {
        say(operation.location, "[for] " + std::string(operation.attributes.string(ir::AttributeName::schedule)));
      }
      if (operation.opcode == Opcode::gather && !operation.attributes.string(ir::AttributeName::schedule).empty()) {
        const ir::Definition& table = function.definition(operation.operands[0]);
        const std::string name = table.operation || table.block != function.body() ? "" : " \"" + function.parameters[table.position].name + "\"";
        say(operation.location, "[gather]" + name + " " + std::string(operation.attributes.string(ir::AttributeName::schedule)));
      }
      if ((operation.opcode == Opcode::view_store || operation.opcode == Opcode::bulk_store) && !operation.attributes.string(ir::AttributeName::schedule).empty()) {
        say(operation.location, "[store] " + std::string(operation.attributes.string(ir::AttributeName::schedule)));
      }
      if (operation.opcode == Opcode::roles) {
        const auto& registers = operation.attributes.list(ir::AttributeName::registers);
        std::string sentence = "[program] stays on the device and takes one of the grid after the other; " + std::to_string(producer_warps) + " more warps fetch";
        if (registers[0] > 0) sentence += " and keep " + std::to_string(registers[0]) + " registers a thread, the " + std::to_string(function.num_warps) + " that multiply " + std::to_string(registers[1]);
        say(operation.location, sentence + "; the driver assembles it when it is loaded");
      }
      if (operation.opcode == Opcode::for_ && operation.attributes.integer(ir::AttributeName::stages, 1) > 1) {
        if (is_pipelined(function, operation.blocks[0])) continue;
        say(operation.location, "[for] not pipelined: no load in it feeds a dot alone from a view that is 16-byte aligned with unit stride, at offsets known ahead, or shared memory has no room for two stages of what does");
      }
    }
  }
  return sentences;
}

}  // namespace

void lower_operation(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case Opcode::constant:
    case Opcode::arange:
    case Opcode::program_id:
    case Opcode::num_programs:
    case Opcode::worker_id:
    case Opcode::num_workers:
    case Opcode::broadcast:
    case Opcode::expand_dims: return lower_shape(l, operation);
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::convert_layout: return lower_move(l, operation);
    case Opcode::neg:
    case Opcode::bit_not:
    case Opcode::unlikely:
    case Opcode::abs:
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round:
    case Opcode::trunc:
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::exp:
    case Opcode::exp2:
    case Opcode::log:
    case Opcode::log2:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::erf:
    case Opcode::cast:
    case Opcode::bitcast:
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::div:
    case Opcode::rem:
    case Opcode::min:
    case Opcode::max:
    case Opcode::pow:
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::eq:
    case Opcode::ne:
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge:
    case Opcode::fma:
    case Opcode::select:
    case Opcode::offset: return lower_elementwise(l, operation);
    case Opcode::load:
    case Opcode::store:
    case Opcode::view_load:
    case Opcode::view_store:
    case Opcode::gather:
    case Opcode::view_size:
    case Opcode::view_stride:
    case Opcode::view_base: return lower_memory(l, operation);
    case Opcode::atomic:
    case Opcode::atomic_cas: return lower_atomic(l, operation);
    case Opcode::dot: return lower_dot(l, operation);
    case Opcode::product_wait: return lower_product_wait(l, operation);
    case Opcode::turn: return lower_turn(l, operation);
    case Opcode::reduce: return lower_reduce(l, operation);
    case Opcode::for_:
    case Opcode::while_:
    case Opcode::if_:
    case Opcode::yield:
    case Opcode::condition:
    case Opcode::return_: return lower_control_flow(l, operation);
    case Opcode::alloc_shared:
    case Opcode::shared_load:
    case Opcode::shared_store:
    case Opcode::async_copy:
    case Opcode::async_wait:
    case Opcode::barrier:
    case Opcode::bulk_copy:
    case Opcode::matrix_store:
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
    case Opcode::bulk_store:
    case Opcode::bulk_wait:
    case Opcode::ring_start:
    case Opcode::ring_wait:
    case Opcode::ring_release:
    case Opcode::ring_refill:
    case Opcode::take_program:
    case Opcode::ring_put:
    case Opcode::ring_get:
    case Opcode::roles: return lower_shared(l, operation);
  }
}

void lower_block(Lowering& l, ir::BlockId block) {
  const ir::OperationId touch = block == l.f.body() && may_overlap_launches(l.target) ? first_touch(l.f) : ir::OperationId{};
  for (ir::OperationId id : l.f.block(block).operations) {
    const ir::Operation& operation = l.f.operation(id);
    if (touch && id == touch) wait_for_launch_before(l);
    if (l.lines) l.lines->at(l.b, operation.location);
    if (operation.attributes.integer(ir::AttributeName::barrier_before) != 0) barrier(l);
    lower_operation(l, operation);
    known_here(l, operation.results);
  }
}

NvptxCode lower_nvptx(const ir::Function& function, const Target& target, const CompileOptions& options) {
  llvm::LLVMContext context;
  llvm::Module module(function.name, context);
  prepare_module(module, target);
  Lowering l{.f = function, .target = target, .module = module, .b = llvm::IRBuilder<>(context)};
  l.registers.resize(function.value_count());
  l.places.resize(function.value_count());
  l.facts = index_facts(function);
  l.launched_warps = function.num_warps + (is_resident(function) ? producer_warps : 0);
  l.async_proxy = uses_wgmma(function) && writes_shared_tiles(function);
  build(l, options);
  verify_module(module);
  optimise(module, target);
  NvptxCode code;
  code.llvm_ir = print_module(module);
  code.ptx = emit_ptx(module, target);
  code.overlaps = may_overlap_launches(target);
  if (code.overlaps) require_wait_first(code.ptx);
  code.threads = lanes_per_warp * l.launched_warps;
  code.tensor_maps = tensor_maps(function);
  code.resident = is_resident(function);
  code.shared_memory = shared_memory_bytes(function);
  code.explanation = explain(function);
  if (std::string bound = explain_bound(function, target); !bound.empty()) code.explanation.push_back(std::move(bound));
  return code;
}

}  // namespace flextile::backend
