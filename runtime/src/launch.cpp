// One launch: arguments are checked and packed on the stack, the variant is found in a table of the thread's own, and the
// programs go to the driver or to the thread pool. Nothing allocates, locks or waits on the way of a repeated launch.
#include <flextile/runtime/launch.hpp>

#include <cstring>
#include <limits>
#include <string>

#include <flextile/ir/identity.hpp>

#include "argument_check.hpp"
#include "cache_epoch.hpp"
#include "capture.hpp"
#include "driver.hpp"
#include "kernel_record.hpp"
#include "launch_watch.hpp"
#include "program_counter.hpp"
#include "storage.hpp"
#include "tensor_map.hpp"
#include "thread_pool.hpp"

namespace flextile {
namespace runtime {
namespace {

/// What a thread remembers: the variant for (kernel, device, facts). Direct-mapped; a collision only costs the slow way.
struct RememberedKernel {
  std::uint64_t identity = 0;
  std::uint64_t epoch = 0;
  AlignmentClass facts = 0;
  int device = 0;
  const KernelRecord* record = nullptr;
};
constexpr std::size_t remembered_count = 512;
thread_local RememberedKernel remembered[remembered_count];

RememberedKernel& remembered_slot(std::uint64_t identity, int device, AlignmentClass facts) {
  std::uint64_t hash = identity * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(facts) * 0xD6E8FEB86659FD93u +
                       static_cast<std::uint64_t>(facts >> 64) * 0xBF58476D1CE4E5B9u + static_cast<std::uint64_t>(device);
  return remembered[(hash ^ hash >> 32) % remembered_count];
}

/// The packed arguments fit the traced function only if it has the parameters that it was announced with.
void require_same_parameters(const KernelReference& kernel, const std::vector<ir::Parameter>& traced) {
  bool same = traced.size() == kernel.signature->size();
  for (std::size_t i = 0; same && i < traced.size(); ++i) same = traced[i].type == (*kernel.signature)[i].type;
  if (!same)
    throw CompileError("flextile: compile error in kernel \"" + std::string(kernel.name) + "\": the traced function has other parameters than signature() says");
}

const KernelRecord* find_variant(const KernelReference& kernel, int device, AlignmentClass facts) {
  RememberedKernel& slot = remembered_slot(kernel.identity, device, facts);
  const std::uint64_t epoch = cache_epoch();
  if (kernel.identity != 0 && slot.identity == kernel.identity && slot.epoch == epoch && slot.facts == facts && slot.device == device)
    return slot.record;
  const ir::Function function = kernel.trace(kernel.object, with_facts(*kernel.signature, facts));
  const LoadedKernel loaded = load(function, device < 0 ? Device::host() : Device::cuda(device), kernel.options ? *kernel.options : CompileOptions{});
  require_same_parameters(kernel, loaded.compiled().parameters);
  if (kernel.identity != 0) slot = {kernel.identity, epoch, facts, device, loaded.record()};
  return loaded.record();
}

std::string grid_text(const Grid& grid) { return std::to_string(grid.x) + "x" + std::to_string(grid.y) + "x" + std::to_string(grid.z); }

void check_grid(std::string_view kernel, const Grid& grid, bool is_host) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t limits[] = {most, is_host ? most : 65535, is_host ? most : 65535}, values[] = {grid.x, grid.y, grid.z};
  std::int64_t programs = 1;
  for (int axis = 0; axis < 3; ++axis)
    if (values[axis] < 0 || values[axis] > limits[axis] || __builtin_mul_overflow(programs, values[axis], &programs))
      throw ArgumentError("flextile: launch of kernel \"" + std::string(kernel) + "\": the grid is " + grid_text(grid) + "; axis " +
                          std::string(1, "xyz"[axis]) + " must be from 0 to " + std::to_string(limits[axis]) +
                          (is_host ? ", and all programs together below 2^63" : ""));
}

/// Everything written is counted, ordered between streams, and kept alive by the capture that the thread is in.
void note_tensors(StreamState* stream, const std::vector<ir::Parameter>& parameters, const Argument* arguments) {
  Capture* const capture = capture_of(stream);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (arguments[i].kind != Argument::Kind::tensor || !arguments[i].tensor) continue;
    const ir::TensorHandle& tensor = *arguments[i].tensor;
    Storage* const storage = storage_of(tensor);
    if (!storage) continue;
    use_on(*storage, stream);
    if (!parameters[i].read_only) storage->version.fetch_add(1, std::memory_order_relaxed);
    if (capture) {
      capture->tensors.push_back(tensor);
      capture->tensors.back().read_only = parameters[i].read_only;
    }
  }
}

void run_on_host(HostEntry entry, const Grid& grid, void* const* arguments) {
  const std::int64_t programs = grid.x * grid.y * grid.z;
  const std::int64_t shares = std::int64_t{host_threads()} * 64;  // small enough that unequal programs end together
  parallel_for(programs, programs / shares, [&](std::int64_t begin, std::int64_t end) {
    HostProgram program{{0, 0, 0}, {static_cast<std::int32_t>(grid.x), static_cast<std::int32_t>(grid.y), static_cast<std::int32_t>(grid.z)}};
    for (std::int64_t index = begin; index < end; ++index) {
      program.id[0] = static_cast<std::int32_t>(index % grid.x);
      program.id[1] = static_cast<std::int32_t>(index / grid.x % grid.y);
      program.id[2] = static_cast<std::int32_t>(index / grid.x / grid.y);
      entry(arguments, &program);
    }
  });
}

/// The packed arguments for later: a copy that points into itself.
void record_on_host(Capture& capture, HostEntry entry, const Grid& grid, const PackedArguments& packed) {
  std::vector<std::uint64_t> values(packed.values, packed.values + packed.count);
  capture.host_work.push_back([entry, grid, values]() mutable {
    std::vector<void*> pointers;
    for (std::uint64_t& value : values) pointers.push_back(&value);
    run_on_host(entry, grid, pointers.data());
  });
}

/// Programs that stay on the device: how many to launch. The grid's extents and the counter of taken programs become arguments.
Grid share_out(const KernelRecord& kernel, const Grid& grid, StreamState& stream, PackedArguments& packed) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::int64_t programs = 0;
  if (__builtin_mul_overflow(grid.x * grid.y, grid.z, &programs) || programs > most)
    throw ArgumentError("flextile: launch of kernel \"" + kernel.compiled->kernel_name + "\": the grid is " + grid_text(grid) + "; all programs together must be below 2^31");
  const std::uint64_t values[] = {static_cast<std::uint64_t>(grid.x), static_cast<std::uint64_t>(grid.y), static_cast<std::uint64_t>(grid.z),
                                  reinterpret_cast<std::uintptr_t>(program_counter(stream))};
  for (const std::uint64_t value : values) {
    packed.values[packed.count] = value;
    packed.pointers[packed.count] = &packed.values[packed.count];
    ++packed.count;
  }
  return {std::min(programs, kernel.workers), 1, 1};
}

