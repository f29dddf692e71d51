// Philox 4x32-10: 128 random bits for every (counter, key), so that element i needs no element before it.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once
#include <cstdint>

namespace flextile::runtime {

struct PhiloxBlock {
  std::uint32_t word[4];
};

inline PhiloxBlock philox(std::uint64_t counter, std::uint64_t key) {
  constexpr std::uint64_t multiplier_a = 0xD2511F53u, multiplier_b = 0xCD9E8D57u;
  constexpr std::uint32_t weyl_a = 0x9E3779B9u, weyl_b = 0xBB67AE85u;
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = multiplier_a * c0, b = multiplier_b * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
    k0 += weyl_a, k1 += weyl_b;
  }
  return {{c0, c1, c2, c3}};
}

/// 0 <= x < 1, a multiple of 2^-24.
inline float uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
/// 0 <= x < 1, a multiple of 2^-53.
inline double uniform(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((static_cast<std::uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace flextile::runtime
