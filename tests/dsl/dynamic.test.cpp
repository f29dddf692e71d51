// Tiles whose element type and extents only the trace knows: the same operators, the same sentences while tracing.
#include "check_kernel.hpp"

using namespace flextile;
using namespace flextile::test;

TEST_CASE("one source for every element type and extent") {
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (int width : {48, 80, 96}) {
      ir::Function function = trace("row_scale",
                                    [&](Parameters& p) {
                                      AnyView x = p.view("x", element, 2, {.read_only = true, .aligned = true, .unit_stride = true});
                                      AnyView y = p.view("y", ElementType::f32, 2);
                                      AnyTile factor = p.scalar("factor", ElementType::i32);
                                      Tile v = cast(load(x, {program_id(0), 0}, {1, width}, {.other = 0}), ElementType::f32);
                                      static_assert(std::is_same_v<decltype(v), AnyTile>);
                                      CHECK(v.extent(1) == width);
                                      AnyVar total = zeros(ElementType::f32, {1, width});
                                      for (auto i : range(0, factor)) total = total + v * (i + 1);
                                      store(y, total, {program_id(0), 0});
                                    },
                                    {.num_warps = 8});
      CHECK(function.num_warps == 8);
      CHECK(function.parameters[0].name == "x");
      CHECK(function.parameters[0].unit_stride);
      if (element != ElementType::f32) continue;
      std::vector<f32> x(2 * 50, 2), y(2 * 50, -1);
      run(function, {view_of(x, {2, 50}), view_of(y, {2, 50}), number(3)}, 2);
      CHECK(y[0] == 12);
      CHECK(y[50 + 40] == 12);
      CHECK(y[49] == (width == 48 ? -1 : 12));
    }
  }
}

TEST_CASE("attention's inner step") {
  const int M = 16, N = 24, D = 8;
  std::vector<f32> q(M * D), k(N * D), out(M);
  for (int i = 0; i < M * D; ++i) q[i] = static_cast<f32>(i % 5) * 0.25f;
  for (int i = 0; i < N * D; ++i) k[i] = static_cast<f32>(i % 3) - 1;
  ir::Function function = trace("step", [&](Parameters& p) {
    AnyView query = p.view("q", ElementType::f32, 2), key = p.view("k", ElementType::f32, 2), lse = p.view("lse", ElementType::f32, 1);
    AnyTile s = dot(load(query, {0, 0}, {M, D}), trans(load(key, {0, 0}, {N, D})), Precision::ieee);
    AnyTile rows = expand_dims(arange(M), 1), columns = expand_dims(arange<N>(), 0);
    AnyTile shown = where(rows >= columns, s, -infinity);
    AnyTile top = max(shown, 1);
    AnyTile total = sum(exp(shown - expand_dims(top, 1)), 1);
    store(lse, top + log(total), {0});
  });
  run(function, {view_of(q, {M, D}), view_of(k, {N, D}), view_of(out, {M})});
  for (int i = 0; i < M; ++i) {
    double sum = 0;
    for (int j = 0; j <= i; ++j) {
      double s = 0;
      for (int d = 0; d < D; ++d) s += q[i * D + d] * k[j * D + d];
      sum += std::exp(s);
    }
    CHECK(out[i] == doctest::Approx(std::log(sum)).epsilon(1e-5));
  }
}

TEST_CASE("static and dynamic tiles mix, a declared type is checked while tracing") {
  trace("mix", [](Parameters& p) {
    AnyPointer out = p.pointer("out", ElementType::f32);
    AnyTile dynamic_tile = full(ElementType::f32, {4, 1}, 2);
    Tile mixed = dynamic_tile * zeros<f32, 4, 3>();
    static_assert(std::is_same_v<decltype(mixed), AnyTile>);
    Tile<f32, Shape<4, 3>> known = mixed;
    CHECK(known.extent(1) == 3);
    store(out, sum(known));
    AnyTile element = load(out + 3);
    store(out + expand_dims(arange(4), 1), dynamic_tile + element);
  });
  std::string declared = trace_error([](Parameters&) {
    AnyTile x = full(ElementType::f32, {4, 1}, 2);
    [[maybe_unused]] Tile<f32, Shape<4, 3>> y = x;
  });
  CHECK(contains(declared, "tile<4x1xf32>"));
  CHECK(contains(declared, "tile<4x3xf32>"));
}

