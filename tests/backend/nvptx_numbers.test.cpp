// Families of operations as PTX, run by the emulator and compared with the plain interpreter.
#include <array>

#include "../support/agree.hpp"

using namespace flextile;
using ir::Builder;
using ir::Opcode;
using ir::Shape;
using ir::Type;
using ir::Value;
using test::agree;
using test::load;
using test::store;

TEST_CASE("dot: every type, sizes that are no powers of two, operands straight and transposed") {
  struct Types { ElementType operand, sum; };
  for (const Types types : {Types{ElementType::bf16, ElementType::f32}, {ElementType::f16, ElementType::f32}, {ElementType::f32, ElementType::f32},
                            {ElementType::f64, ElementType::f64}, {ElementType::i8, ElementType::i32}, {ElementType::u8, ElementType::i32}}) {
    for (const auto& [m, n, k, warps] : {std::array{16, 8, 32, 1}, {48, 80, 96, 2}, {64, 112, 64, 4}, {32, 16, 32, 8}, {5, 7, 3, 4}, {112, 176, 32, 4}}) {
      for (int turned = 0; turned < 4; ++turned) {
        if (turned > 0 && (m == 112 || m == 16 || types.operand == ElementType::u8 || (turned != 3 && types.operand != ElementType::bf16))) continue;
        CAPTURE(name(types.operand));
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(turned);
        const Shape left = turned & 1 ? Shape{k, m} : Shape{m, k}, right = turned & 2 ? Shape{n, k} : Shape{k, n};
        agree({.inputs = {{types.operand, left}, {types.operand, right}}, .output = {types.sum, {m, n}}, .num_warps = warps, .tolerance = 1e-3}, [&](Builder& b, auto& v) {
          Value x = load(b, v[0], left), y = load(b, v[1], right);
          if (turned & 1) x = b.transpose(x);
          if (turned & 2) y = b.transpose(y);
          store(b, v[2], b.dot(x, y, b.splat(Type::tile(types.sum, {m, n}), std::int64_t{1}), "ieee"));
        });
      }
    }
  }
}

TEST_CASE("dot: tf32, a loop of any number of stages, a ragged end") {
  for (ElementType element : {ElementType::f32, ElementType::bf16}) {
    for (std::int64_t stages : {1, 2, 5}) {
      for (int depth : {0, 8, 200}) {
        CAPTURE(stages);
        CAPTURE(depth);
        const char* precision = depth == 200 && stages == 2 ? "ieee" : "tf32";
        agree({.inputs = {{element, {40, std::max(depth, 1)}}, {element, {std::max(depth, 1), 56}}}, .output = {ElementType::f32, {40, 56}}, .tolerance = 2e-3}, [&](Builder& b, auto& v) {
          auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
          const ir::OperationId loop = b.for_loop(number(0), number(depth), number(32), {b.splat(Type::tile(ElementType::f32, {48, 64}), 0.0)},
                                                  {{ir::AttributeName::stages, stages}});
          const ir::BlockId here = b.insertion_block();
          b.set_insertion_block(b.function().operation(loop).blocks[0]);
          const Value k = b.argument(loop, 0, 0), sum = b.argument(loop, 0, 1);
          const Value x = b.view_load(v[0], {number(0), k}, {48, 32}), y = b.view_load(v[1], {k, number(0)}, {32, 64});
          b.yield({b.dot(x, y, sum, precision)});
          b.set_insertion_block(here);
          store(b, v[2], b.results(loop)[0]);
        });
      }
    }
  }
}

