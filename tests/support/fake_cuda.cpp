// A stand-in for libcuda.so.1 over host memory: two devices of 1 GiB, so that the runtime's CUDA side is tested on a machine
// without a GPU. Selected by FLEXTILE_LIBCUDA=<this library>. Stricter than the driver where that finds faults: every call
// needs a current context, every address must lie inside one allocation, and streams must be of the current device.
// Work runs when it is queued. Kernels are not run, but for the runtime's own copy kernels; a test may watch launches.
// Devices like an A100, or with FAKE_CAPABILITY=90 like an H200.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#define DRIVER_FUNCTION(symbol, parameters) extern "C" int symbol parameters;
#include "../../runtime/src/driver_functions.def"

namespace {

enum Result {
  success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_context = 201, no_binary = 209, invalid_ptx = 218,
  invalid_handle = 400, not_found = 500, not_ready = 600, capture_unsupported = 900, capture_invalidated = 901,
};

constexpr int device_count = 2;
constexpr std::size_t device_bytes = std::size_t{1} << 30;

#ifndef FAKE_CAPABILITY
#define FAKE_CAPABILITY 80
#endif
constexpr int capability = FAKE_CAPABILITY, most_shared = capability >= 90 ? 232448 : 166912;

struct Context { int device; };
struct Graph { std::vector<std::function<void()>> work; };
struct Stream { int device; Graph* capturing = nullptr; bool invalidated = false; int mode = 2; void* thread = nullptr; };   // captured in this mode, by this thread
struct Event { int device; bool captured = false; std::chrono::steady_clock::time_point time; };
struct Module { std::string image; std::vector<std::string> names; int local_bytes = 0; };
struct Place { std::size_t offset, bytes; };
struct Function { std::string name; int most_shared = 48 * 1024; int local_bytes = 0; std::vector<Place> places = {}; };

using Watcher = void (*)(const char* name, const unsigned* grid, const unsigned* block, unsigned shared, void** parameters);

struct State {
  std::recursive_mutex mutex;
  Context contexts[device_count] = {{0}, {1}};
  std::map<std::uint64_t, std::pair<std::size_t, int>> allocations;   // address → bytes, device
  std::size_t used[device_count] = {};
  std::size_t allocation_calls = 0, replays = 0, tensor_maps = 0, blocks = 0, overlapping = 0, waits = 0;
  bool tells_places = true, events_are_done = true;
  std::set<Stream*> streams;
  std::set<Module*> modules;
  std::deque<Function> functions;                                     // as long as the driver
  Watcher watcher = nullptr;
  std::map<std::string, std::pair<int, std::string>> assembled;       // a text in the PTX → local memory of a thread, the assembler's log
};
State& state() {
  static State* const state = new State;
  return *state;
}
thread_local Context* current = nullptr;
thread_local int capture_mode = 0;

/// Held by every call that needs a context.
struct Call {
  std::lock_guard<std::recursive_mutex> lock{state().mutex};
};
#define NEEDS_CONTEXT \
  Call call;          \
  if (!current) return invalid_context;

bool inside(std::uint64_t address, std::size_t bytes, int device) {
  auto found = state().allocations.upper_bound(address);
  if (bytes == 0) return true;
  if (found == state().allocations.begin()) return false;
  --found;
  return found->second.second == device && address + bytes <= found->first + found->second.first;
}
void* memory(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// Now, or into the graph that the stream records.
template <class Work>
int enqueue(void* handle, Work work) {
  auto* stream = static_cast<Stream*>(handle);
  if (!stream || !state().streams.count(stream)) return invalid_handle;
  if (stream->device != current->device) return invalid_context;
  if (stream->capturing)
    stream->capturing->work.push_back(work);
  else
    work();
  return success;
}

template <class Unit>
int set_memory(std::uint64_t destination, Unit value, std::size_t count, void* stream) {
  if (!current) return invalid_context;
  if (destination % sizeof(Unit) || !inside(destination, count * sizeof(Unit), current->device)) return invalid_value;
  return enqueue(stream, [=] { std::fill_n(static_cast<Unit*>(memory(destination)), count, value); });
}

/// flextile_copy_<bytes>: see runtime/src/copy_on_device.cpp.
int run_copy(int bytes, unsigned threads, void** parameters, void* stream) {
  std::uint64_t to, from;
  std::uint32_t count, sizes[8];
  std::int64_t to_strides[8], from_strides[8];
  std::memcpy(&to, parameters[0], 8), std::memcpy(&from, parameters[1], 8), std::memcpy(&count, parameters[2], 4);
  std::memcpy(sizes, parameters[3], sizeof sizes), std::memcpy(to_strides, parameters[4], 64), std::memcpy(from_strides, parameters[5], 64);
  if (threads < count) return invalid_value;
  struct Box { std::uint32_t sizes[8]; std::int64_t to[8], from[8]; } box;
  std::memcpy(box.sizes, sizes, sizeof sizes), std::memcpy(box.to, to_strides, 64), std::memcpy(box.from, from_strides, 64);
  const auto offsets = [box](std::uint32_t index, std::int64_t& to_offset, std::int64_t& from_offset) {
    to_offset = from_offset = 0;
    for (int axis = 7; axis >= 0; --axis) {
      const std::uint32_t coordinate = axis ? index % box.sizes[axis] : index;
      if (axis) index /= box.sizes[axis];
      to_offset += coordinate * box.to[axis], from_offset += coordinate * box.from[axis];
    }
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    std::int64_t a, b;
    offsets(i, a, b);
    if (!inside(to + a, bytes, current->device) || !inside(from + b, bytes, current->device)) return invalid_value;
  }
  return enqueue(stream, [=] {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::int64_t a, b;
      offsets(i, a, b);
      std::memcpy(memory(to + a), memory(from + b), bytes);
    }
  });
}

}  // namespace

