// Other people's libraries on this machine, opened at run time: what ours is compared with. Nothing needs them.
#pragma once
#include <functional>

#include <flextile/runtime/stream.hpp>

namespace bench {

/// Host time of one cuLaunchKernel of an empty kernel with `arguments` pointer parameters, in microseconds. 0: no driver.
double bare_launch_microseconds(const flextile::Stream& stream, int arguments);

/// cuBLAS's bf16 matrix product of size^3 with f32 sums, queued on the device's default stream at each call; null where no libcublas
/// is found.
std::function<void()> cublas_matmul(const flextile::Device& device, int size);

}  // namespace bench
