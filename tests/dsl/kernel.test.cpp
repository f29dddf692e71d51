// Kernels with types that the C++ compiler knows: the programs of the README, and every operation once.
#include <flextile/backend/compile.hpp>

#include "check_kernel.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

const auto vector_add = kernel("vector_add", [](Pointer<const f32> x, Pointer<const f32> y, Pointer<f32> out, Scalar<i32> n) {
  Tile i = program_id(0) * 16 + arange<16>();
  Tile inside = i < n;
  store(out + i, load(x + i, inside) + load(y + i, inside), inside);
});

template <int N>
const auto row_softmax = kernel("row_softmax", [](TensorView<const f32, 2> x, TensorView<f32, 2> y) {
  Scalar row = program_id(0);
  Tile v = x.load<N>(row, 0, {.other = -infinity});
  Tile e = exp2((v - max(v)) * log2e);
  y.store(e / sum(e), row, 0);
});

template <int BM, int BN, int BK>
const auto matmul = kernel("matmul", [](TensorView<const bf16, 2> a, TensorView<const bf16, 2> b, TensorView<bf16, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 4})) acc = dot(a.load<BM, BK>(m, k), b.load<BK, BN>(k, n), acc);
  c.store(cast<bf16>(acc), m, n);
});

/// Runs a kernel of one f32 output of N elements.
template <int N, class Lambda>
std::vector<f32> output_of(Lambda lambda) {
  std::vector<f32> out(N);
  run(kernel("one", lambda).trace(), {pointer_to(out)});
  return out;
}

}  // namespace

TEST_CASE("vector_add guards its tail") {
  std::vector<f32> x(40), y(40), out(48, -1);
  for (int i = 0; i < 40; ++i) x[i] = static_cast<f32>(i), y[i] = 0.5f;
  run(vector_add.trace(), {pointer_to(x), pointer_to(y), pointer_to(out), number(40)}, 3);
  for (int i = 0; i < 40; ++i) CHECK(out[i] == i + 0.5f);
  CHECK(out[40] == -1);
}

TEST_CASE("softmax with a tile that is wider than the row") {
  std::vector<f32> x(2 * 11), y(2 * 11, -1);
  for (int i = 0; i < 22; ++i) x[i] = static_cast<f32>(i % 7) - 3;
  run(row_softmax<48>.trace(), {view_of(x, {2, 11}), view_of(y, {2, 11})}, 2);
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int i = 0; i < 11; ++i) sum += std::exp(x[row * 11 + i]);
    for (int i = 0; i < 11; ++i) CHECK(y[row * 11 + i] == doctest::Approx(std::exp(x[row * 11 + i]) / sum).epsilon(1e-5));
  }
}

TEST_CASE("matmul over tiles of 48 and 80") {
  const int M = 50, N = 90, K = 37;
  std::vector<bf16> a(M * K), b(K * N), c(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = static_cast<float>(i % 5) - 2;
  for (int i = 0; i < K * N; ++i) b[i] = static_cast<float>(i % 7) - 3;
  run(matmul<48, 80, 16>.trace(), {view_of(a, {M, K}), view_of(b, {K, N}), view_of(c, {M, N})}, 2, 2);
  int wrong = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += static_cast<float>(a[i * K + k]) * static_cast<float>(b[k * N + j]);
      wrong += static_cast<float>(c[i * N + j]) != static_cast<float>(bf16(sum));
    }
  CHECK(wrong == 0);
}

TEST_CASE("the signature comes from the lambda, facts from the launch") {
  CHECK(vector_add.name() == "vector_add");
  const std::vector<ir::Parameter>& signature = vector_add.signature();
  REQUIRE(signature.size() == 4);
  CHECK(signature[0].type == ir::Type::pointer(ElementType::f32));
  CHECK(signature[0].read_only);
  CHECK_FALSE(signature[2].read_only);
  CHECK(signature[3].type == ir::Type::scalar(ElementType::i32));
  std::vector<ir::Parameter> facts = signature;
  facts[0].aligned = true;
  CHECK(contains(print(vector_add.trace(facts)), "{read_only, aligned}"));
  facts.pop_back();
  CHECK_THROWS_AS(vector_add.trace(facts), ArgumentError);
}

