// Indices that i32 cannot hold are outside of every view; they never wrap to an element inside.
#include <flextile/flextile.hpp>

#include "check_kernel.hpp"
#include "support/run_ptx.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

constexpr std::int64_t past = std::int64_t{1} << 32;

/// y[0..4) = x[at..at + 4), y[4..8) from a literal's place, and x[at] again where y is written past its end.
template <class T, std::int64_t Literal>
const auto copy_at = kernel("copy_at", [](TensorView<const f32, 1> x, TensorView<f32, 1> y, Scalar<T> at) {
  y.store(x.load<4>(at, {.other = -1}), 0);
  y.store(x.load<4>(Literal, {.other = -2}), 4);
  y.store(full<f32, 4>(7), at);
});

template <class T, std::int64_t Literal>
std::vector<f32> interpreted(std::int64_t at) {
  std::vector<f32> x = {1, 2, 3, 4}, y(8);
  run(copy_at<T, Literal>.trace(), {view_of(x, {4}), view_of(y, {8}), number(at)});
  return y;
}

template <class T, std::int64_t Literal>
std::vector<f32> from_ptx(T at) {
  std::vector<f32> x = {1, 2, 3, 4}, y(8);
  void *x_base = x.data(), *y_base = y.data();
  std::int32_t x_size = 4, y_size = 8;
  std::int64_t stride = 1;
  void* arguments[] = {&x_base, &x_size, &stride, &y_base, &y_size, &stride, &at};
  run_ptx(compile(copy_at<T, Literal>.trace(), Target::sm_80()), arguments, {{0, 0, 0}, {1, 1, 1}}, {{x.data(), 16}, {y.data(), 32}});
  return y;
}

const std::vector<f32> outside = {-1, -1, -1, -1, -2, -2, -2, -2};

}  // namespace

TEST_CASE("a wide offset that i32 cannot hold loads what is outside, and stores nothing") {
  CHECK(interpreted<i64, past>(past) == outside);
  CHECK(interpreted<i64, -past>(-past) == outside);
  CHECK(interpreted<i64, past + 1>(past + 1) == outside);
  CHECK(interpreted<u64, past>(past) == outside);
  CHECK(interpreted<u32, 0xffffffff>(0xffffffff) == outside);
  CHECK(interpreted<i64, 2>(1) == std::vector<f32>{2, 7, 7, 7, 7, 4, -2, -2});
  CHECK(interpreted<i64, -2>(-1) == std::vector<f32>{7, 7, 7, 3, -2, -2, 1, 2});
}

TEST_CASE("the same in PTX") {
  CHECK(from_ptx<i64, past>(past) == outside);
  CHECK(from_ptx<i64, -past>(-past) == outside);
  CHECK(from_ptx<u64, past>(past + 1) == outside);
  CHECK(from_ptx<u32, past>(0xffffffff) == outside);
  CHECK(from_ptx<i64, 2>(1) == std::vector<f32>{2, 7, 7, 7, 7, 4, -2, -2});
}

TEST_CASE("gathered elements and captured tensors at wide indices") {
  auto picked = kernel("picked", [](TensorView<const f32, 1> x, Pointer<f32> y, Scalar<i64> step) {
    store(y + arange<4>(), gather(x, cast<i64>(arange<4>()) * step));
  });
  Device device = Device::host();
  Tensor x = from_host<f32>(device, {1, 2, 3, 4}), y = zeros<f32>(device, {4});
  launch(device.stream(), picked, 1, x, y, past);
  CHECK(y.to_host() == std::vector<f32>{1, 0, 0, 0});
  launch(device.stream(), picked, Grid{1}, x, y, 1);
  CHECK(y.to_host() == std::vector<f32>{1, 2, 3, 4});
  auto far = [x](auto score, auto, auto, auto q, auto) { return score + x[cast<i64>(q) * past]; };
  CHECK(evaluate_score(far, 1.0f, 0, 0, 0, 0) == 2);
  CHECK_THROWS_AS(evaluate_score(far, 1.0f, 0, 0, 1, 0), ArgumentError);
}

TEST_CASE("loop bounds that do not fit are refused, or cut to what fits") {
  CHECK(contains(trace_error([](Parameters&) {
                   for ([[maybe_unused]] auto i : range(0, past)) {}
                 }),
                 "[for] the bound or step 4294967296 does not fit i32"));
  ir::Function function = kernel("bounds", [](Pointer<i32> out, Scalar<i64> from) {
                            Var count = 0;
                            for ([[maybe_unused]] auto i : range(from, 3)) count += 1;
                            store(out, count);
                          }).trace();
  std::vector<i32> out = {5};
  run(function, {pointer_to(out), number(past)});
  CHECK(out[0] == 0);
}