TEST_CASE("dot: warpgroups read their operands from shared memory") {
  struct Sizes { int m, n, warps, stages, depth; };
  for (const Sizes s : {Sizes{64, 64, 4, 2, 200}, {128, 128, 8, 3, 200}, {128, 64, 4, 2, 200}, {256, 192, 8, 2, 200}, {64, 64, 4, 2, 40}, {64, 64, 4, 4, 520}, {192, 64, 12, 3, 264}}) {
    for (const bool turned : {false, true}) {
      CAPTURE(s.m);
      CAPTURE(s.n);
      CAPTURE(turned);
      const int depth = s.depth;
      const Shape right = turned ? Shape{s.n - 8, depth} : Shape{depth, s.n - 8};
      agree({.inputs = {{ElementType::bf16, {s.m - 3, depth}}, {ElementType::bf16, right}}, .output = {ElementType::f32, {s.m - 3, s.n - 8}}, .num_warps = s.warps,
             .tolerance = 2e-3, .target = Target::sm_90a(), .uses = depth <= 64 ? "wgmma.mma_async" : s.m == 16 * s.warps ? "wgmma.wait_group.sync.aligned 1" : "wgmma.wait_group.sync.aligned 2"}, [&](Builder& b, auto& v) {
        auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
        const ir::OperationId loop = b.for_loop(number(0), number(depth), number(64), {b.splat(Type::tile(ElementType::f32, {s.m, s.n}), 0.0)},
                                                {{ir::AttributeName::stages, std::int64_t{s.stages}}});
        const ir::BlockId here = b.insertion_block();
        b.set_insertion_block(b.function().operation(loop).blocks[0]);
        const Value k = b.argument(loop, 0, 0), sum = b.argument(loop, 0, 1), x = b.view_load(v[0], {number(0), k}, {s.m, 64});
        Value y = turned ? b.transpose(b.view_load(v[1], {number(0), k}, {s.n, 64})) : b.view_load(v[1], {k, number(0)}, {64, s.n});
        b.yield({b.dot(x, y, sum)});
        b.set_insertion_block(here);
        store(b, v[2], b.results(loop)[0]);
      });
    }
  }
}

TEST_CASE("dot: an operand in registers that a loop does not change is none of wgmma's") {
  agree({.inputs = {{ElementType::bf16, {64, 64}}, {ElementType::bf16, {192, 64}}}, .output = {ElementType::f32, {64, 64}}, .num_warps = 4, .tolerance = 2e-2,
         .target = Target::sm_90a(), .uses = "mma.sync"}, [&](Builder& b, auto& v) {
    auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
    const Value doubled = b.binary(Opcode::add, load(b, v[0], {64, 64}), load(b, v[0], {64, 64}));
    const ir::OperationId loop = b.for_loop(number(0), number(192), number(64), {b.splat(Type::tile(ElementType::f32, {64, 64}), 0.0)},
                                            {{ir::AttributeName::stages, std::int64_t{2}}});
    const ir::BlockId here = b.insertion_block();
    b.set_insertion_block(b.function().operation(loop).blocks[0]);
    const Value k = b.argument(loop, 0, 0), sum = b.argument(loop, 0, 1), y = b.view_load(v[1], {k, number(0)}, {64, 64});
    b.yield({b.dot(doubled, y, sum)});
    b.set_insertion_block(here);
    store(b, v[2], b.results(loop)[0]);
  });
}

TEST_CASE("dot: operands from views that nothing is known of") {
  for (ElementType element : {ElementType::bf16, ElementType::f32}) {
    agree({.inputs = {{element, {33, 40}}, {element, {37, 24}}}, .output = {ElementType::f32, {33, 24}}, .tolerance = 2e-3, .aligned = false}, [&](Builder& b, auto& v) {
      const Value x = load(b, v[0], {48, 48}), y = load(b, v[1], {48, 32});
      store(b, v[2], b.dot(x, y, b.splat(Type::tile(ElementType::f32, {48, 32}), 0.0), "tf32"));
    });
  }
}

TEST_CASE("reductions along every axis, over registers, lanes and warps") {
  for (const Shape& shape : {Shape{1000}, {64, 96}, {3, 40}, {128, 1}, {2, 16, 24}}) {
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      for (int warps : {1, 4}) {
        for (const char* kind : {"sum", "max", "min"}) {
          for (ElementType element : {ElementType::f32, ElementType::i32, ElementType::bf16, ElementType::f64}) {
            if (element != ElementType::f32 && (warps != 4 || kind[0] != 's')) continue;
            CAPTURE(kind);
            CAPTURE(axis);
            Shape rest = shape;
            rest.erase(rest.begin() + axis);
            if (rest.empty()) rest = {1};
            agree({.inputs = {{element, shape}}, .output = {element, rest}, .num_warps = warps, .tolerance = element == ElementType::bf16 ? 1e-1 : 1e-5}, [&](Builder& b, auto& v) {
              Value sum = b.reduce(kind, load(b, v[0], shape), axis);
              if (b.type(sum).rank == 0) sum = b.broadcast(sum, {1});
              store(b, v[1], sum);
            });
          }
        }
      }
    }
  }
}

