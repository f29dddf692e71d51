// What the process knows of one device. Made on first use, never destroyed: tensors may outlive every other static.
#pragma once
#include <atomic>

#include <flextile/runtime/device.hpp>
#include <flextile/runtime/stream.hpp>

#include "memory_pool.hpp"

namespace flextile::runtime {

struct DeviceState;

/// Counted; `native` is destroyed with the last reference unless it belongs to the caller.
struct StreamState {
  DeviceState* device = nullptr;
  void* native = nullptr;
  bool owned = false;
  std::atomic<int> references{1};
  std::atomic<void*> counter{nullptr};   // see program_counter.hpp
};
void retain(StreamState* stream);
void release(StreamState* stream);
bool is_capturing(const StreamState* stream);
/// `later` does what is queued on it from now on after what is queued on `earlier`.
void order_after(StreamState* later, StreamState* earlier);

struct DeviceState {
  explicit DeviceState(int index);

  int index;                    // -1: host
  int ordinal = 0;              // the driver's CUdevice
  void* context = nullptr;      // the primary context, retained
  DeviceProperties properties;
  Target target;
  StreamState default_stream;
  MemoryPool memory;
  void* zeros = nullptr;        // see zeros_on()
};

/// Throws ArgumentError where there is no such device, DriverError where it cannot be used.
DeviceState& device_state(int index);
inline DeviceState& device_state(const Device& device) { return device_state(device.index()); }

/// "1.5 GiB (1610612736 bytes)".
std::string bytes_text(std::int64_t bytes);

}  // namespace flextile::runtime