TEST_CASE("a mod's fragment is inlined with call") {
  auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  auto relative = [](auto score, auto, auto h, auto q, auto kv) { return score + (q - kv) * (h + 1); };
  ir::Mod mask = erase_mask(causal), score = erase_score(relative);
  std::vector<f32> out(4 * 4);
  ir::Function function = trace("inlined", [&](Parameters& p) {
    AnyView to = p.view("to", ElementType::f32, 2);
    Tile q = expand_dims<1>(arange<4>());
    Tile kv = expand_dims<0>(arange<4>());
    AnyTile s = call(*score.fragment, {zeros<f32, 4, 4>(), 0, program_id(0) + 1, q, kv});
    AnyTile shown = call(*mask.fragment, {0, 0, q, kv});
    store(to, where(shown, s, -1.0f), {0, 0});
  });
  run(function, {view_of(out, {4, 4})});
  for (int q = 0; q < 4; ++q)
    for (int k = 0; k < 4; ++k) CHECK(out[q * 4 + k] == (q >= k ? (q - k) * 2 : -1));
}

TEST_CASE("shape and type faults are sentences with the numbers and the line") {
  std::string dot_error = trace_error([](Parameters&) {
    static_cast<void>(AnyTile(dot(full(ElementType::bf16, {128, 64}, 0), full(ElementType::bf16, {32, 128}, 0))));
  });
  CHECK(contains(dot_error, "[dot]"));
  CHECK(contains(dot_error, "columns of left (64) must equal rows of right (32)"));
  CHECK(contains(dot_error, "\"wrong\""));
  CHECK(contains(dot_error, "dynamic.test.cpp:"));
  CHECK(contains(trace_error([](Parameters&) {
                   static_cast<void>(AnyTile(full(ElementType::f32, {4, 3}, 0) + full(ElementType::f32, {4, 2}, 0)));
                 }),
                 "axis 1 has 3 and 2 elements"));
  CHECK(contains(
      trace_error([](Parameters&) { static_cast<void>(AnyTile(full(ElementType::f32, {4}, 0) & full(ElementType::f32, {4}, 0))); }),
      "[bit_and]"));
  CHECK(contains(trace_error([](Parameters&) { static_cast<void>(AnyTile(sum(full(ElementType::f32, {4}, 0), 3))); }), "axis is 3"));
  CHECK(
      contains(trace_error([](Parameters&) { static_cast<void>(AnyTile(expand_dims(full(ElementType::f32, {4}, 0), 7))); }), "axis is 7"));
  CHECK(contains(trace_error([](Parameters&) { static_cast<void>(AnyTile(reshape(full(ElementType::f32, {4}, 0), {3}))); }), "4 and 3"));
  CHECK(contains(trace_error([](Parameters& p) { static_cast<void>(AnyTile(load(p.view("v", ElementType::f32, 2), {0}, {4}))); }),
                 "view_load"));
  CHECK(contains(
      trace_error([](Parameters& p) { store(p.view("v", ElementType::f32, 1, {.read_only = true}), full(ElementType::f32, {4}, 0), {0}); }),
      "view_store"));
  CHECK(contains(trace_error([](Parameters&) { static_cast<void>(AnyTile(program_id(3))); }), "axis is 3"));
  CHECK(contains(trace_error([](Parameters&) {
                   AnyVar x = zeros(ElementType::f32, {4});
                   x = zeros(ElementType::f32, {5});
                 }),
                 "a variable keeps its type"));
  CHECK(contains(trace_error([](Parameters&) {
                   AnyVar x = zeros(ElementType::f32, {4});
                   x = zeros(ElementType::bf16, {4});
                 }),
                 "tile<4xbf16>"));
  CHECK(contains(trace_error([](Parameters&) { if_(full(ElementType::i1, {4}, 1), [] {}); }), "[if] condition is tile<4xi1>"));
}