TEST_CASE("a kernel chooses its warps, as trace() does") {
  const auto body = [](Pointer<f32> out) { store(out + arange<256>(), 1.0f); };
  CHECK(kernel("four", body).trace().num_warps == 4);
  for (int warps : {1, 2, 4, 8, 16, 32}) {
    const auto chosen = kernel("chosen", body, {.num_warps = warps});
    CHECK(chosen.trace().num_warps == warps);
    CHECK(compile(chosen.trace(), Target::sm_80()).resource_usage.threads == 32 * warps);
  }
  for (int warps : {0, -1, 3, 6, 24, 33, 64}) {
    const std::string sentence = "[kernel] num_warps is " + std::to_string(warps) + " and must be 1, 2, 4, 8, 12, 16 or 32";
    const auto wrong = kernel("wrong", body, {.num_warps = warps});   // made before main, as kernels are: it throws when traced
    std::string message;
    try {
      wrong.trace();
    } catch (const CompileError& error) {
      message = error.what();
    }
    CHECK_MESSAGE(contains(message, sentence), message);
    CHECK(contains(message, "\"wrong\""));
    CHECK(contains(message, "kernel.test.cpp:"));
    CHECK_THROWS_AS(trace("wrong", [](Parameters&) {}, {.num_warps = warps}), CompileError);
  }
}

TEST_CASE("a kernel says how many of its programs share a multiprocessor") {
  const auto body = [](Pointer<f32> out) { store(out + arange<256>(), 1.0f); };
  CHECK(kernel("one", body).trace().occupancy == 1);
  const auto three = kernel("three", body, {.num_warps = 8, .occupancy = 3});
  CHECK(three.trace().occupancy == 3);
  CHECK(contains(std::string(compile(three.trace(), Target::sm_80()).ptx()), ".minnctapersm 3"));
  std::string refused;
  try {
    compile(kernel("many", body, {.num_warps = 8, .occupancy = 8}).trace(), Target::parse("sm_86"));
  } catch (const CompileError& error) {
    refused = error.what();
  }
  CHECK_MESSAGE(contains(refused, "[kernel] occupancy is 8 with 8 warps: a multiprocessor of sm_86 holds at most 48 warps and 16 programs"), refused);
  for (int occupancy : {0, -1, 9}) {
    std::string message;
    try {
      kernel("wrong", body, {.num_warps = 8, .occupancy = occupancy}).trace();
    } catch (const CompileError& error) {
      message = error.what();
    }
    CHECK_MESSAGE(contains(message, "[kernel] occupancy is " + std::to_string(occupancy) + " with 8 warps and must be 1 or more, and at most 64 warps together"), message);
  }
}

TEST_CASE("full() takes a value that the kernel computes") {
  auto out = output_of<6>([](Pointer<f32> out) {
    Scalar i = program_id(0) + 3;
    Tile a = full<f32, 2, 2>(i);
    static_assert(std::is_same_v<decltype(a), Tile<f32, Shape<2, 2>>>);
    AnyTile b = full(i, {2, 2});
    AnyTile c = full(ElementType::f32, {2}, i * 2);
    store(out, sum(a));
    store(out + 1, cast<f32>(sum(cast<i32>(b))));
    store(out + 2, sum(cast<f32>(c)));
    store(out + 3, sum(cast<f32>(full(0.5f, {3}))));
    AnyVar v = full<f32, 2>(i + 1);
    v += full(ElementType::f32, {2}, 1);
    store(out + 4 + arange<2>(), v);
  });
  CHECK(out == std::vector<f32>{12, 12, 12, 1.5f, 5, 5});
  CHECK(contains(trace_error([](Parameters&) { static_cast<void>(AnyTile(full(full(ElementType::f32, {4}, 1), {4, 4}))); }),
                 "[full] the value is tile<4xf32> and must be one number"));
}

