// Memory of one device: blocks that tensors release are kept for the next tensors, so that a temporary costs a lookup.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace flextile::runtime {

struct DeviceState;
struct StreamState;

struct MemoryBlock {
  void* address = nullptr;
  std::size_t capacity = 0;
};

/// A released block is reused at once by tensors of the device's default stream, since work on one stream runs in order.
/// Where other streams used it too, it rests until they have passed the point of its release.
class MemoryPool {
 public:
  explicit MemoryPool(DeviceState& device);

  /// At least `bytes`, aligned to 256 bytes. DriverError with the numbers where there is no more.
  MemoryBlock allocate(std::size_t bytes);
  /// `others`: the streams beside the default one that used the block. Their references are taken over.
  void release(const MemoryBlock& block, const std::vector<StreamState*>& others) noexcept;
  void trim();

  std::int64_t in_use() const;
  std::int64_t cached() const;

 private:
  struct Use {
    StreamState* stream;
    void* event;                  // null while the stream is being captured: recorded afterwards
  };
  struct Resting {
    MemoryBlock block;
    std::vector<Use> uses;
  };
  void* allocate_raw(std::size_t capacity);
  void release_raw(const MemoryBlock& block) noexcept;
  void keep(const MemoryBlock& block) noexcept;
  void settle() noexcept;
  bool is_settled(Use& use) noexcept;
  void trim_locked() noexcept;

  DeviceState& device_;
  mutable std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::vector<Resting> resting_;
  std::size_t in_use_ = 0;
  std::size_t cached_ = 0;
};

/// FLEXTILE_MEMORY_CACHE=0: every release goes straight to the system, for memory checkers.
bool caches_memory();

/// Device memory that is no block of the pool, all zeros, whatever the thread's streams are recording. The caller has the device's
/// context.
void* zeroed_memory(std::size_t bytes);

}  // namespace flextile::runtime
