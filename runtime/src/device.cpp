#include <sys/sysinfo.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <flextile/ir/environment.hpp>
#include <flextile/runtime/device.hpp>

#include "device_state.hpp"
#include "driver.hpp"

namespace flextile::runtime {
namespace {

// The numbers of CUdevice_attribute that are asked for.
enum DeviceAttribute {
  attribute_threads_per_block = 1,
  attribute_clock_rate = 13,
  attribute_multiprocessors = 16,
  attribute_l2_size = 38,
  attribute_capability_major = 75,
  attribute_capability_minor = 76,
  attribute_shared_memory_optin = 97,
};
constexpr unsigned stream_non_blocking = 1;

std::string cpu_model() {
  std::string model = "host CPU";
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
    char line[512];
    for (int i = 0; i < 40 && std::fgets(line, sizeof line, file); ++i) {
      const char* colon = std::strchr(line, ':');
      if (std::strncmp(line, "model name", 10) != 0 || !colon) continue;
      model = colon + 2;
      while (!model.empty() && (model.back() == '\n' || model.back() == ' ')) model.pop_back();
      break;
    }
    std::fclose(file);
  }
  return model;
}

DeviceProperties host_properties() {
  DeviceProperties properties;
  properties.name = cpu_model();
  struct sysinfo information {};
  if (sysinfo(&information) == 0) properties.memory = static_cast<std::int64_t>(information.totalram) * information.mem_unit;
  return properties;
}

DeviceProperties cuda_properties(int ordinal) {
  const Driver& functions = *driver();
  const auto attribute = [&](int which) {
    int value = 0;
    check(functions.cuDeviceGetAttribute(&value, which, ordinal), "cuDeviceGetAttribute");
    return value;
  };
  DeviceProperties properties;
  char name[256] = "";
  check(functions.cuDeviceGetName(name, sizeof name, ordinal), "cuDeviceGetName");
  properties.name = name;
  std::size_t memory = 0;
  check(functions.cuDeviceTotalMem_v2(&memory, ordinal), "cuDeviceTotalMem");
  properties.memory = static_cast<std::int64_t>(memory);
  properties.compute_capability = attribute(attribute_capability_major) * 10 + attribute(attribute_capability_minor);
  properties.multiprocessors = attribute(attribute_multiprocessors);
  properties.shared_memory_per_program = attribute(attribute_shared_memory_optin);
  properties.threads_per_program = attribute(attribute_threads_per_block);
  properties.l2_cache = attribute(attribute_l2_size);
  properties.clock = attribute(attribute_clock_rate);
  properties.driver_version = functions.version;
  return properties;
}

constexpr int most_devices = 64;

std::string devices_text() {
  const int count = Device::count();
  if (count == 0) return "this machine has no CUDA device that can be used: " + Device::absence_reason();
  if (count == 1) return "this machine has 1 CUDA device, number 0";
  return "this machine has " + std::to_string(count) + " CUDA devices, 0 to " + std::to_string(count - 1);
}

/// What a device's name must be here.
std::string names_text() {
  return (Device::count() == 0 ? "host: " : "host, cuda or cuda:N, and ") + devices_text();
}

/// The device of this name, if the machine has it.
bool find_device(std::string_view name, Device& device) {
  if (name == "host") return device = Device::host(), true;
  if (name == "cuda") name = "cuda:0";
  if (!name.starts_with("cuda:")) return false;
  int index = -1;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0 || index >= most_devices || index >= Device::count()) return false;
  return device = Device::cuda(index), true;
}

}  // namespace

DeviceState::DeviceState(int index) : index(index), memory(*this) {
  default_stream.device = this;
  if (index < 0) {
    properties = host_properties();
    target = Target::host();
    return;
  }
  const Driver& functions = require_driver();
  check(functions.cuDeviceGet(&ordinal, index), "cuDeviceGet");
  properties = cuda_properties(ordinal);
  const int sm = properties.compute_capability;
  target = Target{Target::Kind::nvptx, sm, false, ""};   // an older GPU still holds tensors; its kernels are refused when compiled
  if (sm >= 80) target = Target::cuda(sm, sm == 90);
  check(functions.cuDevicePrimaryCtxRetain(&context, ordinal), "cuDevicePrimaryCtxRetain", [&] { return "for " + properties.name; });
  CurrentContext current(context);
  check(functions.cuStreamCreate(&default_stream.native, stream_non_blocking), "cuStreamCreate");
}