TEST_CASE("statements carry their source line") {
  const unsigned line = __LINE__ + 2;
  ir::Function function = kernel("lines", [](Pointer<f32> out) {
                            Tile x = cast<f32>(arange<4>()) * 2;
                            Var y = x;
                            y = y + 1;
                            store(out + arange<4>(), y);
                          }).trace();
  auto line_of = [&](ir::Opcode opcode) {
    for (std::uint32_t id = 0; id < function.operation_count(); ++id) {
      if (function.operation({id}).opcode == opcode) return function.operation({id}).location.line;
    }
    return 0u;
  };
  CHECK(line_of(ir::Opcode::mul) == line);
  CHECK(line_of(ir::Opcode::add) == line + 2);
  CHECK(line_of(ir::Opcode::store) == line + 3);
  CHECK(contains(function.files.back(), "kernel.test.cpp"));
}

TEST_CASE("loops, branches and variables") {
  auto out = output_of<4>([](Pointer<f32> out) {
    Var sum = 0, product = 1;
    Var last = 0.0f;
    for (auto i : range(1, 6)) {
      sum += i;
      for (auto j : range(2)) product = product * (j + 1);
      if_(i % 2 == 0, [&] { last = cast<f32>(i); }).else_([&] { last = last + 0.5f; });
      if_(i == 3, [&] { last = last + 100; });
    }
    Var steps = 0;
    while_([&] { return product > 1; },
           [&] {
             product = product / 2;
             steps = steps + 1;
           });
    store(out, cast<f32>(sum));
    store(out + 1, cast<f32>(product));
    store(out + 2, last);
    store(out + 3, cast<f32>(steps));
  });
  CHECK(out[0] == 15);
  CHECK(out[1] == 1);
  CHECK(out[2] == 4.5f);
  CHECK(out[3] == 5);
}

TEST_CASE("variables that swap, copies of variables, and variables nothing assigns") {
  auto out = output_of<3>([](Pointer<f32> out) {
    Var a = 1.0f, b = 2.0f, still = 7.0f;
    Var copy = a;
    for (auto i : range(3)) {
      Scalar old = a;
      a = b;
      b = old + cast<f32>(i) * 0;
    }
    copy = copy + still;
    store(out, a);
    store(out + 1, b);
    store(out + 2, copy);
  });
  CHECK(out[0] == 2);
  CHECK(out[1] == 1);
  CHECK(out[2] == 8);
  ir::Function function = kernel("unchanged", [](Pointer<f32> out) {
                            Var x = 1.0f, y = 2.0f;
                            for (auto i : range(3)) y = y + x * cast<f32>(i);
                            store(out, y);
                          }).trace();
  for (std::uint32_t id = 0; id < function.operation_count(); ++id) {
    if (function.operation({id}).opcode == ir::Opcode::for_) CHECK(function.operation({id}).results.size() == 1);
  }
}