// ---- what tests ask
extern "C" void fake_cuda_watch(Watcher watcher) { state().watcher = watcher; }
/// What is said of code that is loaded from now on and has `text` in it: local memory of a thread (spilled registers) and the
/// assembler's log.
extern "C" void fake_cuda_assembles(const char* text, int local_bytes, const char* log) { state().assembled[text] = {local_bytes, log}; }
extern "C" std::size_t fake_cuda_allocation_calls() { return state().allocation_calls; }
/// 0: as a driver before 12.4, which does not say where parameters go.
extern "C" void fake_cuda_tells_places(int says) { state().tells_places = says != 0; }
/// 0: what events recorded is not done yet, for whoever asks.
extern "C" void fake_cuda_events_are_done(int done) { state().events_are_done = done != 0; }
extern "C" std::size_t fake_cuda_waits() { return state().waits; }
extern "C" std::size_t fake_cuda_overlapping() { return state().overlapping; }
extern "C" std::size_t fake_cuda_blocks() { return state().blocks; }
extern "C" std::size_t fake_cuda_replays() { return state().replays; }
extern "C" std::size_t fake_cuda_tensor_maps() { return state().tensor_maps; }
extern "C" std::size_t fake_cuda_streams() { return state().streams.size(); }

// ---- devices and contexts
int cuInit(unsigned) {
  const char* error = std::getenv("FAKE_CUDA_INIT_ERROR");
  return error ? std::atoi(error) : success;
}
int cuDriverGetVersion(int* version) { return *version = 13000, success; }
int cuGetErrorName(int error, const char** name) {
  *name = error == invalid_value ? "CUDA_ERROR_INVALID_VALUE" : error == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : error == no_device ? "CUDA_ERROR_NO_DEVICE"
        : error == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT" : error == invalid_ptx ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_FAKE";
  return success;
}
int cuGetErrorString(int, const char** text) { return *text = "as the fake driver says", success; }
int cuDeviceGetCount(int* count) { return *count = device_count, success; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal < device_count ? success : invalid_value; }
int cuDeviceGetName(char* name, int length, int device) {
  const std::string text = "Fake GPU " + std::to_string(device);
  return std::strncpy(name, text.c_str(), static_cast<std::size_t>(length)), success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {{1, 1024}, {13, 1980000}, {16, 132}, {38, 50 << 20}, {75, capability / 10}, {76, capability % 10}, {97, most_shared}};
  const auto found = values.find(attribute);
  if (found == values.end()) return invalid_value;
  return *value = found->second, success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = device_bytes, success; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &state().contexts[device], success; }
