#include <flextile/runtime/random.hpp>

#include <atomic>
#include <cmath>
#include <cstring>

#include "normal_batch.hpp"
#include "philox.hpp"
#include "thread_pool.hpp"

namespace flextile {
namespace {

using runtime::philox;
using runtime::PhiloxBlock;

constexpr double two_pi = 6.283185307179586;

std::uint64_t resolve_seed(std::uint64_t seed) {
  static std::atomic<std::uint64_t> made{0};
  return seed == next_seed ? (std::uint64_t{1} << 63) + made.fetch_add(1) : seed;
}

/// Two independent normal numbers from two uniform ones (Box and Muller, 1958); 1 - u is never 0.
void normal_pair(double u, double v, double& a, double& b) {
  const double radius = std::sqrt(-2 * std::log(1 - u)), angle = two_pi * v;
  a = radius * std::cos(angle), b = radius * std::sin(angle);
}

struct NormalNumbers {
  std::uint64_t seed;
  void make(std::uint64_t counter, double (&values)[4]) const {
    for (int half = 0; half < 2; ++half) {
      const PhiloxBlock bits = philox(counter * 2 + half, seed);
      normal_pair(runtime::uniform(bits.word[0], bits.word[1]), runtime::uniform(bits.word[2], bits.word[3]), values[2 * half],
                  values[2 * half + 1]);
    }
  }
};

struct UniformNumbers {
  std::uint64_t seed;
  double lo, hi;
  void make(std::uint64_t counter, float (&values)[4]) const {
    const PhiloxBlock bits = philox(counter, seed);
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(lo + (hi - lo) * static_cast<double>(runtime::uniform(bits.word[i])));
  }
  void make(std::uint64_t counter, double (&values)[4]) const {
    for (int half = 0; half < 2; ++half) {
      const PhiloxBlock bits = philox(counter * 2 + half, seed);
      for (int i = 0; i < 2; ++i) values[2 * half + i] = lo + (hi - lo) * runtime::uniform(bits.word[2 * i], bits.word[2 * i + 1]);
    }
  }
};

/// From 64 bits by multiplication: the bias is below range / 2^64.
struct IntegerNumbers {
  std::uint64_t seed;
  std::int64_t lo;
  std::uint64_t range;
  void make(std::uint64_t counter, std::int64_t (&values)[4]) const {
    for (int half = 0; half < 2; ++half) {
      const PhiloxBlock bits = philox(counter * 2 + half, seed);
      for (int i = 0; i < 2; ++i) {
        const std::uint64_t word = static_cast<std::uint64_t>(bits.word[2 * i]) << 32 | bits.word[2 * i + 1];
        values[2 * half + i] = lo + static_cast<std::int64_t>(static_cast<unsigned __int128>(word) * range >> 64);
      }
    }
  }
};

/// The numbers of `count` counters from `first`.
template <class Source, class Number>
void make_batch(const Source& source, std::uint64_t first, int count, Number* values) {
  for (int i = 0; i < count; ++i) {
    Number four[4];
    source.make(first + static_cast<std::uint64_t>(i), four);
    std::memcpy(values + 4 * i, four, sizeof four);
  }
}
void make_batch(const NormalNumbers& source, std::uint64_t first, int count, float* values) {
  runtime::normal_batch(first, source.seed, count, values);
}

template <class T, class Number>
T converted(Number number) {
  return static_cast<T>(number);
}
/// Inline and without the case of NaN, which is never drawn.
template <>
bf16 converted<bf16, float>(float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, 4);
  bf16 result;
  result.bits = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  return result;
}

/// Element i of the row-major tensor is number i % 4 of counter i / 4, whatever the threads.
template <class T, class Number, class Source>
void generate(T* values, std::int64_t count, const Source& source) {
  constexpr int counters = runtime::normal_batch_counters;
  constexpr std::int64_t batch = 4 * counters;
  runtime::parallel_for((count + batch - 1) / batch, 16, [&](std::int64_t begin, std::int64_t end) {
    Number numbers[batch];
    for (std::int64_t i = begin * batch; i < end * batch && i < count; i += batch) {
      const std::int64_t length = count - i < batch ? count - i : batch;
      make_batch(source, static_cast<std::uint64_t>(i / 4), static_cast<int>((length + 3) / 4), numbers);
      for (std::int64_t j = 0; j < length; ++j) values[i + j] = converted<T>(numbers[j]);
    }
  });
}

[[noreturn]] void refuse_type(const char* function, ElementType element, const char* allowed) {
  throw ArgumentError("flextile: " + std::string(function) + ": the element type is " + std::string(name(element)) + " and must be " + allowed);
}

template <class Source>
TensorRef random_floats(const char* function, ElementType element, const Device& device, const TensorShape& shape, const Source& source) {
  if (!is_float(element)) refuse_type(function, element, "a float type");
  const TensorRef host = empty(element, Device::host(), shape);
  const std::int64_t count = host.elements();
  if (element == ElementType::f64) generate<f64, double>(static_cast<f64*>(host.data()), count, source);
  if (element == ElementType::f32) generate<f32, float>(static_cast<f32*>(host.data()), count, source);
  if (element == ElementType::f8e4m3) generate<f8e4m3, float>(static_cast<f8e4m3*>(host.data()), count, source);
  if (element == ElementType::f8e5m2) generate<f8e5m2, float>(static_cast<f8e5m2*>(host.data()), count, source);
  if (element == ElementType::f16) generate<f16, float>(static_cast<f16*>(host.data()), count, source);
  if (element == ElementType::bf16) generate<bf16, float>(static_cast<bf16*>(host.data()), count, source);
  return host.to(device);
}

}  // namespace

