// Devices: the host CPU, and the CUDA GPUs that the driver shows, if there is a driver.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <flextile/backend/target.hpp>

namespace flextile {

class Stream;

struct DeviceProperties {
  std::string name;                        // "NVIDIA H200", or the CPU's model
  int compute_capability = 0;              // times ten: 90; 0 on the host
  int multiprocessors = 0;                 // streaming multiprocessors; host: threads of the pool
  std::int64_t memory = 0;                 // bytes
  int shared_memory_per_program = 0;       // bytes, the most that a kernel may ask for; 0: unlimited
  int threads_per_program = 0;             // the most; 0: unlimited
  int l2_cache = 0;                        // bytes; 0: unknown
  int clock = 0;                           // kHz; 0: unknown
  int driver_version = 0;                  // 13000 for CUDA 13.0; 0 on the host
};

/// All in bytes.
struct DeviceMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;                   // as the driver or the operating system says
  std::int64_t in_use = 0;                 // by tensors of this process
  std::int64_t cached = 0;                 // released by tensors, kept for the next ones
};

/// A value that names a device. The default is the host.
class Device {
 public:
  Device() = default;
  static Device host() { return Device(); }
  /// Throws ArgumentError that says what is there, or why no GPU can be used.
  static Device cuda(int index = 0);
  /// The first GPU, or the host where there is none. FLEXTILE_DEVICE (host, cuda, cuda:1) overrides.
  static Device best();
  /// The host, then every GPU.
  static std::vector<Device> all();
  /// "host", "cuda", "cuda:1".
  static Device parse(std::string_view text);
  /// Number of GPUs; 0 where there is no driver.
  static int count();
  /// Why count() is 0: one sentence; "" where there are GPUs.
  static std::string absence_reason();

  bool is_host() const { return index_ < 0; }
  /// -1 on the host, else the CUDA ordinal.
  int index() const { return index_; }
  /// "host" or "cuda:0", as parse() reads it.
  std::string name() const;
  Target target() const;
  const DeviceProperties& properties() const;
  DeviceMemory memory() const;
  /// The device's default stream: the same one at every call. Tensors are made and filled on it.
  Stream stream() const;
  /// Waits for all work on all streams of the device.
  void synchronize() const;
  /// Gives memory that tensors have released back to the driver or the operating system.
  void release_cached_memory() const;

  bool operator==(const Device&) const = default;

 private:
  explicit Device(int index) : index_(index) {}
  int index_ = -1;
};

/// What is there, one line a device, and why there is no GPU where there is none. For people.
std::string describe_devices();

/// Threads that run host kernels: FLEXTILE_THREADS, else as many as the process may use. Results do not depend on it.
int host_threads();
void set_host_threads(int count);

}  // namespace flextile
