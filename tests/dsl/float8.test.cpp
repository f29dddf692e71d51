// Kernels of 8-bit floats with types that the C++ compiler knows.
#include "check_kernel.hpp"
#include "check_mod.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

template <class T, int BM, int BN, int BK>
const auto product = kernel("product", [](TensorView<const T, 2> a, TensorView<const T, 2> b, TensorView<T, 2> c, Scalar<f32> scale) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 4})) acc = dot(a.template load<BM, BK>(m, k), trans(b.template load<BN, BK>(n, k)), acc);
  c.store(cast<T>(acc * scale), m, n);
});

template <class T> void check_product() {
  const int m = 20, n = 24, k = 40;
  std::vector<T> a(m * k), b(n * k), c(m * n);
  for (int i = 0; i < m * k; ++i) a[static_cast<std::size_t>(i)] = static_cast<float>(i % 13 - 6) / 4;
  for (int i = 0; i < n * k; ++i) b[static_cast<std::size_t>(i)] = static_cast<float>(i % 11 - 5) / 2;
  run(product<T, 16, 16, 32>.trace(), {view_of(a, {m, k}), view_of(b, {n, k}), view_of(c, {m, n}), number(1)}, 2, 2);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p) sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) * b[static_cast<std::size_t>(j * k + p)];
      CHECK(c[static_cast<std::size_t>(i * n + j)].bits == T(static_cast<float>(sum)).bits);
    }
  }
}

}  // namespace

TEST_CASE("8-bit floats: a product with f32 sums, stored in eight bits") {
  check_product<f8e4m3>();
  check_product<f8e5m2>();
}

TEST_CASE("8-bit floats: through pointers, with numbers of C++, mixed with wider types") {
  std::vector<f8e4m3> x(8);
  std::vector<f32> y(8, -1);
  for (int i = 0; i < 8; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i);
  run(kernel("mixed", [](Pointer<const f8e4m3> x, Pointer<f32> y) {
        Tile i = arange<8>();
        Tile narrow = load(x + i, i < 6, full<f8e4m3, 8>(500.0f));
        store(y + i, narrow + full<f32, 8>(0.25f));
      }).trace(), {pointer_to(x), pointer_to(y)});
  for (int i = 0; i < 8; ++i) CHECK(y[static_cast<std::size_t>(i)] == (i < 6 ? static_cast<float>(i) : 448.0f) + 0.25f);
}

TEST_CASE("8-bit floats: captured by a mod they are f32") {
  const HostTensor bias = vector_of<f8e4m3>({0.5f, 2.0f, -3.0f, 448.0f});
  const HostTensor slope = vector_of<f8e5m2>({1.5f, -0.25f});
  check_score("bias", [bias, slope](auto score, auto, auto, auto q, auto kv) { return score * slope[kv] + bias[q]; }, {.queries = 4, .keys = 2},
              [&](double score, int, int, int q, int kv) { return score * static_cast<double>(slope.at(kv)) + static_cast<double>(bias.at(q)); });
}

TEST_CASE("8-bit floats: what only the trace sees has the same sentence") {
  const std::string sentence = "f8e4m3 and f8e5m2 are for memory, casts and dot; cast it to f16 or f32 to compute";
  auto refused = [&](auto body) { return contains(trace_error([&](Parameters& p) { body(load(p.view("x", ElementType::f8e5m2, 2), {0, 0}, {4, 8})); }), sentence); };
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = x + x; }));
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = x * 2; }));
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = -x; }));
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = exp2(x); }));
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = x < x; }));
  CHECK(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = max(x, 1); }));
  CHECK_FALSE(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = cast<f32>(x) + 1.0f; }));
  CHECK_FALSE(refused([]([[maybe_unused]] AnyTile x) { [[maybe_unused]] AnyTile y = dot(x, trans(x)); }));
}
