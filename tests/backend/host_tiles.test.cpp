// Tiles through reductions, reshapes, loops and branches, against the interpreter; and code for other CPUs than this one.
#include "host_run.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

const int edge = 40;

/// x: 40 x 40 f32 read only, out: 40 x 40 of `element`.
ir::Function start(const char* name, ElementType element = ElementType::f32) {
  return ir::Function(name, {{.name = "x", .type = Type::view(ElementType::f32, 2), .unit_stride = true}, {.name = "out", .type = Type::view(element, 2), .unit_stride = true}});
}

Value integer(ir::Builder& b, std::int64_t value) { return b.constant(ElementType::i32, value); }
Value load(ir::Builder& b, const ir::Shape& shape, int row = 0) { return b.view_load(b.function().parameter(0), {integer(b, row), integer(b, 0)}, shape); }
void store(ir::Builder& b, Value value, int row = 0, int column = 0) { b.view_store(b.function().parameter(1), value, {integer(b, row), integer(b, column)}); }

template <class T = float> void check(const ir::Function& function, double tolerance = 1e-6, const Target& target = Target::host()) {
  CAPTURE(function.name);
  std::vector<float> x = test::random_floats(edge * edge, 11);
  x[5] = x[81] = std::numeric_limits<float>::quiet_NaN();
  std::vector<T> got(edge * edge, T(-7)), expected = got;
  test::Arguments ours, reference;
  ours.view(x.data(), {edge, edge}).view(got.data(), {edge, edge});
  reference.view(x.data(), {edge, edge}).view(expected.data(), {edge, edge});
  const HostModule module(compile(function, target));
  const HostProgram program{{0, 0, 0}, {1, 1, 1}};
  module.entry()(ours.data(), &program);
  test::interpret(function, reference.data(), program);
  test::check_close(got, expected, tolerance);
}

}  // namespace

TEST_CASE("reductions along every axis, of shapes that no vector divides") {
  for (const char* kind : {"sum", "max", "min", "prod"}) {
    for (const ir::Shape& shape : {ir::Shape{13, 21}, ir::Shape{32, 40}, ir::Shape{1, 40}, ir::Shape{40, 1}, ir::Shape{3, 7}}) {
      for (const int axis : {0, 1}) {
        CAPTURE(kind);
        CAPTURE(axis);
        CAPTURE(ir::to_string(shape));
        ir::Function function = start("reduce");
        ir::Builder b(function);
        const Value x = b.select(b.binary(Opcode::eq, load(b, shape), load(b, shape)), load(b, shape), b.constant(ElementType::f32, 0.5));
        store(b, b.expand_dims(b.reduce(kind, std::string_view(kind) == "prod" ? x : load(b, shape), axis), axis));
        b.return_values();
        check(function, 1e-5);
      }
    }
  }
}

TEST_CASE("narrow sums are kept in f32 and rounded once") {
  const int rows = 24;
  for (const int axis : {0, 1}) {
    ir::Function function = start("narrow", ElementType::bf16);
    ir::Builder b(function);
    store(b, b.expand_dims(b.reduce("sum", b.cast(load(b, {rows, edge}), ElementType::bf16), axis), axis));
    b.return_values();
    const std::vector<float> x = test::random_floats(edge * edge, 12);
    std::vector<bf16> got(edge * edge, bf16(0)), expected = got;
    for (int i = 0; i < (axis == 0 ? edge : rows); ++i) {
      double sum = 0;
      for (int j = 0; j < (axis == 0 ? rows : edge); ++j) sum += bf16(x[static_cast<std::size_t>(axis == 0 ? j * edge + i : i * edge + j)]);
      expected[static_cast<std::size_t>(axis == 0 ? i : i * edge)] = bf16(static_cast<float>(sum));
    }
    test::Arguments arguments;
    arguments.view(x.data(), {edge, edge}).view(got.data(), {edge, edge});
    test::run_host(function, arguments);
    test::check_close(got, expected, 0.004);
  }
}

TEST_CASE("reshapes and transposes of stored and of lazy tiles") {
  ir::Function function = start("shapes");
  ir::Builder b(function);
  const Value x = load(b, {12, 20});
  const Value turned = b.transpose(b.reshape(b.transpose(x), {8, 30}));
  store(b, b.binary(Opcode::add, turned, b.broadcast(b.reduce("max", turned, 0), {30, 8})));
  const Value index = b.reshape(b.arange(60), {5, 12});
  store(b, b.cast(b.binary(Opcode::mul, index, index), ElementType::f32), 32);
  store(b, b.reshape(b.reduce("sum", b.reduce("sum", b.reshape(load(b, {8, 24}, 9), {4, 2, 24}), 1), 1), {4, 1}), 0, 30);
  b.return_values();
  check(function, 1e-5);
}

