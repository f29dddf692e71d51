#include "normal_batch.hpp"

#include <cmath>
#include <cstring>

#include "philox.hpp"

namespace flextile::runtime {
namespace {

inline float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline std::uint32_t to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

/// ln x for 2^-24 <= x <= 1. x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1), by its series.
inline float natural_logarithm(float x) {
  constexpr std::uint32_t root_half = 0x3f3504f3;
  const std::uint32_t shifted = to_bits(x) - root_half;
  const float exponent = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = from_bits((shifted & 0x007fffff) + root_half);
  const float s = (m - 1) / (m + 1), q = s * s;
  const float series = 1 + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9))));
  return exponent * 0.693147180559945f + 2 * s * series;
}

/// sin and cos of 2 pi turn, 0 <= turn < 1: the nearest quarter turn is taken off, and Taylor's series do for the rest.
inline void sine_and_cosine(float turn, float& sine, float& cosine) {
  const std::int32_t quarter = static_cast<std::int32_t>(turn * 4 + 0.5f);
  const float a = (turn - static_cast<float>(quarter) * 0.25f) * 6.283185307179586f, q = a * a;
  const float s = a * (1 - q * (1.0f / 6 - q * (1.0f / 120 - q * (1.0f / 5040 - q * (1.0f / 362880)))));
  const float c = 1 - q * (1.0f / 2 - q * (1.0f / 24 - q * (1.0f / 720 - q * (1.0f / 40320))));
  const bool swapped = quarter & 1;
  const std::uint32_t sine_sign = static_cast<std::uint32_t>(quarter & 2) << 30, cosine_sign = static_cast<std::uint32_t>((quarter + 1) & 2) << 30;
  sine = from_bits(to_bits(swapped ? c : s) ^ sine_sign);
  cosine = from_bits(to_bits(swapped ? s : c) ^ cosine_sign);
}

}  // namespace

void normal_batch(std::uint64_t first, std::uint64_t key, int count, float* values) {
  std::uint32_t words[4][normal_batch_counters];
  float squares[2][normal_batch_counters], sines[2][normal_batch_counters], cosines[2][normal_batch_counters];
  for (int i = 0; i < count; ++i) {
    const PhiloxBlock block = philox(first + static_cast<std::uint64_t>(i), key);
    for (int word = 0; word < 4; ++word) words[word][i] = block.word[word];
  }
  for (int pair = 0; pair < 2; ++pair) {
    for (int i = 0; i < count; ++i) {
      squares[pair][i] = -2 * natural_logarithm(1 - uniform(words[2 * pair][i]));
      sine_and_cosine(uniform(words[2 * pair + 1][i]), sines[pair][i], cosines[pair][i]);
    }
    for (int i = 0; i < count; ++i) squares[pair][i] = std::sqrt(squares[pair][i]);
  }
  for (int i = 0; i < count; ++i)
    for (int pair = 0; pair < 2; ++pair) {
      values[4 * i + 2 * pair] = squares[pair][i] * cosines[pair][i];
      values[4 * i + 2 * pair + 1] = squares[pair][i] * sines[pair][i];
    }
}

}  // namespace flextile::runtime
