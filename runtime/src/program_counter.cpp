#include "program_counter.hpp"

#include <mutex>

#include <flextile/ir/error.hpp>

#include "driver.hpp"
#include "memory_pool.hpp"

namespace flextile::runtime {
namespace {

constexpr std::size_t bytes = 256;

void* new_counter() {
  RelaxedCapture relaxed;
  return zeroed_memory(bytes);
}

void* counter_of_stream(StreamState& stream) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  void* counter = stream.counter.load(std::memory_order_relaxed);
  if (!counter) stream.counter.store(counter = new_counter(), std::memory_order_release);
  return counter;
}

}  // namespace

void* program_counter(StreamState& stream) {
  if (Capture* capture = capture_of(&stream)) {   // the thread's own
    if (!capture->counter) capture->counter = new_counter();
    return capture->counter;
  }
  int capturing = 0;
  if (stream.native) driver()->cuStreamIsCapturing(stream.native, &capturing);
  if (capturing != 0) return new_counter();   // somebody else's graph: its counter lives as long as the process
  void* counter = stream.counter.load(std::memory_order_acquire);
  return counter ? counter : counter_of_stream(stream);
}

void free_program_counter(DeviceState& device, void* counter) noexcept {
  if (!counter) return;
  try {
    CurrentContext current(device.context);
    driver()->cuMemFree_v2(reinterpret_cast<std::uint64_t>(counter));   // waits for what still runs
  } catch (const Error&) {  // the context is gone, and its memory with it
  }
}

}  // namespace flextile::runtime
