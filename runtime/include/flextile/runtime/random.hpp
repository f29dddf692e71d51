// Tensors of random numbers, the same on every device and for every number of threads: a counter-based generator
// (Philox 4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11) on the host, then an upload.
#pragma once
#include <flextile/runtime/tensor.hpp>

namespace flextile {

/// The default seed: the n-th tensor that a program makes without a seed gets the n-th one, so that a program repeats
/// itself and two tensors differ.
inline constexpr std::uint64_t next_seed = ~std::uint64_t{0};

TensorRef random_normal(ElementType element, const Device& device, const TensorShape& shape, std::uint64_t seed = next_seed);
TensorRef random_uniform(ElementType element, const Device& device, const TensorShape& shape, double lo, double hi, std::uint64_t seed = next_seed);
TensorRef random_integers(ElementType element, const Device& device, const TensorShape& shape, std::int64_t lo, std::int64_t hi,
                          std::uint64_t seed = next_seed);

/// Mean 0, standard deviation 1; any float type.
template <Element T>
Tensor<T> random_normal(const Device& device, const TensorShape& shape, std::uint64_t seed = next_seed) {
  return Tensor<T>(random_normal(element_type_of<T>, device, shape, seed));
}

/// lo <= x < hi (x = hi can come from rounding to a narrow type); float types.
template <Element T>
Tensor<T> random_uniform(const Device& device, const TensorShape& shape, double lo = 0, double hi = 1, std::uint64_t seed = next_seed) {
  return Tensor<T>(random_uniform(element_type_of<T>, device, shape, lo, hi, seed));
}

/// lo <= x < hi; integer types, bool, and floats that hold the numbers exactly.
template <Element T>
Tensor<T> random_integers(const Device& device, const TensorShape& shape, std::int64_t lo, std::int64_t hi, std::uint64_t seed = next_seed) {
  return Tensor<T>(random_integers(element_type_of<T>, device, shape, lo, hi, seed));
}

/// Packed documents for examples and measurements: the document of each of `length` positions. A new document starts
/// at each position with probability 1 / mean_length.
Tensor<i32> document_ids(const Device& device, std::int64_t length, std::uint64_t seed = 1, double mean_length = 600);

}  // namespace flextile
