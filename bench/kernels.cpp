// Tile programs: matrix product, softmax, vector add.
#include "bench.hpp"

namespace bench {

using namespace flextile;

template <class T, int BM, int BN, int BK, int Stages, int Warps = 4>
inline const auto matmul = kernel("matmul", [](TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<T, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = Stages})) acc = dot(load<BM, BK>(a, m, k), load<BK, BN>(b, k, n), acc);
  store(c, cast<T>(acc), m, n);
}, {.num_warps = Warps});

/// Both operands have K along their rows: b is [columns, depth].
template <class T, class Sum, int BM, int BN, int Stages, int Warps>
inline const auto matmul_of_rows = kernel("matmul_of_rows", [](TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<Sum, 2> c) {
  constexpr int BK = 128 / static_cast<int>(sizeof(T));
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<Sum, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = Stages})) acc = dot(a.template load<BM, BK>(m, k), trans(b.template load<BN, BK>(n, k)), acc);
  c.store(acc, m, n);
}, {.num_warps = Warps});

inline const auto row_softmax = kernel("row_softmax", [](TensorView<const f32, 2> x, TensorView<f32, 2> y) {
  Scalar row = program_id(0);
  Tile v = x.load<1024>(row, 0, {.other = -infinity});
  Tile e = exp2((v - max(v)) * log2e);
  y.store(e / sum(e), row, 0);
});

inline const auto vector_add = kernel("vector_add", [](Pointer<const f32> x, Pointer<const f32> y, Pointer<f32> out, Scalar<i32> n) {
  Tile i = program_id(0) * 4096 + arange<4096>();
  Tile inside = i < n;
  store(out + i, load(x + i, inside) + load(y + i, inside), inside);
});

template <class T, class Kernel>
static void matmul_row(Run& run, const std::string& name, const Kernel& kernel, int size, int block_m, int block_n, double goal) {
  measure(run, name, 2.0 * size * size * size, 0, goal, [&] {
    Tensor<T> a = random_normal<T>(run.device, {size, size}), b = random_normal<T>(run.device, {size, size}), c = empty<T>(run.device, {size, size});
    return [=, &run, &kernel] { launch(run.device.stream(), kernel, Grid{ceil_div(size, block_m), ceil_div(size, block_n)}, a, b, c); };
  });
}

/// Of whole numbers, which every type holds.
template <class T, class Sum>
static void matmul_of_rows_row(Run& run, const char* type, int size) {
  measure(run, "gemm" + std::to_string(size) + "/" + type + "/flextile/128x256", 2.0 * size * size * size, 0, 0, [&] {
    Tensor<T> a = random_integers<T>(run.device, {size, size}, -2, 3), b = random_integers<T>(run.device, {size, size}, -2, 3);
    Tensor<Sum> c = empty<Sum>(run.device, {size, size});
    return [=, &run] { launch(run.device.stream(), matmul_of_rows<T, Sum, 128, 256, 4, 8>, Grid{ceil_div(size, 128), ceil_div(size, 256)}, a, b, c); };
  });
}

void kernels(Run& run) {
  const bool host = run.device.is_host();
  const std::string prefix = host ? "cpu/" : "";
  if (host) {
    const int size = run.quick ? 256 : 2048;
    const std::string name = "cpu/gemm" + std::to_string(size) + "/f32/flextile";
    matmul_row<f32>(run, name, matmul<f32, 128, 128, 128, 1>, size, 128, 128, 0.60);
  } else {
    const int size = run.quick ? 512 : 8192;
    const std::string name = "gemm" + std::to_string(size) + "/flextile/";
    matmul_row<bf16>(run, name + "128x128x64", matmul<bf16, 128, 128, 64, 3>, size, 128, 128, 0);
    matmul_row<bf16>(run, name + "128x256x64", matmul<bf16, 128, 256, 64, 4, 8>, size, 128, 256, 0);
    matmul_row<bf16>(run, name + "192x192x64", matmul<bf16, 192, 192, 64, 4, 12>, size, 192, 192, 0);
    matmul_row<bf16>(run, name + "256x192x64", matmul<bf16, 256, 192, 64, 4, 8>, size, 256, 192, 0);
    matmul_row<bf16>(run, name + "256x128x64", matmul<bf16, 256, 128, 64, 4, 8>, size, 256, 128, 0);
    matmul_of_rows_row<f32, f32>(run, "tf32", size);
    matmul_of_rows_row<i8, i32>(run, "i8", size);
    matmul_of_rows_row<f8e4m3, f32>(run, "f8e4m3", size);
    matmul_of_rows_row<f8e5m2, f32>(run, "f8e5m2", size);
  }

  const int rows = run.quick ? 64 : host ? 32768 : 262144, columns = 1000;
  measure(run, prefix + "softmax/f32/rows of 1000/flextile", 0, 2.0 * rows * columns * sizeof(f32), 0.60, [&] {
    Tensor<f32> x = random_normal<f32>(run.device, {rows, columns}), y = empty_like(x);
    return [=, &run] { launch(run.device.stream(), row_softmax, Grid{rows}, x, y); };
  });
  const int n = run.quick ? 100'000 : host ? 64 << 20 : 256 << 20;
  measure(run, prefix + "vector_add/f32/flextile", 0, 3.0 * n * sizeof(f32), 0.60, [&] {
    Tensor<f32> x = full<f32>(run.device, {n}, 1), y = full<f32>(run.device, {n}, 2), out = empty_like(x);
    return [=, &run] { launch(run.device.stream(), vector_add, Grid{ceil_div(n, 4096)}, x, y, out, n); };
  });
}

}  // namespace bench
