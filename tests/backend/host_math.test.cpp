// Math functions of the host back end against the C library, over the range and at the edges.
#include <limits>

#include "host_run.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

constexpr int count = 1000;

/// y = opcode(x), count elements.
ir::Function function_kernel(Opcode opcode, ElementType element) {
  ir::Function function("math", {{.name = "x", .type = Type::view(element, 1), .unit_stride = true}, {.name = "y", .type = Type::view(element, 1), .unit_stride = true}});
  ir::Builder b(function);
  const Value zero = b.constant(ElementType::i32, std::int64_t{0});
  b.view_store(function.parameter(1), b.unary(opcode, b.view_load(function.parameter(0), {zero}, {count})), {zero});
  b.return_values();
  return function;
}

template <class T> std::vector<T> apply(Opcode opcode, std::vector<T> x) {
  x.resize(count, T(1));
  std::vector<T> y(count);
  test::Arguments arguments;
  arguments.view(x.data(), {count}).view(y.data(), {count});
  test::run_host(function_kernel(opcode, element_type_of<T>), arguments);
  return y;
}

struct Function {
  Opcode opcode;
  double (*exact)(double);
  float low, high;
  double ulps;
};

double ulps_off(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(rounded) - 23), std::ldexp(1.0, -149));
  return std::fabs(got - exact) / unit;
}

}  // namespace

TEST_CASE("math functions of f32 are within a few units in the last place") {
  const Function functions[] = {
      {Opcode::exp2, std::exp2, -140, 127, 2},  {Opcode::exp, std::exp, -95, 88, 2.5},  {Opcode::log, std::log, 1e-40f, 5, 2.5},
      {Opcode::log2, std::log2, 1e-40f, 9, 3.5}, {Opcode::tanh, std::tanh, -5, 5, 4},    {Opcode::erf, std::erf, -4.5f, 4.5f, 4},
      {Opcode::sin, std::sin, -300, 300, 2.5},  {Opcode::cos, std::cos, -300, 300, 2.5}, {Opcode::sqrt, std::sqrt, 0, 100, 0.6},
  };
  for (const Function& function : functions) {
    CAPTURE(std::string(ir::name(function.opcode)));
    std::vector<float> x;
    for (int i = 0; i < count; ++i) x.push_back(function.low + (function.high - function.low) * static_cast<float>(i) / (count - 1));
    const std::vector<float> y = apply(function.opcode, x);
    double worst = 0;
    float at = 0;
    for (int i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double off = ulps_off(y[k], function.exact(x[k]));
      if (off > worst) worst = off, at = x[k];
    }
    CAPTURE(at);
    CHECK(worst <= function.ulps);
  }
}

TEST_CASE("large arguments of sin and cos are reduced exactly") {
  const std::vector<float> x{1e5f, 12345678.0f, -3.0e8f, 1e12f};
  const std::vector<float> sines = apply(Opcode::sin, x), cosines = apply(Opcode::cos, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    CHECK(std::fabs(sines[i] - std::sin(static_cast<double>(x[i]))) < 2e-7);
    CHECK(std::fabs(cosines[i] - std::cos(static_cast<double>(x[i]))) < 2e-7);
  }
}

TEST_CASE("the edges: infinities, NaN, zeros") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{infinity, -infinity, nan, 0.0f, -0.0f, -1.0f, 1e30f, -1e30f};
  const auto check = [&](Opcode opcode, const std::vector<float>& expected) {
    CAPTURE(std::string(ir::name(opcode)));
    const std::vector<float> y = apply(opcode, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      if (std::isnan(expected[i])) CHECK(std::isnan(y[i]));
      else if (std::isinf(expected[i])) CHECK(y[i] == expected[i]);
      else CHECK(y[i] == doctest::Approx(expected[i]));
    }
  };
  check(Opcode::exp2, {infinity, 0, nan, 1, 1, 0.5f, infinity, 0});
  check(Opcode::exp, {infinity, 0, nan, 1, 1, std::exp(-1.0f), infinity, 0});
  check(Opcode::log, {infinity, nan, nan, -infinity, -infinity, nan, std::log(1e30f), nan});
  check(Opcode::log2, {infinity, nan, nan, -infinity, -infinity, nan, std::log2(1e30f), nan});
  check(Opcode::tanh, {1, -1, nan, 0, 0, std::tanh(-1.0f), 1, -1});
  check(Opcode::erf, {1, -1, nan, 0, 0, std::erf(-1.0f), 1, -1});
  const std::vector<float> sines = apply(Opcode::sin, x);
  CHECK(std::isnan(sines[0]));
  CHECK(std::isnan(sines[2]));
}

TEST_CASE("f64 goes to the C library, f16 and bf16 are rounded once") {
  const std::vector<double> y = apply<double>(Opcode::exp, {0.5, -2});
  CHECK(y[0] == std::exp(0.5));
  CHECK(y[1] == std::exp(-2.0));
  CHECK(apply<double>(Opcode::erf, {0.25})[0] == doctest::Approx(std::erf(0.25)).epsilon(1e-15));
  CHECK(apply<bf16>(Opcode::exp2, {bf16(0.3f)})[0].bits == bf16(std::exp2(static_cast<float>(bf16(0.3f)))).bits);
  CHECK(apply<f16>(Opcode::tanh, {f16(0.7f)})[0].bits == f16(std::tanh(static_cast<float>(f16(0.7f)))).bits);
}
