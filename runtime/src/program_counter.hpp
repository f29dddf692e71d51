// The counters by which the programs of a launch share out a grid: each is 0 before a launch and after it. Launches on one stream
// come one after the other and use one counter; a graph has its own, for it may run beside whatever else its stream does.
#pragma once
#include "capture.hpp"

namespace flextile::runtime {

/// A device pointer to a u32. The caller has the device's context.
void* program_counter(StreamState& stream);
/// Frees a counter; null is none.
void free_program_counter(DeviceState& device, void* counter) noexcept;

}  // namespace flextile::runtime
