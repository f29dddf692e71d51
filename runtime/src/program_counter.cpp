#include "program_counter.hpp"

#include <mutex>

#include <flextile/ir/error.hpp>

#include "driver.hpp"
#include "memory_pool.hpp"

namespace flextile::runtime {

void* program_counter(StreamState& stream) {
  static std::mutex mutex;
  constexpr std::size_t bytes = 256;
  Capture* capture = capture_of(&stream);
  if (!capture && is_capturing(&stream)) {   // somebody else's graph: its counter lives as long as the process
    RelaxedCapture relaxed;
    return zeroed_memory(bytes);
  }
  std::lock_guard lock(mutex);
  void*& counter = capture ? capture->counter : stream.counter;
  if (counter) return counter;
  RelaxedCapture relaxed;
  return counter = zeroed_memory(bytes);
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
