// Other people's libraries on this machine, opened at run time: what ours is compared with. Nothing needs them.
#pragma once
#include <flextile/runtime/stream.hpp>

namespace bench {

/// Host time of one cuLaunchKernel of an empty kernel with `arguments` pointer parameters, in microseconds. 0: no driver.
double bare_launch_microseconds(const flextile::Stream& stream, int arguments);

/// cuBLAS's bf16 matrix product of size^3 with f32 sums: median milliseconds. 0: no libcublas is found.
double cublas_matmul_ms(const flextile::Device& device, int size);

}  // namespace bench
