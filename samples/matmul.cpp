// c = a . b, a program per tile of c. Tile sizes are compile-time and need not be powers of two; the loop says how many
// tiles may be in flight, and the compiler inserts the copies, barriers and matrix instructions that the target has.
#include "sample.hpp"
#include <cmath>
using namespace flextile;

template <int BM, int BN, int BK, int Warps>
inline const auto matmul = kernel("matmul", [](TensorView<const bf16, 2> a, TensorView<const bf16, 2> b, TensorView<bf16, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();                      // the only mutable thing
  for (auto k : range(0, a.size(1), BK, {.stages = 4}))
    acc = dot(a.load<BM, BK>(m, k), b.load<BK, BN>(k, n), acc);
  c.store(cast<bf16>(acc), m, n);
}, {.num_warps = Warps});

// Element (row, column) of the product in float64.
static double reference(const std::vector<bf16>& a, const std::vector<bf16>& b, int n, int depth, int row, int column) {
  double total = 0;
  for (int k = 0; k < depth; ++k) total += double(float(a[std::size_t(row) * depth + k])) * float(b[std::size_t(k) * n + column]);
  return total;
}

int main() {
  const Device device = Device::best();
  const int m = device.is_host() ? 1000 : 4096, n = m + 40, depth = m - 24;
  Tensor a = random_normal<bf16>(device, {m, depth});
  Tensor b = random_normal<bf16>(device, {depth, n});
  Tensor c = empty<bf16>(device, {m, n});
  bool right = true;
  auto run = [&](const char* tiles, const auto& kernel, int block_m, int block_n) {
    c.fill(0.0f);
    const double ms = sample::milliseconds(device, [&] { launch(device.stream(), kernel, Grid{ceil_div(m, block_m), ceil_div(n, block_n)}, a, b, c); });
    std::printf("matmul %s on %s: %dx%dx%d, %.3f ms, %.1f GFLOP/s\n", tiles, device.name().c_str(), m, n, depth, ms, 2.0 * m * n * depth / ms / 1e6);
    const auto left = a.to_host(), upper = b.to_host(), result = c.to_host();
    for (int i = 0; i < 4000; ++i) {                   // a sample of elements, the corners among them
      const int row = i < 2 ? i * (m - 1) : i * 7919 % m, column = i < 4 ? i % 2 * (n - 1) : i * 104729LL % n;
      const double expected = reference(left, upper, n, depth, row, column);
      right = right && std::fabs(float(result[std::size_t(row) * n + column]) - expected) <= 0.01 * std::fabs(expected) + 0.05;
    }
  };
  run("192x192x64", matmul<192, 192, 64, 12>, 192, 192);
  run("64x96x32", matmul<64, 96, 32, 4>, 64, 96);
  return sample::finish("matmul", right, "4,000 elements against float64 loops");
}