TEST_CASE("a user's own reduction: the largest element and its place") {
  agree({.inputs = {{ElementType::f32, {24, 96}}}, .output = {ElementType::i32, {24}}}, [&](Builder& b, auto& v) {
    const Value x = load(b, v[0], {24, 96});
    const Value place = b.broadcast(b.expand_dims(b.arange(96), 0), {24, 96});
    const ir::OperationId reduce = b.reduce_custom({x, place}, 1);
    const ir::BlockId here = b.insertion_block();
    b.set_insertion_block(b.function().operation(reduce).blocks[0]);
    const Value a = b.argument(reduce, 0, 0), i = b.argument(reduce, 0, 1), c = b.argument(reduce, 0, 2), j = b.argument(reduce, 0, 3);
    const Value first = b.binary(Opcode::bit_or, b.binary(Opcode::gt, a, c), b.binary(Opcode::bit_and, b.binary(Opcode::eq, a, c), b.binary(Opcode::lt, i, j)));
    b.yield({b.select(first, a, c), b.select(first, i, j)});
    b.set_insertion_block(here);
    store(b, v[1], b.results(reduce)[1]);
  });
}

TEST_CASE("math functions of f32, f64, bf16 and f16") {
  for (ElementType element : {ElementType::f32, ElementType::f64, ElementType::bf16, ElementType::f16}) {
    for (Opcode opcode : {Opcode::exp, Opcode::exp2, Opcode::sin, Opcode::cos, Opcode::tanh, Opcode::erf, Opcode::abs, Opcode::floor, Opcode::ceil, Opcode::round, Opcode::trunc,
                          Opcode::sqrt, Opcode::log, Opcode::log2, Opcode::rsqrt}) {
      const bool positive = opcode == Opcode::sqrt || opcode == Opcode::log || opcode == Opcode::log2 || opcode == Opcode::rsqrt;
      const double tolerance = element == ElementType::f64 ? 1e-13 : element == ElementType::f32 ? 1e-6 : element == ElementType::f16 ? 1e-3 : 8e-3;
      CAPTURE(name(element));
      CAPTURE(ir::name(opcode));
      agree({.inputs = {{element, {300}}}, .output = {element, {300}}, .num_warps = 2, .tolerance = tolerance}, [&](Builder& b, auto& v) {
        Value x = load(b, v[0], {300});
        if (positive) x = b.binary(Opcode::add, b.unary(Opcode::abs, x), b.splat(Type::tile(element, {300}), 0.125));
        store(b, v[1], b.unary(opcode, x));
      });
    }
    agree({.inputs = {{element, {200}}, {element, {200}}}, .output = {element, {200}}, .tolerance = element == ElementType::f64 ? 1e-12 : element == ElementType::f32 ? 2e-6 : 1e-2},
          [&](Builder& b, auto& v) { store(b, v[2], b.binary(Opcode::pow, b.unary(Opcode::abs, load(b, v[0], {200})), load(b, v[1], {200}))); });
  }
}

TEST_CASE("a select on an unlikely condition skips what only it needs, per warp") {
  // Rows where x > 1.5 are squared; the condition is per row and stretches over the columns.
  for (const bool whole_tile : {false, true}) {
    agree({.inputs = {{ElementType::f32, {64, 1}}, {ElementType::f32, {64, 32}}}, .output = {ElementType::f32, {64, 32}}}, [&](Builder& b, auto& v) {
      const Value x = load(b, v[1], {64, 32});
      const Value asked = whole_tile ? x : load(b, v[0], {64, 1});
      const Value rare = b.unary(Opcode::unlikely, b.binary(Opcode::gt, asked, b.constant(ElementType::f32, 1.5)));
      store(b, v[2], b.select(rare, b.binary(Opcode::mul, x, x), x));
    });
  }
}