int cuCtxGetCurrent(void** context) { return *context = current, success; }
int cuCtxSetCurrent(void* context) { return current = static_cast<Context*>(context), success; }
int cuCtxSynchronize() { return current ? success : invalid_context; }

// ---- memory
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  NEEDS_CONTEXT
  return *total = device_bytes, *free = device_bytes - state().used[current->device], success;
}
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  NEEDS_CONTEXT
  ++state().allocation_calls;
  if (bytes == 0) return invalid_value;
  if (state().used[current->device] + bytes > device_bytes) return out_of_memory;
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = reinterpret_cast<std::uint64_t>(block);
  state().allocations[*address] = {bytes, current->device};
  state().used[current->device] += bytes;
  return success;
}
int cuMemFree_v2(std::uint64_t address) {
  NEEDS_CONTEXT
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end() || found->second.second != current->device) return invalid_value;
  state().used[current->device] -= found->second.first;
  state().allocations.erase(found);
  std::free(memory(address));
  return success;
}
int cuMemcpyHtoDAsync_v2(std::uint64_t destination, const void* source, std::size_t bytes, void* stream) {
  NEEDS_CONTEXT
  if (!inside(destination, bytes, current->device)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(memory(destination), source, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* destination, std::uint64_t source, std::size_t bytes, void* stream) {
  NEEDS_CONTEXT
  if (!inside(source, bytes, current->device)) return invalid_value;
  return enqueue(stream, [=] { std::memcpy(destination, memory(source), bytes); });
}
int cuMemcpyDtoDAsync_v2(std::uint64_t destination, std::uint64_t source, std::size_t bytes, void* stream) {
  NEEDS_CONTEXT
  if (!inside(destination, bytes, current->device) || !inside(source, bytes, current->device)) return invalid_value;
  return enqueue(stream, [=] { std::memmove(memory(destination), memory(source), bytes); });
}
int cuMemcpyPeerAsync(std::uint64_t destination, void* destination_context, std::uint64_t source, void* source_context, std::size_t bytes, void* stream) {
  NEEDS_CONTEXT
  if (!inside(destination, bytes, static_cast<Context*>(destination_context)->device) ||
      !inside(source, bytes, static_cast<Context*>(source_context)->device))
    return invalid_value;
  return enqueue(stream, [=] { std::memcpy(memory(destination), memory(source), bytes); });
}
int cuMemsetD8Async(std::uint64_t destination, unsigned char value, std::size_t count, void* stream) {
  Call call;
  return set_memory(destination, value, count, stream);
}
int cuMemsetD16Async(std::uint64_t destination, unsigned short value, std::size_t count, void* stream) {
  Call call;
  return set_memory(destination, value, count, stream);
}
int cuMemsetD32Async(std::uint64_t destination, unsigned value, std::size_t count, void* stream) {
  Call call;
  return set_memory(destination, value, count, stream);
}

// ---- streams, events, graphs
int cuStreamCreate(void** stream, unsigned) {
  NEEDS_CONTEXT
  auto* made = new Stream{current->device};
  state().streams.insert(made);
  return *stream = made, success;
}
int cuStreamDestroy_v2(void* stream) {
  NEEDS_CONTEXT
  if (!state().streams.erase(static_cast<Stream*>(stream))) return invalid_handle;
  delete static_cast<Stream*>(stream);
  return success;
}
int cuStreamSynchronize(void* handle) {
  NEEDS_CONTEXT
  auto* stream = static_cast<Stream*>(handle);
  if (!state().streams.count(stream)) return invalid_handle;
  if (!stream->capturing) return success;
  stream->invalidated = true;
  return capture_unsupported;
}
int cuStreamWaitEvent(void* handle, void* event, unsigned) {
  NEEDS_CONTEXT
  auto* stream = static_cast<Stream*>(handle);
  if (!state().streams.count(stream) || !event) return invalid_handle;
  if (stream->capturing && !static_cast<Event*>(event)->captured) return stream->invalidated = true, capture_unsupported;
  ++state().waits;
  return success;
}
int cuStreamIsCapturing(void* handle, int* status) {
  NEEDS_CONTEXT
  return *status = static_cast<Stream*>(handle)->capturing ? 1 : 0, success;
}
int cuStreamBeginCapture_v2(void* handle, int mode) {
  NEEDS_CONTEXT
  auto* stream = static_cast<Stream*>(handle);
  if (mode < 0 || mode > 2 || stream->capturing) return invalid_value;
  stream->capturing = new Graph, stream->invalidated = false, stream->mode = mode, stream->thread = &capture_mode;
  return success;
}
int cuStreamEndCapture(void* handle, void** graph) {
  NEEDS_CONTEXT
  auto* stream = static_cast<Stream*>(handle);
  if (!stream->capturing) return invalid_value;
  Graph* recorded = stream->capturing;
  stream->capturing = nullptr;
  if (!stream->invalidated) return *graph = recorded, success;
  delete recorded;
  return *graph = nullptr, capture_invalidated;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return success;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  NEEDS_CONTEXT
  return *executable = new Graph(*static_cast<Graph*>(graph)), success;
}
int cuGraphLaunch(void* executable, void* stream) {
  NEEDS_CONTEXT
  if (static_cast<Stream*>(stream)->device != current->device) return invalid_context;
  for (const auto& work : static_cast<Graph*>(executable)->work) work();
  ++state().replays;
  return success;
}
int cuGraphExecDestroy(void* executable) {
  NEEDS_CONTEXT
  delete static_cast<Graph*>(executable);
  return success;
}
int cuGraphDestroy(void* graph) {
  NEEDS_CONTEXT
  delete static_cast<Graph*>(graph);
  return success;
}
int cuEventCreate(void** event, unsigned) {
  NEEDS_CONTEXT
  return *event = new Event{current->device, false, {}}, success;
}
int cuEventDestroy_v2(void* event) {
  NEEDS_CONTEXT
  delete static_cast<Event*>(event);
  return success;
}
int cuEventRecord(void* handle, void* stream) {
  NEEDS_CONTEXT
  auto* event = static_cast<Event*>(handle);
  if (event->device != static_cast<Stream*>(stream)->device) return invalid_handle;
  event->captured = static_cast<Stream*>(stream)->capturing != nullptr;
  event->time = std::chrono::steady_clock::now();
  return success;
}
/// Questions about events break captures: those of this thread that are not relaxed, and any thread's global one, unless this thread is relaxed.
static bool breaks_captures() {
  bool broken = false;
  for (Stream* stream : state().streams)
    if (stream->capturing && capture_mode != 2 && (stream->mode == 0 ? capture_mode == 0 || stream->thread == &capture_mode : stream->mode == 1 && stream->thread == &capture_mode))
      broken = stream->invalidated = true;
  return broken;
}
int cuEventSynchronize(void*) {
  NEEDS_CONTEXT
  return breaks_captures() ? capture_unsupported : success;
}
int cuEventQuery(void* event) {
  NEEDS_CONTEXT
  if (static_cast<Event*>(event)->captured || breaks_captures()) return capture_unsupported;
  return state().events_are_done ? success : not_ready;
}
int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  NEEDS_CONTEXT
  const auto time = static_cast<Event*>(end)->time - static_cast<Event*>(start)->time;
  return *milliseconds = std::chrono::duration<float, std::milli>(time).count(), success;
}

// ---- code
/// Of the parameters of `.entry name(` in PTX.
static std::vector<Place> places_in(const std::string& ptx, const std::string& name) {
  std::vector<Place> places;
  const std::size_t entry = ptx.find(".entry " + name + "(");
  if (entry == std::string::npos) return places;
  const std::string list = ptx.substr(entry, ptx.find(')', entry) - entry);
  std::size_t end = 0;
  for (std::size_t at = list.find(".param"); at != std::string::npos; at = list.find(".param", at + 1)) {
    const std::string text = list.substr(at, list.find(',', at) - at);
    std::size_t bytes = 0, alignment = 0;
    for (const char* type : {"8", "16", "32", "64"}) {
      for (const char* kind : {".u", ".b", ".s", ".f"}) {
        if (text.find(std::string(kind) + type + " ") != std::string::npos) bytes = alignment = std::strtoul(type, nullptr, 10) / 8;
      }
    }
    if (const std::size_t count = text.find('['); count != std::string::npos) bytes *= std::strtoul(&text[count + 1], nullptr, 10);
    if (const std::size_t align = text.find(".align "); align != std::string::npos && text.find(".ptr") == std::string::npos) alignment = std::strtoul(&text[align + 7], nullptr, 10);
    if (bytes == 0) std::abort();   // a type that nobody taught this driver
    const std::size_t offset = (end + alignment - 1) / alignment * alignment;
    places.push_back({offset, bytes});
    end = offset + bytes;
  }
  return places;
}

int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  NEEDS_CONTEXT
  const std::string_view bytes(static_cast<const char*>(image), 4);
  if (bytes == "\x7f" "ELF") return no_binary;   // no cubin runs here: the runtime must fall back to PTX
  const std::string text = static_cast<const char*>(image);
  if (text.find("fake_cuda_refuses") != std::string::npos) {
    for (unsigned i = 0; i + 1 < count; ++i)
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas fatal: the fake driver refuses this");
    return invalid_ptx;
  }
  auto* made = new Module{text, {}};
  for (const auto& [part, said] : state().assembled) {
    if (text.find(part) == std::string::npos) continue;
    made->local_bytes = said.first;
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 3) std::strcpy(static_cast<char*>(values[i]), said.second.c_str());
  }
  state().modules.insert(made);
  return *module = made, success;
}
int cuModuleUnload(void* module) {
  NEEDS_CONTEXT
  if (!state().modules.erase(static_cast<Module*>(module))) return invalid_handle;
  delete static_cast<Module*>(module);
  return success;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  NEEDS_CONTEXT
  if (static_cast<Module*>(module)->image.find(name) == std::string::npos) return not_found;
  const std::string& image = static_cast<Module*>(module)->image;
  state().functions.push_back(Function{name, 48 * 1024, static_cast<Module*>(module)->local_bytes, places_in(image, name)});
  return *function = &state().functions.back(), success;
}
int cuFuncGetParamInfo(void* function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  NEEDS_CONTEXT
  const auto& places = static_cast<Function*>(function)->places;
  if (!state().tells_places || index >= places.size()) return invalid_value;
  return *offset = places[index].offset, *bytes = places[index].bytes, success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* programs, void* function, int threads, std::size_t) {
  NEEDS_CONTEXT
  if (!function || threads < 1 || threads > 1024) return invalid_value;
  return *programs = 2048 / threads, success;
}

