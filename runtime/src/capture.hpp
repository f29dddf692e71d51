// The capture that the calling thread is inside, if any.
#pragma once
#include <functional>
#include <vector>

#include <flextile/ir/tensor_handle.hpp>

#include "device_state.hpp"

namespace flextile::runtime {

struct Capture {
  StreamState* stream;
  std::vector<ir::TensorHandle> tensors;            // kept alive by the graph
  std::vector<std::function<void()>> host_work;     // in order; only on the host
  void* counter = nullptr;                          // see program_counter.hpp
};

/// The thread's capture if it records `stream`, else null.
Capture* capture_of(const StreamState* stream);
void set_capture(Capture* capture);
bool thread_captures();

/// Does `work` now, or records it where the host's default stream is being captured.
void do_on_host(std::function<void()> work);

}  // namespace flextile::runtime