TEST_CASE("choices on conditions of several terms") {
  for (const ElementType element : {ElementType::f32, ElementType::i32, ElementType::bf16, ElementType::f64}) {
    agree({.inputs = {{element, {40, 48}}, {element, {40, 48}}}, .output = {element, {40, 48}}}, [&](Builder& b, auto& v) {
      const Value x = load(b, v[0], {40, 48}), y = load(b, v[1], {40, 48});
      const Value less = b.binary(Opcode::lt, x, y), small = b.binary(Opcode::lt, x, b.constant(ElementType::i32, std::int64_t{1}));
      const Value equal = b.binary(Opcode::eq, y, b.constant(ElementType::i32, std::int64_t{0}));
      store(b, v[2], b.select(b.binary(Opcode::bit_or, b.binary(Opcode::bit_and, less, small), equal), x, y));
    });
  }
}

TEST_CASE("tiles change their shape and place") {
  for (ElementType element : {ElementType::f32, ElementType::i8, ElementType::i1, ElementType::f64}) {
    CAPTURE(name(element));
    agree({.inputs = {{element, {48, 80}}}, .output = {element, {80, 48}}}, [&](Builder& b, auto& v) { store(b, v[1], b.transpose(load(b, v[0], {48, 80}))); });
    agree({.inputs = {{element, {48, 80}}}, .output = {element, {96, 40}}}, [&](Builder& b, auto& v) { store(b, v[1], b.reshape(load(b, v[0], {48, 80}), {96, 40})); });
    agree({.inputs = {{element, {6, 40}}}, .output = {element, {40, 6}}, .num_warps = 8}, [&](Builder& b, auto& v) { store(b, v[1], b.reshape(load(b, v[0], {6, 40}), {40, 6})); });
  }
  agree({.inputs = {{ElementType::f32, {4, 24, 16}}}, .output = {ElementType::f32, {16, 4, 24}}}, [&](Builder& b, auto& v) {
    store(b, v[1], b.transpose(load(b, v[0], {4, 24, 16}), {2, 0, 1}));
  });
}

TEST_CASE("gather: what lies outside of the view is 0, for single elements and for runs of neighbours") {
  for (const bool aligned : {false, true}) {
    for (const Shape& table : {Shape{12, 32}, Shape{12, 36}, Shape{40, 4}}) {
      agree({.inputs = {{ElementType::f32, table}, {ElementType::i32, {16}}}, .output = {ElementType::f32, {64, 48}}, .aligned = aligned}, [&](Builder& b, auto& v) {
        auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
        const Value rows = b.broadcast(b.expand_dims(b.binary(Opcode::sub, b.arange(16), number(2)), 1), {16, 48});
        const Value columns = b.broadcast(b.expand_dims(b.binary(Opcode::sub, b.arange(48), number(8)), 0), {16, 48});
        auto put = [&](int row, Value x) { b.view_store(v[2], x, {number(row), number(0)}); };
        put(0, b.gather(v[0], {rows, columns}));
        put(16, b.gather(v[0], {rows, columns}, b.binary(Opcode::lt, b.binary(Opcode::add, rows, columns), number(20))));
        const Value scattered = b.broadcast(b.expand_dims(b.binary(Opcode::mul, load(b, v[1], {16}), number(3)), 1), {16, 48});
        put(32, b.gather(v[0], {scattered, columns}));
        put(48, b.broadcast(b.gather(v[0], {number(-1), number(1)}), {16, 48}));
      });
    }
  }
}

TEST_CASE("a tensor is written in place, in another order than it is read") {
  agree({.inputs = {{ElementType::f32, {256}}}, .output = {ElementType::f32, {256}}, .num_warps = 8}, [&](Builder& b, auto& v) {
    store(b, v[1], load(b, v[0], {256}));
    const Value backwards = b.binary(Opcode::sub, b.constant(ElementType::i32, std::int64_t{255}), b.arange(256));
    const Value base = b.view_base(v[1]);
    const Value turned = b.load(b.binary(Opcode::offset, base, backwards));
    b.store(b.binary(Opcode::offset, base, b.arange(256)), turned);
    b.store(b.binary(Opcode::offset, base, b.binary(Opcode::mul, b.arange(128), b.constant(ElementType::i32, std::int64_t{2}))), b.splat(Type::tile(ElementType::f32, {128}), 7.0));
  });
}