int cuFuncGetAttribute(int* value, int attribute, void* function) {
  NEEDS_CONTEXT
  return *value = attribute == 4 ? 77 : attribute == 3 ? static_cast<Function*>(function)->local_bytes : 0, success;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  NEEDS_CONTEXT
  if (attribute != 8 || value > most_shared) return invalid_value;
  static_cast<Function*>(function)->most_shared = value;
  return success;
}
int cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, void* stream, void** parameters, void** extra) {
  NEEDS_CONTEXT
  auto* function = static_cast<Function*>(handle);
  const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
  for (int axis = 0; axis < 3; ++axis)
    if (grid[axis] == 0 || block[axis] == 0 || (axis && grid[axis] > 65535)) return invalid_value;
  std::vector<void*> in_block;
  if (extra) {   // one block of bytes, and its size
    if (parameters || extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2) || extra[4]) return invalid_value;
    for (const Place& place : function->places) in_block.push_back(static_cast<char*>(extra[1]) + place.offset);
    if (in_block.empty() || *static_cast<std::size_t*>(extra[3]) != function->places.back().offset + function->places.back().bytes) return invalid_value;
    parameters = in_block.data();
    ++state().blocks;
  }
  if (shared > static_cast<unsigned>(function->most_shared) || block_x * block_y * block_z > 1024) return invalid_value;
  constexpr std::string_view copy = "flextile_copy_";
  if (std::string_view(function->name).substr(0, copy.size()) == copy)
    return run_copy(function->name.back() - '0', grid_x * block_x, parameters, stream);
  if (state().watcher) state().watcher(function->name.c_str(), grid, block, shared, parameters);
  return enqueue(stream, [] {});
}

