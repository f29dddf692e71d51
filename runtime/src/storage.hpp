// The counted memory behind tensors.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include <flextile/ir/tensor_handle.hpp>

#include "device_state.hpp"

namespace flextile::runtime {

struct Storage {
  /// Memory of the device's pool.
  Storage(DeviceState& device, std::size_t bytes) : device(&device), block(device.memory.allocate(bytes)) {}
  /// Memory of someone else's; `deleter(owner)` runs when the last reference goes.
  Storage(DeviceState& device, void (*deleter)(void*), void* owner) : device(&device), deleter(deleter), owner(owner) {}
  ~Storage();

  struct Use {
    StreamState* stream;
    bool ordered;                  // after the last write on the device's default stream
  };

  std::atomic<std::int64_t> references{0};
  std::atomic<std::uint64_t> version{0};
  DeviceState* device;
  MemoryBlock block;
  void (*deleter)(void*) = nullptr;
  void* owner = nullptr;
  std::atomic<StreamState*> recent{nullptr};   // a stream of `uses` that is ordered: the fast answer
  std::mutex mutex;
  std::vector<Use> uses;           // streams other than the default one
};

ir::TensorHandle make_handle(Storage* storage);
inline Storage* storage_of(const ir::TensorHandle& tensor) { return static_cast<Storage*>(tensor.storage()); }

/// `stream` is about to use the memory: its first use waits for the default stream, where tensors are made and filled.
void use_on_slowly(Storage& storage, StreamState* stream);
inline void use_on(Storage& storage, StreamState* stream) {
  if (stream != &storage.device->default_stream && storage.recent.load(std::memory_order_acquire) != stream) use_on_slowly(storage, stream);
}

/// The default stream is about to read or write the memory by fill, copy or read: after everything that other streams did
/// with it, and before what they will do.
void use_on_default_stream(Storage& storage);

}  // namespace flextile::runtime
