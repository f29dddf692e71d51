#include "memory_pool.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <flextile/ir/environment.hpp>

#include "device_state.hpp"
#include "driver.hpp"

namespace flextile::runtime {
namespace {

constexpr std::size_t smallest = 512;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t large = std::size_t{64} << 20;
constexpr unsigned event_without_time = 2;  // CU_EVENT_DISABLE_TIMING

/// Eight sizes an octave below 64 MiB, so that sizes that are nearly equal share blocks; whole huge pages above.
std::size_t round_capacity(std::size_t bytes) {
  if (bytes <= smallest) return smallest;
  std::size_t step = smallest;
  if (bytes >= large)
    step = huge_page;
  else
    while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

/// The host gives memory back beyond this; a GPU's memory is kept until it is needed.
std::size_t host_cache_limit() {
  static const std::size_t limit = [] {
    const std::size_t eighth = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) / 8 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t gibibyte = std::size_t{1} << 30;
    return eighth < gibibyte ? eighth : gibibyte;
  }();
  return limit;
}

}  // namespace

bool caches_memory() {
  static const bool caches =
      ir::environment_switch("FLEXTILE_MEMORY_CACHE", true, "released memory goes back to the system", "it is kept for reuse");
  return caches;
}

MemoryPool::MemoryPool(DeviceState& device) : device_(device) { caches_memory(); }   // refuses a wrong setting where throwing is possible

MemoryBlock MemoryPool::allocate(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 62)) bytes = std::size_t{1} << 62;  // more than any device has; refused below with the numbers
  const std::size_t capacity = round_capacity(bytes);
  std::lock_guard lock(mutex_);
  settle();
  auto found = free_.lower_bound(capacity);
  if (found != free_.end() && found->first <= capacity + capacity / 8) {
    const MemoryBlock block{found->second, found->first};
    free_.erase(found);
    cached_ -= block.capacity;
    in_use_ += block.capacity;
    return block;
  }
  void* address = allocate_raw(capacity);
  if (!address && cached_ > 0) {
    trim_locked();
    address = allocate_raw(capacity);
  }
  if (!address) {
    std::string message = "flextile: out of memory on " + Device(device_.index < 0 ? Device::host() : Device::cuda(device_.index)).name() + " (" +
                          device_.properties.name + "): asked for " + bytes_text(static_cast<std::int64_t>(bytes));
    if (device_.index >= 0) {
      std::size_t free = 0, total = 0;
      CurrentContext current(device_.context);
      if (driver()->cuMemGetInfo_v2(&free, &total) == driver_success)
        message += "; " + bytes_text(static_cast<std::int64_t>(free)) + " of " + bytes_text(static_cast<std::int64_t>(total)) + " are free";
    } else {
      message += "; the machine has " + bytes_text(device_.properties.memory);
    }
    message += ", flextile's tensors hold " + bytes_text(static_cast<std::int64_t>(in_use_));
    throw OutOfMemory(message);
  }
  in_use_ += capacity;
  return {address, capacity};
}

void* MemoryPool::allocate_raw(std::size_t capacity) {
  if (device_.index < 0) {
    if (capacity > static_cast<std::size_t>(device_.properties.memory)) return nullptr;
    void* address = nullptr;
    if (posix_memalign(&address, capacity >= huge_page ? huge_page : 256, capacity) != 0) return nullptr;
    if (capacity >= huge_page) madvise(address, capacity, MADV_HUGEPAGE);
    return address;
  }
  CurrentContext current(device_.context);
  RelaxedCapture relaxed;
  std::uint64_t address = 0;
  const int result = driver()->cuMemAlloc_v2(&address, capacity);
  if (result == driver_error_out_of_memory) return nullptr;
  check(result, "cuMemAlloc", [&] { return "of " + bytes_text(static_cast<std::int64_t>(capacity)); });
  return reinterpret_cast<void*>(address);
}

void MemoryPool::release_raw(const MemoryBlock& block) noexcept {
  if (device_.index < 0) {
    std::free(block.address);
    return;
  }
  try {
    CurrentContext current(device_.context);
    RelaxedCapture relaxed;
    driver()->cuMemFree_v2(reinterpret_cast<std::uint64_t>(block.address));
  } catch (const Error&) {  // the context is gone, and its memory with it
  }
}

void MemoryPool::keep(const MemoryBlock& block) noexcept {
  const bool full = device_.index < 0 && cached_ + block.capacity > host_cache_limit();
  if (full || !caches_memory()) return release_raw(block);
  free_.emplace_hint(free_.lower_bound(block.capacity), block.capacity, block.address);  // the last one kept is the first one used: it is warm
  cached_ += block.capacity;
}

void MemoryPool::release(const MemoryBlock& block, const std::vector<StreamState*>& others) noexcept {
  std::lock_guard lock(mutex_);
  in_use_ -= block.capacity;
  if (others.empty()) return keep(block);
  Resting resting{block, {}};
  for (StreamState* stream : others) resting.uses.push_back({stream, nullptr});
  resting_.push_back(static_cast<Resting&&>(resting));
  settle();
}

bool MemoryPool::is_settled(Use& use) noexcept {
  if (!use.event) {
    if (is_capturing(use.stream)) return false;
    if (driver()->cuEventCreate(&use.event, event_without_time) != driver_success) return false;
    driver()->cuEventRecord(use.event, use.stream->native);
  }
  if (driver()->cuEventQuery(use.event) == driver_error_not_ready) return false;
  driver()->cuEventDestroy_v2(use.event);
  runtime::release(use.stream);
  return true;
}

void MemoryPool::settle() noexcept {
  if (resting_.empty()) return;
  try {
    CurrentContext current(device_.context);
    RelaxedCapture relaxed;
    for (std::size_t i = 0; i < resting_.size();) {
      auto& uses = resting_[i].uses;
      while (!uses.empty() && is_settled(uses.back())) uses.pop_back();
      if (!uses.empty()) {
        ++i;
        continue;
      }
      keep(resting_[i].block);
      resting_[i] = static_cast<Resting&&>(resting_.back());
      resting_.pop_back();
    }
  } catch (const Error&) {  // no context: nothing will be reused
  }
}

void MemoryPool::trim_locked() noexcept {
  settle();
  for (const auto& [capacity, address] : free_) release_raw({address, capacity});
  free_.clear();
  cached_ = 0;
}

void MemoryPool::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

std::int64_t MemoryPool::in_use() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(in_use_);
}

std::int64_t MemoryPool::cached() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(cached_);
}

void* zeroed_memory(std::size_t bytes) {
  const Driver& functions = require_driver();
  struct OwnStream {   // of no capture
    void* native = nullptr;
    OwnStream() { check(driver()->cuStreamCreate(&native, 1 /* non-blocking */), "cuStreamCreate"); }
    ~OwnStream() { driver()->cuStreamDestroy_v2(native); }
  } stream;
  std::uint64_t address = 0;
  check(functions.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
  check(functions.cuMemsetD8Async(address, 0, bytes, stream.native), "cuMemsetD8Async");
  check(functions.cuStreamSynchronize(stream.native), "cuStreamSynchronize");
  return reinterpret_cast<void*>(address);
}

}  // namespace flextile::runtime