DeviceState& device_state(int index) {
  static std::atomic<DeviceState*> states[most_devices + 1];
  static std::mutex mutex;
  if (index < -1 || index >= most_devices || (index >= 0 && index >= Device::count()))
    throw ArgumentError("flextile: there is no device cuda:" + std::to_string(index) + ": " + devices_text());
  std::atomic<DeviceState*>& state = states[index + 1];
  if (DeviceState* ready = state.load(std::memory_order_acquire)) return *ready;
  std::lock_guard lock(mutex);
  if (!state.load(std::memory_order_relaxed)) state.store(new DeviceState(index), std::memory_order_release);
  return *state.load(std::memory_order_relaxed);
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  char text[80];
  std::snprintf(text, sizeof text, "%.4g %s (%lld bytes)", value, units[unit], static_cast<long long>(bytes));
  return text;
}

}  // namespace flextile::runtime

namespace flextile {

using runtime::device_state;

Device Device::cuda(int index) {
  if (index < 0) throw ArgumentError("flextile: Device::cuda: index is " + std::to_string(index) + " and must not be negative");
  device_state(index);
  return Device(index);
}

Device Device::best() {
  Device chosen;
  const std::string name = ir::environment("FLEXTILE_DEVICE");
  if (name.empty()) return count() > 0 ? cuda(0) : host();
  if (!runtime::find_device(name, chosen)) ir::refuse_environment("FLEXTILE_DEVICE", runtime::names_text());
  return chosen;
}

std::vector<Device> Device::all() {
  std::vector<Device> devices{host()};
  for (int i = 0; i < count(); ++i) devices.push_back(cuda(i));
  return devices;
}

Device Device::parse(std::string_view text) {
  Device device;
  if (!runtime::find_device(text, device))
    throw ArgumentError("flextile: Device::parse: the name is \"" + std::string(text) + "\" and must be " + runtime::names_text());
  return device;
}

int Device::count() { return runtime::driver() ? runtime::driver()->device_count : 0; }
std::string Device::absence_reason() { return runtime::driver_absence(); }
std::string Device::name() const { return is_host() ? "host" : "cuda:" + std::to_string(index_); }
Target Device::target() const { return device_state(*this).target; }

const DeviceProperties& Device::properties() const { return device_state(*this).properties; }

DeviceMemory Device::memory() const {
  runtime::DeviceState& state = device_state(*this);
  DeviceMemory memory;
  memory.total = state.properties.memory;
  memory.in_use = state.memory.in_use();
  memory.cached = state.memory.cached();
  if (is_host()) {
    struct sysinfo information {};
    if (sysinfo(&information) == 0) memory.free = static_cast<std::int64_t>(information.freeram) * information.mem_unit;
    return memory;
  }
  runtime::CurrentContext current(state.context);
  std::size_t free = 0, total = 0;
  runtime::check(runtime::driver()->cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  memory.free = static_cast<std::int64_t>(free);
  return memory;
}

Stream Device::stream() const {
  runtime::StreamState* state = &device_state(*this).default_stream;
  runtime::retain(state);
  return Stream(state);
}

void Device::synchronize() const {
  if (is_host()) return;
  runtime::CurrentContext current(device_state(*this).context);
  runtime::check(runtime::driver()->cuCtxSynchronize(), "cuCtxSynchronize");
}

void Device::release_cached_memory() const {
  synchronize();
  device_state(*this).memory.trim();
}

std::string describe_devices() {
  std::string text;
  const auto gibibytes = [](std::int64_t bytes) {
    char number[32];
    std::snprintf(number, sizeof number, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
    return std::string(number);
  };
  const DeviceProperties& host = Device::host().properties();
  text += "host    " + host.name + ", " + std::to_string(host_threads()) + (host_threads() == 1 ? " thread, " : " threads, ") +
          gibibytes(host.memory) + "\n";
  for (int i = 0; i < Device::count(); ++i) {
    try {
      const Device device = Device::cuda(i);
      const DeviceProperties& properties = device.properties();
      text += device.name() + "  " + properties.name + ", " + device.target().name() + ", " + std::to_string(properties.multiprocessors) +
              " multiprocessors, " + gibibytes(properties.memory) + " (" + gibibytes(device.memory().free) + " free), " +
              std::to_string(properties.shared_memory_per_program / 1024) + " KiB shared memory a program, driver for CUDA " +
              std::to_string(properties.driver_version / 1000) + "." + std::to_string(properties.driver_version % 1000 / 10) + "\n";
    } catch (const Error& error) {
      text += "cuda:" + std::to_string(i) + "  cannot be used: " + error.what() + "\n";
    }
  }
  if (Device::count() == 0) text += "no GPU: " + Device::absence_reason() + "\n";
  return text;
}

}  // namespace flextile