TensorRef random_normal(ElementType element, const Device& device, const TensorShape& shape, std::uint64_t seed) {
  return random_floats("random_normal", element, device, shape, NormalNumbers{resolve_seed(seed)});
}

TensorRef random_uniform(ElementType element, const Device& device, const TensorShape& shape, double lo, double hi, std::uint64_t seed) {
  if (!(lo <= hi) || std::isinf(hi - lo))
    throw ArgumentError("flextile: random_uniform: the range is " + std::to_string(lo) + " to " + std::to_string(hi) +
                        " and must be finite with lo <= hi");
  return random_floats("random_uniform", element, device, shape, UniformNumbers{resolve_seed(seed), lo, hi});
}

TensorRef random_integers(ElementType element, const Device& device, const TensorShape& shape, std::int64_t lo, std::int64_t hi, std::uint64_t seed) {
  if (lo >= hi)
    throw ArgumentError("flextile: random_integers: the range is " + std::to_string(lo) + " <= x < " + std::to_string(hi) + " and must hold a number");
  const TensorRef host = empty(element, Device::host(), shape);
  const std::int64_t count = host.elements();
  const IntegerNumbers source{resolve_seed(seed), lo, static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo)};
  switch (element) {
#define GENERATE(type)                                                            \
  case ElementType::type:                                                         \
    generate<type, std::int64_t>(static_cast<type*>(host.data()), count, source); \
    break;
    GENERATE(i1) GENERATE(i8) GENERATE(i16) GENERATE(i32) GENERATE(i64) GENERATE(u8) GENERATE(u16) GENERATE(u32) GENERATE(u64)
    GENERATE(f8e4m3) GENERATE(f8e5m2) GENERATE(f16) GENERATE(bf16) GENERATE(f32) GENERATE(f64)
#undef GENERATE
  }
  return host.to(device);
}

Tensor<i32> document_ids(const Device& device, std::int64_t length, std::uint64_t seed, double mean_length) {
  if (!(mean_length >= 1))
    throw ArgumentError("flextile: document_ids: mean_length is " + std::to_string(mean_length) + " and must be at least 1");
  const Tensor<i32> host = empty<i32>(Device::host(), {length});
  i32 document = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    if (i > 0 && runtime::uniform(philox(static_cast<std::uint64_t>(i), seed).word[0]) < 1 / mean_length) ++document;
    host.data()[i] = document;
  }
  return host.to(device);
}

}  // namespace flextile