TEST_CASE("atomic updates count once, whatever threads hold copies, and give back the old value") {
  for (int warps : {1, 4}) {
    agree({.inputs = {{ElementType::i32, {20}}}, .output = {ElementType::i32, {64}}, .num_warps = warps}, [&](Builder& b, auto& v) {
      auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
      const Value base = b.view_base(v[1]), i = b.arange(20), x = load(b, v[0], {20});
      b.atomic("add", b.binary(Opcode::offset, base, b.binary(Opcode::rem, i, number(5))), x, b.binary(Opcode::lt, i, number(17)));
      b.atomic("max", b.binary(Opcode::offset, base, number(6)), b.reduce("max", x, 0), {}, "release", "cta");
      const Value old = b.atomic("exchange", b.binary(Opcode::offset, base, b.binary(Opcode::add, i, number(8))), x, {}, "acq_rel", "gpu");
      b.store(b.binary(Opcode::offset, base, b.binary(Opcode::add, i, number(32))), old);
      const Value swapped = b.atomic_cas(b.binary(Opcode::offset, base, number(60)), number(12345), number(1), "acquire", "sys");
      b.store(b.binary(Opcode::offset, base, number(61)), b.binary(Opcode::add, swapped, number(1)));
    });
  }
}

TEST_CASE("dot: two loops with rings of the same size, one behind the other") {
  agree({.inputs = {{ElementType::bf16, {64, 192}}, {ElementType::bf16, {192, 64}}}, .output = {ElementType::f32, {64, 64}}, .num_warps = 4, .tolerance = 2e-3,
         .target = Target::sm_90a(), .uses = "wgmma.mma_async"}, [&](Builder& b, auto& v) {
    auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
    Value sum = b.splat(Type::tile(ElementType::f32, {64, 64}), 0.0);
    for (int round = 0; round < 2; ++round) {
      const ir::OperationId loop = b.for_loop(number(0), number(192), number(64), {sum}, {{ir::AttributeName::stages, std::int64_t{2}}});
      const ir::BlockId here = b.insertion_block();
      b.set_insertion_block(b.function().operation(loop).blocks[0]);
      const Value k = b.argument(loop, 0, 0);
      b.yield({b.dot(b.view_load(v[0], {number(0), k}, {64, 64}), b.view_load(v[1], {k, number(0)}, {64, 64}), b.argument(loop, 0, 1))});
      b.set_insertion_block(here);
      sum = b.results(loop)[0];
    }
    store(b, v[2], sum);
  });
}

TEST_CASE("dot: a loop between ends that are more than 2^31 apart, the wrong way round, runs never") {
  agree({.inputs = {{ElementType::i32, {2}}, {ElementType::bf16, {192, 64}}}, .output = {ElementType::f32, {64, 64}}, .num_warps = 4, .tolerance = 2e-3, .target = Target::sm_90a()},
        [&](Builder& b, auto& v) {
    auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
    const Value bit = b.binary(Opcode::bit_and, b.gather(v[0], {number(0)}), number(1));
    const Value lower = b.binary(Opcode::add, bit, number(1 << 30)), upper = b.binary(Opcode::sub, number(-(1 << 30) - 64), bit);
    const ir::OperationId loop = b.for_loop(lower, upper, number(64), {b.splat(Type::tile(ElementType::f32, {64, 64}), 0.0)}, {{ir::AttributeName::stages, std::int64_t{2}}});
    const ir::BlockId here = b.insertion_block();
    b.set_insertion_block(b.function().operation(loop).blocks[0]);
    const Value k = b.argument(loop, 0, 0);
    b.yield({b.dot(b.view_load(v[1], {k, number(0)}, {64, 64}), b.view_load(v[1], {k, number(0)}, {64, 64}), b.argument(loop, 0, 1))});
    b.set_insertion_block(here);
    store(b, v[2], b.results(loop)[0]);
  });
}