TEST_CASE("what C++ cannot see is an error while tracing") {
  std::string left = trace_error([](Parameters&) {
    Var x = 0;
    for (auto i : range(0, 10)) {
      x = x + i;
      break;
    }
  });
  CHECK(contains(left, "left by break, return or goto"));
  CHECK(contains(left, "dynamic.test.cpp:"));
  std::string returned = trace_error([](Parameters&) {
    for (auto i : range(0, 10)) {
      if (i.rank() == 0) return;
    }
  });
  CHECK(contains(returned, "left by break"));
  std::string escaped = trace_error([](Parameters& p) {
    std::vector<AnyTile> kept;
    for (auto i : range(0, 10)) kept.push_back(i * 2);
    store(p.pointer("out", ElementType::i32), kept[0]);
  });
  CHECK(contains(escaped, "assign it to a Var"));
  std::string ended = trace_error([](Parameters& p) {
    std::vector<AnyVar> kept;
    for (auto i : range(0, 10)) kept.push_back(AnyVar(i * 2));
    store(p.pointer("out", ElementType::i32), kept[0]);
  });
  CHECK(contains(ended, "make it before the loop"));
  // A variable that ended stays ended when another takes its place, wherever it was made.
  std::string replaced = trace_error([](Parameters& p) {
    std::vector<AnyVar> kept;
    kept.reserve(1);
    for (auto i : range(0, 10)) kept.emplace_back(i * 2);
    AnyVar other = 7;
    store(p.pointer("out", ElementType::i32), kept[0] + other);
  });
  CHECK(contains(replaced, "[scope] a Var that was made inside"));
  std::string assigned = trace_error([](Parameters& p) {
    std::vector<AnyVar> kept;
    kept.reserve(1);
    if_(p.scalar("c", ElementType::i1), [&] { kept.emplace_back(1); }).else_([&] {
      Var other = 2;
      kept[0] = other + 1;
    });
  });
  CHECK(contains(assigned, "[scope] a Var that was made inside"));
  std::string in_while = trace_error([](Parameters& p) {
    std::vector<AnyVar> kept;
    kept.reserve(1);
    AnyTile n = p.scalar("n", ElementType::i32);
    while_([&] { kept.emplace_back(1); return n < 5; }, [&] { Var other = 1; other += kept[0]; });
  });
  CHECK(contains(in_while, "[scope] a Var that was made inside"));
  std::string of_another_trace = trace_error([](Parameters&) {
    AnyVar outer = 1;
    trace("inner", [&](Parameters& p) {
      AnyVar own = 2;
      store(p.pointer("out", ElementType::i32), outer + own);
    });
  });
  CHECK(contains(of_another_trace, "in another trace"));
  // What an earlier trace, or one around this one, made: its number may stand for something else here, or for nothing.
  std::vector<AnyTile> tiles;
  std::vector<AnyPointer> pointers;
  std::vector<AnyView> views;
  const auto keep = [&](Parameters& p) {
    for (int i = 0; i < 9; ++i) tiles.push_back(full(ElementType::f32, {4}, i));
    views.push_back(p.view("x", ElementType::f32, 1));
    pointers.push_back(p.pointer("out", ElementType::f32));
  };
  const std::string foreign = "[scope] a tile, pointer or view that another trace made is used";
  trace("earlier", keep);
  for (const AnyTile& tile : {tiles.front(), tiles.back()}) {
    CHECK(contains(trace_error([&](Parameters& p) { store(p.pointer("out", ElementType::f32) + arange(4), tile); }), foreign));
    CHECK(contains(trace_error([&](Parameters&) { static_cast<void>(AnyTile(arange(4) + tile)); }), foreign));
    CHECK(contains(trace_error([&](Parameters&) { static_cast<void>(tile.rank()); }), foreign));
  }
  CHECK(contains(trace_error([&](Parameters&) { static_cast<void>(AnyTile(load(pointers[0]))); }), foreign));
  CHECK(contains(trace_error([&](Parameters&) { static_cast<void>(AnyTile(load(views[0], {0}, {4}))); }), foreign));
  CHECK(contains(trace_error([&](Parameters&) { static_cast<void>(Scalar(views[0].size(0))); }), foreign));
  CHECK(contains(trace_error([&](Parameters& p) {
                   keep(p);
                   trace("inside", [&](Parameters&) { static_cast<void>(AnyTile(tiles.back() * 2)); });
                 }),
                 foreign));
  trace("one range, two loops", [](Parameters& p) {
    Var sum = 0;
    auto twice = range(0, 3);
    int bodies = 0;
    for (auto i : twice) sum += i, ++bodies;
    for (auto i : twice) sum += i, ++bodies;
    CHECK(bodies == 2);
    store(p.pointer("out", ElementType::i32), sum);
  });
  CHECK_THROWS_AS(program_id(0), CompileError);
  CHECK_THROWS_AS(trace("arguments", [](Parameters&) { call(*erase_mask(noop_mask).fragment, {1, 2}); }), CompileError);
  CHECK_NOTHROW(trace("after an error, tracing works", [](Parameters&) {}));
}
