// Normal numbers in batches: straight loops without branches or library calls, so that the compiler vectorises them and
// every machine gives the same bits.
#pragma once
#include <cstdint>

namespace flextile::runtime {

inline constexpr int normal_batch_counters = 256;

/// The 4 * count normal numbers of the counters first, first + 1, ... of `key`'s Philox; count <= normal_batch_counters.
void normal_batch(std::uint64_t first, std::uint64_t key, int count, float* values);

}  // namespace flextile::runtime
