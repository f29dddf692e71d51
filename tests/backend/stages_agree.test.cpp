// After every pass a kernel still computes the same: each stage's text is parsed and run by the plain interpreter.
// The data are small integers, so every order of sums and every rounding gives the same numbers.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>

#include "support/interpreter.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

/// What one generated kernel does.
struct Shape {
  int m, n, k, stages, warps;
  bool transposed;      // right is stored [N, K]
  bool listed;          // the loop's offsets come from a list in memory
  bool second;          // a second matmul takes the first one's result, as attention does
  bool branch;          // the loop chooses per iteration
};

/// left view<2xbf16>, right view<2xbf16>, list view<1xi32>, out view<2xf32>, trips i32.
ir::Function kernel(const Shape& shape) {
  ir::Function function("stages", {{.name = "left", .type = Type::view(ElementType::bf16, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                   {.name = "right", .type = Type::view(ElementType::bf16, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                   {.name = "list", .type = Type::view(ElementType::i32, 1), .read_only = true},
                                   {.name = "out", .type = Type::view(ElementType::f32, 2)},
                                   {.name = "trips", .type = Type::scalar(ElementType::i32)}});
  function.num_warps = shape.warps;
  ir::Builder builder(function);
  const Value left = function.parameter(0), right = function.parameter(1), list = function.parameter(2), out = function.parameter(3);
  auto integer = [&](std::int64_t value) { return builder.constant(ElementType::i32, value); };
  const Value start = builder.splat(Type::tile(ElementType::f32, {shape.m, shape.n}), 0.0);
  const Value zero = integer(0);
  const ir::OperationId loop = builder.for_loop(zero, function.parameter(4), integer(1), {start}, {{ir::AttributeName::stages, std::int64_t{shape.stages}}});
  const ir::BlockId block = function.operation(loop).blocks[0];
  builder.set_insertion_block(block);
  const Value i = function.block(block).arguments[0], carried = function.block(block).arguments[1];
  const Value step = shape.listed ? builder.gather(list, {i}) : i;
  const Value at = builder.binary(Opcode::mul, step, integer(shape.k));
  const Value a = builder.view_load(left, {zero, at}, {shape.m, shape.k});
  const Value b = shape.transposed ? builder.transpose(builder.view_load(right, {zero, at}, {shape.n, shape.k})) : builder.view_load(right, {at, zero}, {shape.k, shape.n});
  Value product;
  if (shape.second) {
    const Value scores = builder.dot(a, b, builder.splat(Type::tile(ElementType::f32, {shape.m, shape.n}), 0.0));
    const Value small = builder.cast(builder.binary(Opcode::min, scores, builder.constant(ElementType::f32, 3.0)), ElementType::bf16);
    product = builder.dot(small, builder.view_load(right, {at, zero}, {shape.n, shape.n}), carried);
  } else {
    product = builder.dot(a, b, carried);
  }
  if (shape.branch) {
    const ir::OperationId choice = builder.if_else(builder.binary(Opcode::eq, builder.binary(Opcode::bit_and, step, integer(1)), zero), {builder.type(product)});
    builder.set_insertion_block(function.operation(choice).blocks[0]);
    builder.yield({builder.binary(Opcode::add, product, builder.broadcast(builder.expand_dims(builder.reduce("max", product, 1), 1), {shape.m, shape.n}))});
    builder.set_insertion_block(function.operation(choice).blocks[1]);
    builder.yield({product});
    builder.set_insertion_block(block);
    product = builder.results(choice)[0];
  }
  builder.yield({product});
  builder.set_insertion_block(function.body());
  builder.view_store(out, builder.results(loop)[0], {zero, zero});
  builder.return_values();
  return function;
}

/// Memory and arguments; sizes leave the last tiles partly outside.
struct Arguments {
  static constexpr int rows = 300, columns = 304;
  std::vector<bf16> left, right;
  std::vector<std::int32_t> list{3, 0, 2, 2, 5, 1};
  std::vector<float> out = std::vector<float>(100 * 100, -1.0f);
  std::int32_t trips;

  Arguments(unsigned seed, int trip_count) : trips(trip_count) {
    std::mt19937 random(seed);
    for (std::vector<bf16>* data : {&left, &right}) {
      for (int i = 0; i < rows * columns; ++i) data->push_back(bf16(static_cast<float>(static_cast<int>(random() % 5) - 2)));
    }
  }

  std::vector<float> run(const ir::Function& function) {
    void *left_base = left.data(), *right_base = right.data(), *list_base = list.data(), *out_base = out.data();
    std::int32_t sizes[2] = {90, 90}, list_sizes[1] = {6}, out_sizes[2] = {100, 100};
    std::int64_t strides[2] = {columns, 1}, list_strides[1] = {1}, out_strides[2] = {100, 1};
    void* pointers[] = {&left_base,   &sizes[0],   &sizes[1],        &strides[0],   &strides[1],   &right_base,     &sizes[0],       &sizes[1], &strides[0],
                        &strides[1], &list_base, &list_sizes[0], &list_strides[0], &out_base, &out_sizes[0], &out_sizes[1], &out_strides[0], &out_strides[1], &trips};
    test::interpret(function, pointers, {{0, 0, 0}, {1, 1, 1}});
    return out;
  }
};

void check(const Shape& shape, const Target& target, int trips) {
  const CompiledKernel compiled = compile(kernel(shape), target, {.keep_stages = true, .binary = false});
  const std::vector<float> expected = Arguments(1, trips).run(kernel(shape));
  for (const Stage& stage : compiled.stages) {
    const std::vector<float> actual = Arguments(1, trips).run(ir::parse(stage.text));
    INFO("after " << stage.pass << " for " << target.name() << ", " << trips << " trips, " << shape.stages << " stages:\n" << stage.text);
    const bool equal = actual == expected;
    REQUIRE(equal);
  }
}

}  // namespace

TEST_CASE("every stage of a matmul loop computes the same") {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int trips : {0, 1, 2, 5}) check({.m = 32, .n = 32, .k = 16, .stages = stages, .warps = 4, .transposed = stages % 2 == 0, .listed = false, .second = false, .branch = false}, Target::sm_80(), trips);
  }
}

TEST_CASE("every stage computes the same where offsets come from a list, with branches, and for tiles of any size") {
  check({.m = 48, .n = 32, .k = 32, .stages = 3, .warps = 4, .transposed = false, .listed = true, .second = false, .branch = true}, Target::sm_80(), 6);
  check({.m = 16, .n = 48, .k = 16, .stages = 2, .warps = 1, .transposed = true, .listed = true, .second = false, .branch = false}, Target::sm_90a(), 5);
  check({.m = 32, .n = 32, .k = 48, .stages = 4, .warps = 2, .transposed = false, .listed = false, .second = false, .branch = true}, Target::host(), 3);
}

TEST_CASE("every stage of attention's two matmuls computes the same") {
  for (const int stages : {1, 2, 3}) {
    check({.m = 32, .n = 32, .k = 32, .stages = stages, .warps = 4, .transposed = true, .listed = true, .second = true, .branch = false}, Target::sm_80(), 4);
    check({.m = 64, .n = 16, .k = 16, .stages = stages, .warps = 4, .transposed = true, .listed = false, .second = true, .branch = true}, Target::sm_90a(), 3);
  }
}

TEST_CASE("every stage gives the same numbers: rings of the copy engine, products in flight") {
  for (const int stages : {2, 3}) {
    for (const int trips : {0, 1, 2, 5}) {
      for (const bool listed : {false, true}) {
        for (const bool second : {false, true}) {
          check({.m = 64, .n = 64, .k = 64, .stages = stages, .warps = 4, .transposed = true, .listed = listed, .second = second, .branch = false}, Target::sm_90a(), trips);
        }
      }
    }
  }
  auto says = [](const Shape& shape, const char* word) { return compile(kernel(shape), Target::sm_90a(), {.binary = false}).explain().find(word) != std::string::npos; };
  Shape shape{.m = 64, .n = 64, .k = 64, .stages = 2, .warps = 4, .transposed = true, .listed = false, .second = false, .branch = false};
  for (const bool second : {false, true}) {
    shape.second = second;
    CHECK(says(shape, "by the copy engine"));
    CHECK(says(shape, "while other work of the loop goes on"));
  }
}

TEST_CASE("the interpreter notices a bulk store that is not waited for") {
  ir::Function function("stores", {{.name = "a", .type = Type::view(ElementType::bf16, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                   {.name = "b", .type = Type::view(ElementType::bf16, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                   {.name = "c", .type = Type::view(ElementType::bf16, 2), .aligned = true, .unit_stride = true}});
  ir::Builder builder(function);
  const Value zero = builder.constant(ElementType::i32, std::int64_t{0});
  const ir::OperationId loop = builder.for_loop(zero, builder.view_size(function.parameter(0), 1), builder.constant(ElementType::i32, std::int64_t{64}), {builder.splat(Type::tile(ElementType::f32, {64, 192}), 0.0)},
                                                {{ir::AttributeName::stages, std::int64_t{2}}});
  builder.set_insertion_block(function.operation(loop).blocks[0]);
  const Value at = builder.argument(loop, 0, 0);
  builder.yield({builder.dot(builder.view_load(function.parameter(0), {zero, at}, {64, 64}), builder.view_load(function.parameter(1), {at, zero}, {64, 192}), builder.argument(loop, 0, 1))});
  builder.set_insertion_block(function.body());
  builder.view_store(function.parameter(2), builder.cast(builder.results(loop)[0], ElementType::bf16), {zero, zero});
  builder.return_values();
  const CompiledKernel compiled = compile(function, Target::sm_90a(), {.keep_stages = true, .binary = false});
  std::mt19937 random(7);
  std::vector<bf16> a, b;
  for (int i = 0; i < 64 * 128; ++i) a.push_back(bf16(static_cast<float>(static_cast<int>(random() % 5) - 2)));
  for (int i = 0; i < 128 * 192; ++i) b.push_back(bf16(static_cast<float>(static_cast<int>(random() % 5) - 2)));
  auto run = [&](const ir::Function& stage) {
    std::vector<bf16> c(64 * 192, bf16(-1.0f));
    void *a_base = a.data(), *b_base = b.data(), *c_base = c.data();
    std::int32_t a_sizes[2] = {64, 128}, b_sizes[2] = {128, 192}, c_sizes[2] = {64, 192};
    std::int64_t a_strides[2] = {128, 1}, b_strides[2] = {192, 1}, c_strides[2] = {192, 1};
    void* pointers[] = {&a_base,       &a_sizes[0],   &a_sizes[1],   &a_strides[0], &a_strides[1], &b_base,       &b_sizes[0],  &b_sizes[1],
                        &b_strides[0], &b_strides[1], &c_base,       &c_sizes[0],   &c_sizes[1],   &c_strides[0], &c_strides[1]};
    test::interpret(stage, pointers, {{0, 0, 0}, {1, 1, 1}});
    std::vector<float> numbers;
    for (const bf16 each : c) numbers.push_back(static_cast<float>(each));
    return numbers;
  };
  const std::vector<float> expected = run(function);
  std::string text;
  for (const Stage& stage : compiled.stages) {
    INFO("after " << stage.pass);
    const bool equal = run(ir::parse(stage.text)) == expected;
    CHECK(equal);
    if (stage.pass == "bulk_stores") text = stage.text;
  }
  REQUIRE(text.find("bulk_store") != std::string::npos);
  ir::Function stored = ir::parse(text);
  int noticed = 0;
  for (std::uint32_t id = 0; id < stored.operation_count(); ++id) {
    ir::Operation& operation = stored.operation(ir::OperationId{id});
    if (operation.opcode != Opcode::bulk_wait) continue;
    const ir::Attributes before = operation.attributes;
    operation.attributes.set(ir::AttributeName::pending, before.integer(ir::AttributeName::pending) + 2);
    noticed += run(stored) != expected;
    operation.attributes = before;
  }
  CHECK(noticed == 1);   // the wait before the third piece; the others are for other programs' tiles and for the end
}

TEST_CASE("the interpreter notices a ring that waits for too little") {
  const Shape shape{.m = 32, .n = 32, .k = 16, .stages = 3, .warps = 4, .transposed = false, .listed = false, .second = false, .branch = false};
  const CompiledKernel compiled = compile(kernel(shape), Target::sm_80(), {.keep_stages = true, .binary = false});
  const std::vector<float> expected = Arguments(1, 5).run(kernel(shape));
  std::string text;
  for (const Stage& stage : compiled.stages) {
    if (stage.pass == "pipeline_loads") text = stage.text;
  }
  REQUIRE(text.find("async_wait") != std::string::npos);

  ir::Function function = ir::parse(text);
  int waits = 0;
  for (std::uint32_t id = 0; id < function.operation_count(); ++id) {
    ir::Operation& operation = function.operation(ir::OperationId{id});
    if (operation.opcode != Opcode::async_wait) continue;
    ++waits;
    const ir::Attributes before = operation.attributes;
    operation.attributes.set(ir::AttributeName::pending, before.integer(ir::AttributeName::pending) + 2);    // left and right of one iteration
    const bool noticed = Arguments(1, 5).run(function) != expected;
    CHECK(noticed);
    operation.attributes = before;
  }
  CHECK(waits > 0);
  const bool restored = Arguments(1, 5).run(function) == expected;
  CHECK(restored);
}