TEST_CASE("numbers: literals adapt, integers mix as in C++") {
  auto out = output_of<8>([](Pointer<f32> out) {
    Scalar i = program_id(0) + 7;
    Tile half = full<bf16, 1>(1.5f);
    static_assert(std::is_same_v<decltype(Tile(half * 2.0)), Tile<bf16, Shape<1>>>);
    static_assert(std::is_same_v<decltype(Scalar(i * 0.5)), Scalar<f32>>);
    static_assert(std::is_same_v<decltype(Scalar(i * 2)), Scalar<i32>>);
    static_assert(std::is_same_v<decltype(Scalar(i < 2)), Scalar<bool>>);
    static_assert(std::is_same_v<decltype(Scalar(exp2(i))), Scalar<f32>>);
    static_assert(std::is_same_v<decltype(Tile(half + full<f16, 1>(1))), Tile<f32, Shape<1>>>);
    static_assert(std::is_same_v<decltype(Tile(zeros<u8, 2>() + 1)), Tile<i32, Shape<2>>>);
    static_assert(std::is_same_v<decltype(Tile(zeros<f32, 4, 1>() + zeros<f32, 3>())), Tile<f32, Shape<4, 3>>>);
    store(out, i / 2 * 1.0f);
    store(out + 1, -i % 4 * 1.0f);
    store(out + 2, i * 0.5);
    store(out + 3, cast<f32>(i << 2 | 1));
    store(out + 4, sum(cast<f32>(half * 2.0) + full<f32, 1>(0)));
    store(out + 5, where(i > 3 && !(i == 8), 1.0f, 0.0f));
    store(out + 6, cast<f32>(ceil_div(i, 2)));
    store(out + 7, fma(cast<f32>(i), 2, 0.5f) + bitcast<f32>(Scalar<i32>(0x3f800000)));
  });
  std::vector<f32> expected = {3, -3, 3.5f, 29, 3, 1, 4, 15.5f};
  CHECK(out == expected);
}

TEST_CASE("shapes: expand, broadcast, reshape, transpose, reduce") {
  auto out = output_of<6>([](Pointer<f32> out) {
    Tile x = reshape<3, 4>(cast<f32>(arange<12>()));
    Tile rows = sum<1>(x);
    static_assert(std::is_same_v<decltype(rows), Tile<f32, Shape<3>>>);
    Tile scaled = x * expand_dims<1>(rows);
    Tile turned = trans(scaled);
    static_assert(std::is_same_v<decltype(turned), Tile<f32, Shape<4, 3>>>);
    store(out, sum(turned));
    store(out + 1, max(x));
    store(out + 2, max(min<0>(x)));
    Tile products = reduce<1>(x + 1, [](auto a, auto b) { return a * b; });
    store(out + 3, min(products));
    store(out + 4, sum(broadcast_to<5, 4>(expand_dims<0>(arange<4>()))) * 1.0f);
    store(out + 5, cast<f32>(sum(x > 5)));
  });
  CHECK(out[0] == 6 * 6 + 22 * 22 + 38 * 38);
  CHECK(out[1] == 11);
  CHECK(out[2] == 3);
  CHECK(out[3] == 24);
  CHECK(out[4] == 30);
  CHECK(out[5] == 6);
}

TEST_CASE("atomics give the old value and keep order and scope") {
  std::vector<i32> memory = {5, 0, 0, 9};
  ir::Function function = kernel("atomics", [](Pointer<i32> p) {
                            Tile old = atomic_add(p, 3, {.order = Order::relaxed, .scope = Scope::sys});
                            store(p + 1, old);
                            atomic_max(p + 2, 7);
                            atomic_exchange(p + 3, 1, program_id(0) > 5);
                            atomic_cas(p + 3, 9, 10);
                          }).trace();
  run(function, {pointer_to(memory)});
  CHECK(memory == std::vector<i32>{8, 5, 7, 10});
  std::string text = print(function);
  CHECK(contains(text, "order = \"relaxed\""));
  CHECK(contains(text, "scope = \"sys\""));
  CHECK(contains(text, "order = \"acq_rel\""));
}

TEST_CASE("load<...>(view, ...) in a template, strides and base") {
  std::vector<f32> x = {1, 2, 3, 4, 5, 6}, out(4);
  auto body = []<class View>(const View& view, Pointer<f32> to) {
    store(to, sum(load<2, 3>(view, 0, 0)));
    store(to + 1, cast<f32>(view.stride(0)) + cast<f32>(view.size(1)));
    store(to + 2, load(view.base() + 4));
    store(to + 3, sum(load<3>(view, 1, 1, {.other = 10})));
  };
  static auto keep = body;
  run(kernel("views", [](TensorView<const f32, 2> view, Pointer<f32> to) { keep(view, to); }).trace(),
      {view_of(x, {2, 3}), pointer_to(out)});
  CHECK(out == std::vector<f32>{21, 6, 5, 21});
}