struct Attribute { int id, padding, value[16]; };
struct LaunchConfig { unsigned grid[3], block[3], shared; void* stream; Attribute* attributes; unsigned attribute_count; };
int cuLaunchKernelEx(const void* described, void* function, void** parameters, void** extra) {
  NEEDS_CONTEXT
  const auto& launch = *static_cast<const LaunchConfig*>(described);
  if (launch.attribute_count != 1 || launch.attributes->id != 6 || launch.attributes->value[0] != 1) return invalid_value;
  ++state().overlapping;
  return cuLaunchKernel(function, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2], launch.shared, launch.stream, parameters, extra);
}

/// The map says what it was made of: address, 5 sizes, 4 strides, 5 extents of the box, then element, swizzle and rank by bytes.
int cuTensorMapEncodeTiled(void* map, int element, std::uint32_t rank, void* address, const std::uint64_t* sizes, const std::uint64_t* strides,
                           const std::uint32_t* box, const std::uint32_t* element_strides, int interleave, int swizzle, int l2_promotion, int fill) {
  NEEDS_CONTEXT
  ++state().tensor_maps;
  constexpr std::uint64_t element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  if (reinterpret_cast<std::uintptr_t>(map) % 64 || element < 0 || element > 9 || rank < 1 || rank > 5) return invalid_value;
  if (interleave != 0 || swizzle < 0 || swizzle > 3 || l2_promotion < 0 || l2_promotion > 3 || fill != 0) return invalid_value;
  const std::uint64_t bytes = element_bytes[element], row = box[0] * bytes;
  std::uint64_t words[16] = {reinterpret_cast<std::uintptr_t>(address)}, reach = bytes * sizes[0];
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    if (sizes[axis] == 0 || sizes[axis] > std::uint64_t{1} << 32 || box[axis] == 0 || box[axis] > 256 || element_strides[axis] != 1) return invalid_value;
    words[1 + axis] = sizes[axis], words[10 + axis] = box[axis];
    if (axis == 0) continue;
    if (strides[axis - 1] == 0 || strides[axis - 1] % 16 || strides[axis - 1] >> 40) return invalid_value;
    words[5 + axis] = strides[axis - 1], reach += (sizes[axis] - 1) * strides[axis - 1];
  }
  if (row % 16 || (swizzle && row > std::uint64_t{16} << swizzle)) return invalid_value;
  if (words[0] % 16 || !inside(words[0], reach, current->device)) return invalid_value;
  words[15] = static_cast<std::uint64_t>(element) | static_cast<std::uint64_t>(swizzle) << 8 | std::uint64_t{rank} << 16;
  return std::memcpy(map, words, sizeof words), success;
}
