// Matrix products on the host: sizes that no register block divides, transposed operands, every element type, accumulators
// updated in place through loops.
#include "host_run.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

struct Case {
  int m, n, k;
  bool left_transposed = false, right_transposed = false;
};

ir::Function dot_kernel(const Case& c, ElementType element, ElementType sum, bool start_from_zero) {
  ir::Function function("dot", {{.name = "a", .type = Type::view(element, 2)},
                                {.name = "b", .type = Type::view(element, 2)},
                                {.name = "c", .type = Type::view(sum, 2)}});
  ir::Builder b(function);
  const Value zero = b.constant(ElementType::i32, std::int64_t{0});
  const auto load = [&](int i, int rows, int columns, bool transposed) {
    if (!transposed) return b.view_load(function.parameter(static_cast<std::size_t>(i)), {zero, zero}, {rows, columns});
    return b.transpose(b.view_load(function.parameter(static_cast<std::size_t>(i)), {zero, zero}, {columns, rows}));
  };
  const Value left = load(0, c.m, c.k, c.left_transposed), right = load(1, c.k, c.n, c.right_transposed);
  Value accumulator;
  if (!start_from_zero) accumulator = b.view_load(function.parameter(2), {zero, zero}, {c.m, c.n});
  else if (is_float(sum)) accumulator = b.splat(Type::tile(sum, {c.m, c.n}), 0.0);
  else accumulator = b.splat(Type::tile(sum, {c.m, c.n}), std::int64_t{0});
  b.view_store(function.parameter(2), b.dot(left, right, accumulator, "ieee"), {zero, zero});
  b.return_values();
  return function;
}

template <class T, class Sum> void check_dot(const Case& c, bool start_from_zero, double tolerance) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(c.left_transposed);
  CAPTURE(c.right_transposed);
  const auto numbers = [](int count, unsigned seed) {
    std::vector<T> values;
    for (float value : test::random_floats(static_cast<std::size_t>(count), seed)) {
      if constexpr (std::is_integral_v<T>) values.push_back(static_cast<T>(static_cast<int>(value * 60)));   // u8 wraps
      else values.push_back(static_cast<T>(value));
    }
    return values;
  };
  const std::vector<T> left = numbers(c.m * c.k, 1), right = numbers(c.k * c.n, 2);
  std::vector<Sum> got(static_cast<std::size_t>(c.m * c.n), Sum(3)), expected = got;
  for (int i = 0; i < c.m; ++i) {
    for (int j = 0; j < c.n; ++j) {
      double sum = start_from_zero ? 0 : 3;
      for (int k = 0; k < c.k; ++k) {
        const auto x = test::as_double(left[static_cast<std::size_t>(c.left_transposed ? k * c.m + i : i * c.k + k)]);
        sum += x * test::as_double(right[static_cast<std::size_t>(c.right_transposed ? j * c.k + k : k * c.n + j)]);
      }
      expected[static_cast<std::size_t>(i * c.n + j)] = static_cast<Sum>(sum);
    }
  }
  test::Arguments arguments;
  const auto view = [](int rows, int columns, bool transposed) { return transposed ? std::vector{columns, rows} : std::vector{rows, columns}; };
  arguments.view(left.data(), view(c.m, c.k, c.left_transposed)).view(right.data(), view(c.k, c.n, c.right_transposed)).view(got.data(), {c.m, c.n});
  test::run_host(dot_kernel(c, element_type_of<T>, element_type_of<Sum>, start_from_zero), arguments);
  test::check_close(got, expected, tolerance);
}

}  // namespace

TEST_CASE("dot is right for sizes that nothing divides") {
  for (const Case& c : {Case{1, 1, 1}, Case{3, 5, 7}, Case{6, 16, 4}, Case{13, 33, 31}, Case{16, 80, 48}, Case{48, 96, 80}, Case{128, 24, 3}, Case{1, 64, 128}}) {
    check_dot<float, float>(c, true, 1e-5);
    check_dot<float, float>(c, false, 1e-5);
  }
}

TEST_CASE("dot folds transposed operands") {
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      check_dot<float, float>({32, 48, 64, left, right}, true, 1e-5);
      check_dot<float, float>({13, 21, 9, left, right}, false, 1e-5);
      check_dot<double, double>({14, 10, 12, left, right}, false, 1e-13);
    }
  }
}

TEST_CASE("dot takes every element type") {
  check_dot<bf16, float>({32, 48, 80}, true, 1e-5);
  check_dot<f16, float>({33, 17, 40, false, true}, true, 1e-5);
  check_dot<std::int8_t, std::int32_t>({17, 24, 64}, false, 0);
  check_dot<std::int8_t, std::int32_t>({16, 32, 33, false, true}, true, 0);
  check_dot<std::uint8_t, std::int32_t>({17, 24, 64}, false, 0);
  check_dot<std::uint8_t, std::int32_t>({16, 32, 33, true, true}, true, 0);
  check_dot<f8e4m3, float>({32, 48, 80}, true, 1e-5);
  check_dot<f8e5m2, float>({33, 17, 40, true, true}, true, 1e-5);
  check_dot<double, double>({20, 20, 20}, true, 1e-13);
}

TEST_CASE("a loop over K updates the accumulator in place") {
  const int m = 50, n = 70, k = 100;
  ir::Function function("matmul", {{.name = "a", .type = Type::view(ElementType::f32, 2)},
                                   {.name = "b", .type = Type::view(ElementType::f32, 2)},
                                   {.name = "c", .type = Type::view(ElementType::f32, 2)}});
  ir::Builder b(function);
  const auto i32_constant = [&](std::int64_t value) { return b.constant(ElementType::i32, value); };
  const Value row = b.binary(Opcode::mul, b.program_id(0), i32_constant(32));
  const ir::OperationId loop = b.for_loop(i32_constant(0), b.view_size(function.parameter(0), 1), i32_constant(32), {b.splat(Type::tile(ElementType::f32, {32, 80}), 0.0)});
  const ir::BlockId outer = b.insertion_block();
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const Value at = b.argument(loop, 0, 0);
  const Value product = b.dot(b.view_load(function.parameter(0), {row, at}, {32, 32}), b.view_load(function.parameter(1), {at, i32_constant(0)}, {32, 80}), b.argument(loop, 0, 1));
  b.yield({product});
  b.set_insertion_block(outer);
  b.view_store(function.parameter(2), b.results(loop)[0], {row, i32_constant(0)});
  b.return_values();
  const std::vector<float> left = test::random_floats(m * k, 3), right = test::random_floats(k * n, 4);
  std::vector<float> got(m * n, 0), expected(m * n, 0);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p) sum += static_cast<double>(left[static_cast<std::size_t>(i * k + p)]) * right[static_cast<std::size_t>(p * n + j)];
      expected[static_cast<std::size_t>(i * n + j)] = static_cast<float>(sum);
    }
  }
  test::Arguments arguments;
  arguments.view(left.data(), {m, k}).view(right.data(), {k, n}).view(got.data(), {m, n});
  test::run_host(function, arguments, 2);
  test::check_close(got, expected, 1e-5);
}