/// What the driver copies into a launch, or into a graph: all parameters as one block of bytes, which it takes a third of a microsecond
/// sooner than some 60 pointers; or pointers, where it does not say what goes where in the block.
class ParameterBlock {
 public:
  void fill(const KernelRecord& kernel, const Argument* arguments, PackedArguments& packed) {
    const std::vector<TensorMap>& maps = kernel.compiled->tensor_maps;
    const bool in_block = !kernel.places.empty();
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const TensorMapImage& image = make_tensor_map(*kernel.compiled, maps[i], *arguments[maps[i].parameter].tensor, kernel.zeros);
      unsigned char* const place = bytes_ + (in_block ? kernel.places[packed.count + i].offset : i * sizeof image);
      std::memcpy(place, &image, sizeof image);
      packed.pointers[packed.count + i] = place;
    }
    pointers_ = packed.pointers;
    if (!in_block) return;
    for (std::size_t i = 0; i < packed.count; ++i) {
      const ParameterPlace& place = kernel.places[i];
      if (place.bytes == 8) std::memcpy(bytes_ + place.offset, &packed.values[i], 8);        // each size an instruction, not a call
      else if (place.bytes == 4) std::memcpy(bytes_ + place.offset, &packed.values[i], 4);
      else std::memcpy(bytes_ + place.offset, &packed.values[i], place.bytes);
    }
    size_ = kernel.places.back().offset + kernel.places.back().bytes;
  }
  void** pointers() { return size_ ? nullptr : pointers_; }
  void** extra() { return size_ ? extra_ : nullptr; }

 private:
  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE
  static void* key(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

  alignas(TensorMapImage) unsigned char bytes_[most_parameter_bytes];
  std::size_t size_ = 0;
  void** pointers_ = nullptr;
  void* extra_[5] = {key(1), bytes_, key(2), &size_, nullptr};
};

