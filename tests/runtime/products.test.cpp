// Matrix products of every type that tensor cores take, at real tile sizes, on every device: against sums in f64.
#include <cmath>
#include <random>
#include <type_traits>

#include <flextile/dsl/dsl.hpp>

#include "kernels.hpp"

using namespace flextile;

namespace {

/// c = a . b^T; b is [columns, depth], so that both operands have K along their rows.
template <class T, class Sum, int BM, int BN, int BK>
const auto product_of_rows = kernel("product_of_rows", [](TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<Sum, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<Sum, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 4})) acc = dot(a.template load<BM, BK>(m, k), trans(b.template load<BN, BK>(n, k)), acc);
  c.store(acc, m, n);
}, {.num_warps = 8});

template <class T> double as_number(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return static_cast<double>(static_cast<float>(x));
}

/// `tolerance`: of the sum of the products' sizes.
template <class T, class Sum> void check_product(const Device& device, double tolerance) {
  constexpr int BM = 128, BN = 256, BK = 128 / static_cast<int>(sizeof(T));
  const std::int64_t rows = 300, columns = 520, depth = 5 * BK - 16 / static_cast<int>(sizeof(T)) * 2;   // ragged in every direction
  CAPTURE(name(element_type_of<T>));
  CAPTURE(device.is_host() ? std::string("host") : device.properties().name);
  std::mt19937 random(5);
  const auto fill = [&](std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) {
      if constexpr (std::is_integral_v<T>) value = static_cast<T>(random());
      else value = T(std::uniform_real_distribution<float>(-1, 2)(random));
    }
    return values;
  };
  const std::vector<T> a = fill(rows * depth), b = fill(columns * depth);
  const Tensor<T> left = from_host(device, a, {rows, depth}), right = from_host(device, b, {columns, depth});
  const Tensor<Sum> result = empty<Sum>(device, {rows, columns});
  launch(device.stream(), product_of_rows<T, Sum, BM, BN, BK>, Grid{ceil_div(rows, std::int64_t{BM}), ceil_div(columns, std::int64_t{BN})}, left, right, result);
  const std::vector<Sum> c = result.to_host();
  double worst = 0, mean = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double term = as_number(a[static_cast<std::size_t>(i * depth + k)]) * as_number(b[static_cast<std::size_t>(j * depth + k)]);
        sum += term, size += std::fabs(term);
      }
      const double error = (as_number(c[static_cast<std::size_t>(i * columns + j)]) - sum) / size;
      worst = std::max(worst, std::isnan(error) ? INFINITY : std::fabs(error));
      mean += error / static_cast<double>(rows * columns);
    }
  }
  MESSAGE(std::string(name(element_type_of<T>)) << " on " << (device.is_host() ? "the host" : device.properties().name) << ": at most " << worst << ", mean " << mean);
  CHECK(worst <= tolerance);
  if (std::is_same_v<T, f32>) CHECK(std::fabs(mean) <= 0x1p-14);   // operands that are cut instead of rounded: about -2^-12
}

}  // namespace

TEST_CASE("matrix products of tf32, integers and 8-bit floats on every device") {
  for (const Device& device : test::devices_that_run()) {
    check_product<f32, f32>(device, 0x1p-10);             // rounded to 10 bits
    check_product<i8, i32>(device, 0);
    check_product<u8, i32>(device, 0);
    check_product<f8e4m3, f32>(device, 0x1p-10);          // Hopper's sums keep fewer bits than f32 within an instruction
    check_product<f8e5m2, f32>(device, 0x1p-10);
    check_product<bf16, f32>(device, 0x1p-18);
    check_product<f16, f32>(device, 0x1p-18);
  }
}

TEST_CASE("8-bit floats in tensors: filled, copied, random, transposed") {
  for (const Device& device : test::devices_that_run()) {
    Tensor<f8e4m3> x = full<f8e4m3>(device, {4, 6}, 500.0f);
    for (f8e4m3 value : x.to_host()) CHECK(static_cast<float>(value) == 448.0f);
    std::vector<f8e5m2> values(24);
    for (int i = 0; i < 24; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    const Tensor<f8e5m2> y = from_host(device, values, {4, 6});
    const std::vector<f8e5m2> turned = y.transpose(0, 1).to_host();
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 4; ++j) CHECK(turned[static_cast<std::size_t>(i * 4 + j)].bits == values[static_cast<std::size_t>(j * 6 + i)].bits);
    double sum = 0;
    for (f8e4m3 value : random_normal<f8e4m3>(device, {4096}, 3).to_host()) sum += static_cast<double>(value);
    CHECK(std::fabs(sum / 4096) < 0.1);
  }
}
