// Compiled code → loaded code: the host's JIT linker, or the driver's module loader.
#include <algorithm>
#include <array>
#include <cstring>

#include <flextile/backend/assemble.hpp>

#include "driver.hpp"
#include "kernel_record.hpp"
#include "tensor_map.hpp"

namespace flextile::runtime {
namespace {

// CUjit_option and CUfunction_attribute numbers.
enum JitOption { jit_info_log = 3, jit_info_log_bytes = 4, jit_error_log = 5, jit_error_log_bytes = 6, jit_log_verbose = 12, jit_line_info = 13 };
enum FunctionAttribute { function_static_shared = 1, function_local_bytes = 3, function_registers = 4, function_most_dynamic_shared = 8 };
constexpr unsigned shared_without_asking = 48 * 1024;
constexpr int version_with_overlap = 12030;   // also in graphs
constexpr int error_no_binary_for_gpu = 209, error_invalid_ptx = 218, error_unsupported_ptx_version = 222;

struct ModuleLog {
  std::string information, errors;
};

int load_module(const char* image, void** module, ModuleLog& log) {
  std::array<char, 16384> information{}, errors{};
  const auto number = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  int options[] = {jit_info_log, jit_info_log_bytes, jit_error_log, jit_error_log_bytes, jit_log_verbose, jit_line_info};
  void* values[] = {information.data(), number(information.size() - 1), errors.data(), number(errors.size() - 1), number(1), number(1)};
  const int result = driver()->cuModuleLoadDataEx(module, image, 6, options, values);
  log = {information.data(), errors.data()};
  return result;
}

/// Unloads a module whose kernel turned out not to run here.
struct LoadedModule {
  void* module = nullptr;
  ~LoadedModule() {
    if (module) driver()->cuModuleUnload(module);
  }
};

void* load_code(const CompiledKernel& kernel, const DeviceState& device, bool& assembled_by_driver, ModuleLog& log) {
  void* module = nullptr;
  int result = error_no_binary_for_gpu;
  if (!kernel.binary.empty()) result = load_module(kernel.binary.data(), &module, log);
  if (result != driver_success && !kernel.ptx_text.empty()) {   // a cubin of a newer linker than the driver knows
    assembled_by_driver = true;
    result = load_module(kernel.ptx_text.c_str(), &module, log);
  }
  check(result, "cuModuleLoadDataEx", [&] {
    std::string detail = "kernel \"" + kernel.kernel_name + "\", compiled for " + kernel.target.name() + ", on " + device.properties.name + " (sm_" +
                         std::to_string(device.properties.compute_capability) + ")";
    if (!log.errors.empty()) detail += "\n  " + log.errors;
    if (result == error_unsupported_ptx_version) detail += "\n  hint: the driver is too old for this PTX; update it or install nvJitLink";
    if (result == error_invalid_ptx) detail += "\n  hint: print the kernel's ptx()";
    return detail;
  });
  return module;
}

/// Where the driver wants the kernel's parameters; none unless it says so of all of them, and they fit a launch's block.
std::vector<ParameterPlace> parameter_places(const KernelRecord& record, const CompiledKernel& kernel) {
  const Driver& functions = *driver();
  std::size_t count = kernel.tensor_maps.size() + (kernel.resident ? resident_values : 0);
  for (const ir::Parameter& parameter : kernel.parameters) count += parameter.type.is_view() ? 1 + 2 * static_cast<std::size_t>(parameter.type.rank) : 1;
  std::vector<ParameterPlace> places;
  std::size_t offset = 0, bytes = 0;
  while (functions.cuFuncGetParamInfo && places.size() < count && functions.cuFuncGetParamInfo(record.function, places.size(), &offset, &bytes) == driver_success) {
    const bool is_map = places.size() + kernel.tensor_maps.size() >= count;   // never asked for one that is not there: sanitizers report that
    if (offset + bytes > most_parameter_bytes || (is_map ? bytes != sizeof(TensorMapImage) : bytes > sizeof(std::uint64_t))) return {};
    places.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
  }
  if (places.size() != count) places.clear();
  return places;
}

/// What another assembler said is of code that is not loaded.
void forget_assembler(CompiledKernel& kernel) {
  kernel.resource_usage = {.shared_memory = kernel.resource_usage.shared_memory, .threads = kernel.resource_usage.threads, .log = ""};
  std::erase_if(kernel.explanation, [](const std::string& line) { return line.starts_with("assembler: "); });
}

std::unique_ptr<KernelRecord> load_on_device(std::shared_ptr<const CompiledKernel> compiled, DeviceState& device) {
  const std::shared_ptr<const CompiledKernel> given = compiled;   // lives to the end, also where what the driver says takes its place
  const CompiledKernel& kernel = *given;
  const Driver& functions = require_driver();
  require_tensor_maps(kernel, functions);
  CurrentContext current(device.context);
  RelaxedCapture relaxed;
  auto record = std::make_unique<KernelRecord>();
  bool assembled_by_driver = false;
  ModuleLog log;
  LoadedModule loaded{load_code(kernel, device, assembled_by_driver, log)};
  check(functions.cuModuleGetFunction(&record->function, loaded.module, kernel.kernel_name.c_str()), "cuModuleGetFunction",
        [&] { return "the code has no kernel \"" + kernel.kernel_name + "\""; });
  int declared = 0;
  check(functions.cuFuncGetAttribute(&declared, function_static_shared, record->function), "cuFuncGetAttribute");
  const int dynamic = kernel.resource_usage.shared_memory > declared ? kernel.resource_usage.shared_memory - declared : 0;
  const auto numbers = [&] {
    return "kernel \"" + kernel.kernel_name + "\", shared memory " + std::to_string(declared + dynamic) + " bytes (device limit " +
           std::to_string(device.properties.shared_memory_per_program) + ")\n  hint: lower stages or tile sizes";
  };
  if (declared + dynamic > device.properties.shared_memory_per_program) throw DriverError("flextile: driver error: too much shared memory: " + numbers());
  if (static_cast<unsigned>(dynamic) > shared_without_asking)
    check(functions.cuFuncSetAttribute(record->function, function_most_dynamic_shared, dynamic), "cuFuncSetAttribute", numbers);
  if (assembled_by_driver) {
    CompiledKernel known = kernel;
    forget_assembler(known);
    read_assembler_log(log.information, kernel.kernel_name, known.resource_usage);
    functions.cuFuncGetAttribute(&known.resource_usage.registers, function_registers, record->function);
    functions.cuFuncGetAttribute(&known.resource_usage.stack, function_local_bytes, record->function);
    for (std::string& sentence : assembler_complaints(known.resource_usage)) known.explanation.push_back(std::move(sentence));
    compiled = std::make_shared<const CompiledKernel>(static_cast<CompiledKernel&&>(known));
  }
  record->threads = static_cast<unsigned>(kernel.resource_usage.threads);
  record->shared_memory = static_cast<unsigned>(dynamic);
  if (!kernel.tensor_maps.empty()) record->zeros = zeros_on(device);
  record->places = parameter_places(*record, kernel);
  record->overlaps = kernel.overlaps && functions.cuLaunchKernelEx && functions.version >= version_with_overlap;
  if (kernel.resident) {
    int together = 0;
    check(functions.cuOccupancyMaxActiveBlocksPerMultiprocessor(&together, record->function, kernel.resource_usage.threads, static_cast<std::size_t>(dynamic)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor", numbers);
    record->workers = static_cast<std::int64_t>(std::max(together, 1)) * device.properties.multiprocessors;
  }
  record->compiled = std::move(compiled);
  loaded.module = nullptr;   // stays loaded
  return record;
}

}  // namespace

std::unique_ptr<const KernelRecord> load_record(std::shared_ptr<const CompiledKernel> compiled, DeviceState& device) {
  std::unique_ptr<KernelRecord> record;
  if (device.index >= 0) {
    record = load_on_device(std::move(compiled), device);
  } else {
    record = std::make_unique<KernelRecord>();
    record->module = std::make_unique<HostModule>(*compiled);
    record->entry = record->module->entry();
    record->compiled = std::move(compiled);
  }
  record->device = &device;
  record->required = required_facts(record->compiled->parameters);
  return record;
}

}  // namespace flextile::runtime
