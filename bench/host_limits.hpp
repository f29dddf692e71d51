// What this machine's cores and memory can do, measured now. All threads of the host device take part.
#pragma once

namespace bench {

/// f32 multiply-adds that depend on nothing but registers, counted as two operations each: TFLOP/s of all threads.
double host_multiply_add_peak(int threads);
/// memcpy between arrays far larger than the caches: GB/s, read and written.
double host_copy_bandwidth(int threads);

}  // namespace bench