/// Where the kernel waits for the launch before by itself, it is placed while that one still runs.
int start(const KernelRecord& kernel, const Grid& grid, void* stream, ParameterBlock& block) {
  const unsigned x = static_cast<unsigned>(grid.x), y = static_cast<unsigned>(grid.y), z = static_cast<unsigned>(grid.z);
  if (!kernel.overlaps) return driver()->cuLaunchKernel(kernel.function, x, y, z, kernel.threads, 1, 1, kernel.shared_memory, stream, block.pointers(), block.extra());
  LaunchAttribute attribute{.id = launch_overlaps, .value = {1}};
  const LaunchConfig launch{{x, y, z}, {kernel.threads, 1, 1}, kernel.shared_memory, stream, &attribute, 1};
  return driver()->cuLaunchKernelEx(&launch, kernel.function, block.pointers(), block.extra());
}

void run_on_device(const KernelRecord& kernel, const Grid& asked, StreamState* stream, const Argument* arguments, PackedArguments& packed) {
  CurrentContext current(kernel.device->context);
  const Grid grid = kernel.workers > 0 ? share_out(kernel, asked, *stream, packed) : asked;
  ParameterBlock block;
  block.fill(kernel, arguments, packed);
  const int result = start(kernel, grid, stream->native, block);
  check(result, kernel.overlaps ? "cuLaunchKernelEx" : "cuLaunchKernel", [&] {
    const int limit = kernel.device->properties.shared_memory_per_program;
    return "kernel \"" + kernel.compiled->kernel_name + "\", grid " + grid_text(grid) + ", block " + std::to_string(kernel.threads) +
           ", shared memory " + std::to_string(kernel.shared_memory) + " bytes (device limit " + std::to_string(limit) + ")";
  });
}

void run(const KernelRecord& kernel, const Grid& grid, StreamState* stream, const Argument* arguments, PackedArguments& packed) {
  const std::vector<ir::Parameter>& parameters = kernel.compiled->parameters;
  note_tensors(stream, parameters, arguments);
  LaunchWatch::note(kernel);
  if (kernel.device->index >= 0)
    run_on_device(kernel, grid, stream, arguments, packed);
  else if (Capture* capture = capture_of(stream))
    record_on_host(*capture, kernel.entry, grid, packed);
  else
    run_on_host(kernel.entry, grid, packed.pointers);
}

bool is_empty(const Grid& grid) { return grid.x == 0 || grid.y == 0 || grid.z == 0; }

}  // namespace
}  // namespace runtime

std::uint64_t new_kernel_identity() { return ir::new_identity(); }

void launch(const Stream& stream, const LoadedKernel& kernel, Grid grid, const Argument* arguments, std::size_t count) {
  const CompiledKernel& compiled = kernel.compiled();
  const runtime::KernelRecord& record = *kernel.record();
  runtime::StreamState* state = stream.state();
  if (state->device != record.device)
    throw ArgumentError("flextile: launch of kernel \"" + compiled.kernel_name + "\": it is loaded on " + kernel.device().name() +
                        " and the stream is of " + stream.device().name());
  runtime::PackedArguments packed;
  runtime::pack_arguments(compiled.kernel_name, state->device->index, compiled.parameters, arguments, count, packed);
  runtime::require_facts(compiled.kernel_name, compiled.parameters, record.required, packed.facts, arguments);
  runtime::check_grid(compiled.kernel_name, grid, state->device->index < 0);
  if (!runtime::is_empty(grid)) runtime::run(record, grid, state, arguments, packed);
}

void launch(const Stream& stream, const KernelReference& kernel, Grid grid, const Argument* arguments, std::size_t count) {
  runtime::StreamState* state = stream.state();
  const int device = state->device->index;
  runtime::PackedArguments packed;
  runtime::pack_arguments(kernel.name, device, *kernel.signature, arguments, count, packed);
  runtime::check_grid(kernel.name, grid, device < 0);
  if (runtime::is_empty(grid)) return;
  const runtime::KernelRecord* record = runtime::find_variant(kernel, device, packed.facts);
  if (const auto missing = record->required & ~packed.facts)
    runtime::require_facts(kernel.name, record->compiled->parameters, missing, packed.facts, arguments);
  runtime::run(*record, grid, state, arguments, packed);
}

LoadedKernel select(const Device& device, const KernelReference& kernel, const Argument* arguments, std::size_t count) {
  runtime::PackedArguments packed;
  runtime::pack_arguments(kernel.name, device.index(), *kernel.signature, arguments, count, packed);
  return LoadedKernel(runtime::find_variant(kernel, device.index(), packed.facts));
}

std::vector<ir::Parameter> argument_facts(const Device& device, std::string_view kernel, const std::vector<ir::Parameter>& signature,
                                          const Argument* arguments, std::size_t count) {
  runtime::PackedArguments packed;
  runtime::pack_arguments(kernel, device.index(), signature, arguments, count, packed);
  return runtime::with_facts(signature, packed.facts);
}

}  // namespace flextile