TEST_CASE("carried tiles change places, stay, and are updated in place") {
  ir::Function function = start("carried");
  ir::Builder b(function);
  const Value x = load(b, {9, 17}), y = load(b, {9, 17}, 10), z = b.splat(Type::tile(ElementType::f32, {9, 17}), 2.0);
  const ir::OperationId loop = b.for_loop(integer(b, 0), integer(b, 5), integer(b, 1), {x, y, z, x});
  const ir::BlockId outer = b.insertion_block();
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const auto argument = [&](int i) { return b.argument(loop, 0, i); };
  const Value scaled = b.binary(Opcode::mul, argument(3), b.constant(ElementType::f32, 0.5));
  const ir::OperationId branch = b.if_else(b.binary(Opcode::lt, argument(0), integer(b, 3)), {b.type(x)});
  const ir::BlockId body = b.insertion_block();
  b.set_insertion_block(function.operation(branch).blocks[0]);
  b.yield({b.binary(Opcode::add, scaled, argument(1))});
  b.set_insertion_block(function.operation(branch).blocks[1]);
  b.yield({scaled});
  b.set_insertion_block(body);
  b.yield({argument(2), argument(1), b.binary(Opcode::add, argument(3), argument(3 - 1)), b.results(branch)[0]});
  b.set_insertion_block(outer);
  for (int i = 0; i < 4; ++i) store(b, b.results(loop)[static_cast<std::size_t>(i)], 10 * i);
  b.return_values();
  check(function);
}

TEST_CASE("a flash-attention loop agrees with the interpreter") {
  for (const ElementType element : {ElementType::f32, ElementType::bf16}) {
    ir::Function function = start("flash");
    ir::Builder b(function);
    const auto narrow = [&](Value value) { return element == ElementType::f32 ? value : b.cast(value, element); };
    const auto column = [&](Value value, int count) { return b.broadcast(b.expand_dims(value, 1), {16, count}); };
    const auto from = [&](Value row, const ir::Shape& shape) { return narrow(b.unary(Opcode::sin, b.view_load(function.parameter(0), {row, integer(b, 8)}, shape))); };
    const Value q = from(integer(b, 16), {16, 24});
    const ir::OperationId loop = b.for_loop(integer(b, 3), integer(b, 40), integer(b, 8),
                                            {b.splat(Type::tile(ElementType::f32, {16}), -1e30), b.splat(Type::tile(ElementType::f32, {16}), 0.0),
                                             b.splat(Type::tile(ElementType::f32, {16, 24}), 0.0)});
    const ir::BlockId outer = b.insertion_block();
    b.set_insertion_block(function.operation(loop).blocks[0]);
    const Value at = b.argument(loop, 0, 0), maximum = b.argument(loop, 0, 1), sum = b.argument(loop, 0, 2), total = b.argument(loop, 0, 3);
    const Value k = from(at, {8, 24});
    const Value s = b.dot(q, b.transpose(k), b.splat(Type::tile(ElementType::f32, {16, 8}), 0.0), "ieee");
    const Value visible = b.binary(Opcode::ge, b.broadcast(b.expand_dims(b.arange(16, 20), 1), {16, 8}), b.broadcast(b.expand_dims(b.binary(Opcode::add, b.arange(8), at), 0), {16, 8}));
    const Value masked = b.select(visible, s, b.splat(Type::tile(ElementType::f32, {16, 8}), -1e20));
    const Value next = b.binary(Opcode::max, maximum, b.reduce("max", masked, 1));
    const Value p = b.unary(Opcode::exp2, b.binary(Opcode::sub, masked, column(next, 8)));
    const Value alpha = b.unary(Opcode::exp2, b.binary(Opcode::sub, maximum, next));
    const Value next_sum = b.binary(Opcode::add, b.binary(Opcode::mul, sum, alpha), b.reduce("sum", p, 1));
    b.yield({next, next_sum, b.dot(narrow(p), k, b.binary(Opcode::mul, total, column(alpha, 24)), "ieee")});
    b.set_insertion_block(outer);
    store(b, b.binary(Opcode::div, b.results(loop)[2], column(b.results(loop)[1], 24)));
    b.return_values();
    check(function, element == ElementType::f32 ? 2e-5 : 2e-2);
  }
}

TEST_CASE("code for plain x86-64 and for AVX-512 machines compiles, the plain one runs here") {
#if defined(__x86_64__)
  ir::Function function = start("other_machines");
  ir::Builder b(function);
  const Value x = load(b, {20, 30}, 9);
  store(b, b.binary(Opcode::add, b.dot(x, b.transpose(x), b.splat(Type::tile(ElementType::f32, {20, 20}), 0.0), "ieee"), b.broadcast(b.expand_dims(b.reduce("max", b.unary(Opcode::exp, x), 1), 1), {20, 20})));
  b.return_values();
  check(function, 1e-5, Target::parse("host:x86-64"));
  check(function, 1e-5, Target::parse("host:x86-64-v2"));
  const CompiledKernel wide = compile(function, Target::parse("host:x86-64-v4"));
  CHECK(!wide.binary.empty());
  CHECK(wide.explain().find("vectors of 16 f32") != std::string::npos);
#endif
}
