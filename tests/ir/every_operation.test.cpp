#include "ir/every_operation.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>

using namespace flextile;
using namespace flextile::ir;

namespace {

Function elementwise_function() {
  Function function("elementwise", {{"x", Type::pointer(ElementType::f32), true, true}, {"n", Type::scalar(ElementType::i32)}});
  Builder builder(function);
  builder.set_location("samples/elementwise.cpp", 3);
  Value i = builder.binary(Opcode::add, builder.arange(96),
                           builder.binary(Opcode::mul, builder.program_id(0), builder.constant(ElementType::i32, std::int64_t{96})));
  builder.set_location("samples/elementwise.cpp", 4);
  Value inside = builder.binary(Opcode::lt, i, function.parameter(1));
  Value x = builder.load(builder.offset(function.parameter(0), i), inside,
                         builder.constant(ElementType::f32, -std::numeric_limits<double>::infinity()));
  for (int opcode = static_cast<int>(Opcode::neg); opcode <= static_cast<int>(Opcode::erf); ++opcode) {
    Value operand = static_cast<Opcode>(opcode) == Opcode::bit_not ? i : static_cast<Opcode>(opcode) == Opcode::unlikely ? inside : x;
    builder.unary(static_cast<Opcode>(opcode), operand);
  }
  builder.bitcast(x, ElementType::i32);
  Value y = builder.cast(i, ElementType::f32);
  for (int opcode = static_cast<int>(Opcode::add); opcode <= static_cast<int>(Opcode::ge); ++opcode) {
    bool bits = static_cast<Opcode>(opcode) >= Opcode::bit_and && static_cast<Opcode>(opcode) <= Opcode::shr;
    builder.binary(static_cast<Opcode>(opcode), bits ? i : x, bits ? builder.num_programs(1) : y);
  }
  builder.fma(x, y, builder.constant(ElementType::f32, 0.1));
  builder.select(inside, x, y);
  builder.splat(Type::tile(ElementType::f64, {2, 3}), std::numeric_limits<double>::quiet_NaN());
  builder.splat(Type::tile(ElementType::u64, {2}), std::int64_t{-1});
  builder.return_values();
  return function;
}

Function memory_function() {
  Function function("memory \"of\" views", {{"a", Type::view(ElementType::bf16, 3), true, true, true},
                                            {"b", Type::view(ElementType::bf16, 2)},
                                            {"p", Type::pointer(ElementType::i32)},
                                            {"", Type::scalar(ElementType::i32)}});
  Builder builder(function);
  Value a = function.parameter(0), b = function.parameter(1), p = function.parameter(2), n = function.parameter(3);
  Value left = builder.view_load(a, {n, n, n}, {48, 80}, 0.5);
  Value right = builder.transpose(builder.view_load(a, {n, n, n}, {112, 80}));
  Value product = builder.dot(left, right, builder.splat(Type::tile(ElementType::f32, {48, 112}), 0.0));
  builder.view_store(b, builder.cast(product, ElementType::bf16), {n, n});
  Value row = builder.reshape(builder.arange(48), {48, 1});
  builder.gather(b, {row, builder.expand_dims(builder.arange(16), 0)}, builder.binary(Opcode::lt, row, builder.view_size(b, 0)));
  builder.gather(b, {n, n});
  builder.store(builder.offset(p, row), row);
  builder.offset(builder.view_base(b), builder.view_stride(b, 1));
  builder.atomic("add", p, n, {}, "acq_rel", "sys");
  builder.atomic_cas(p, n, n);
  Value sum = builder.reduce("sum", product, 1);
  builder.reduce("max", sum, -1);
  OperationId custom = builder.reduce_custom({product, product}, 0);
  builder.set_insertion_block(function.operation(custom).blocks[0]);
  builder.yield(
      {builder.binary(Opcode::add, builder.argument(custom, 0, 0), builder.argument(custom, 0, 2)), builder.argument(custom, 0, 3)});
  builder.set_insertion_block(function.body());
  builder.return_values();
  return function;
}

Function control_function() {
  Function function("control", {{"n", Type::scalar(ElementType::i32)}});
  function.num_warps = 8;
  Builder builder(function);
  Value n = function.parameter(0), zero = builder.constant(ElementType::i32, std::int64_t{0}),
        one = builder.constant(ElementType::i32, std::int64_t{1});
  Value start = builder.splat(Type::tile(ElementType::f32, {176}), 1.0);
  OperationId loop = builder.for_loop(zero, n, one, {start, n}, {{AttributeName::stages, std::int64_t{3}}});
  builder.set_insertion_block(function.operation(loop).blocks[0]);
  Value index = builder.argument(loop, 0, 0), carried = builder.argument(loop, 0, 1);
  OperationId choice = builder.if_else(builder.binary(Opcode::lt, index, n), {builder.type(carried)});
  builder.set_insertion_block(function.operation(choice).blocks[0]);
  builder.yield({builder.binary(Opcode::mul, carried, index)});
  builder.set_insertion_block(function.operation(choice).blocks[1]);
  builder.yield({carried});
  builder.set_insertion_block(function.operation(loop).blocks[0]);
  builder.yield({builder.results(choice)[0], index});
  builder.set_insertion_block(function.body());
  OperationId wait = builder.while_loop({builder.results(loop)[1]});
  builder.set_insertion_block(function.operation(wait).blocks[0]);
  builder.condition(builder.binary(Opcode::lt, builder.argument(wait, 0, 0), n), {builder.argument(wait, 0, 0)});
  builder.set_insertion_block(function.operation(wait).blocks[1]);
  builder.yield({builder.binary(Opcode::add, builder.argument(wait, 1, 0), one)});
  builder.set_insertion_block(function.body());
  builder.for_loop(zero, n, one, {});
  builder.set_insertion_block(function.block(BlockId{static_cast<std::uint32_t>(function.block_count() - 1)}).operations.empty()
                                  ? BlockId{static_cast<std::uint32_t>(function.block_count() - 1)}
                                  : function.body());
  builder.yield({});
  builder.set_insertion_block(function.body());
  builder.return_values({builder.results(loop)[0], builder.results(wait)[0]});
  return function;
}

Function shared_function() {
  Function function("shared", {{"a", Type::view(ElementType::f16, 2), true, true, true}, {"c", Type::view(ElementType::f16, 2), false, true, true}});
  Builder builder(function);
  Value a = function.parameter(0), zero = builder.constant(ElementType::i32, std::int64_t{0});
  auto one = [&](Operation operation, std::vector<Type> types) {
    OperationId id = builder.create(std::move(operation), types);
    return types.empty() ? Value{} : builder.results(id)[0];
  };
  Value buffer = one({.opcode = Opcode::alloc_shared,
                      .attributes = {{AttributeName::swizzle, std::int64_t{128}}, {AttributeName::offset, std::int64_t{1024}}}},
                     {Type::shared(ElementType::f16, {32, 64}, 3)});
  Value single = one({.opcode = Opcode::alloc_shared}, {Type::shared(ElementType::f16, {32, 64}, 1)});
  Value predicate = builder.constant(ElementType::i1, std::int64_t{1});
  Value token = one({.opcode = Opcode::async_copy,
                     .operands = {buffer, zero, a, zero, zero, predicate},
                     .attributes = {{AttributeName::has_predicate, std::int64_t{1}}}},
                    {Type::token()});
  one({.opcode = Opcode::async_wait, .operands = {token}, .attributes = {{AttributeName::pending, std::int64_t{0}}}}, {});
  one({.opcode = Opcode::barrier}, {});
  Value tile = one({.opcode = Opcode::shared_load, .operands = {buffer, zero}}, {Type::tile(ElementType::f16, {32, 64})});
  function.set_layout(tile, {{{2, 1, 1}, {8, 0, 1}}, {{32, 1, 2}}, {{4, 0, 8}}});
  Value other = one({.opcode = Opcode::convert_layout, .operands = {tile}}, {Type::tile(ElementType::f16, {32, 64})});
  function.set_layout(other, {{{4, 0, 1}, {16, 1, 1}}, {{8, 0, 4}, {4, -1, 0}}, {{4, 1, 16}}});
  one({.opcode = Opcode::shared_store, .operands = {single, zero, other}}, {});
  Value ring = one({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::swizzle, std::int64_t{128}}, {AttributeName::barriers, std::int64_t{1}}}},
                   {Type::shared(ElementType::f16, {32, 64}, 2)});
  Value sum = builder.splat(Type::tile(ElementType::f32, {32, 32}), 0.0);
  Value started = one({.opcode = Opcode::dot, .operands = {tile, builder.transpose(tile), sum}, .attributes = {{AttributeName::async, std::int64_t{1}}}}, {builder.type(sum)});
  one({.opcode = Opcode::product_wait, .operands = {started}, .attributes = {{AttributeName::pending, std::int64_t{1}}}}, {builder.type(sum)});
  one({.opcode = Opcode::product_wait, .operands = {started, sum}, .attributes = {{AttributeName::pending, std::int64_t{0}}}}, {builder.type(sum)});
  one({.opcode = Opcode::turn, .attributes = {{AttributeName::kind, std::string("take")}}}, {});
  BlockId filled = function.add_block(), refilled = function.add_block();
  one({.opcode = Opcode::ring_start, .operands = {ring}, .blocks = {filled}}, {});
  one({.opcode = Opcode::ring_wait, .operands = {ring, zero}}, {});
  one({.opcode = Opcode::ring_release, .operands = {ring, zero}, .blocks = {refilled}}, {});
  for (BlockId block : {filled, refilled}) {
    builder.set_insertion_block(block);
    one({.opcode = Opcode::bulk_copy, .operands = {ring, zero, a, zero, zero}}, {});
    builder.yield({});
  }
  builder.set_insertion_block(function.body());
  Value outgoing = one({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::swizzle, std::int64_t{128}}}}, {Type::shared(ElementType::f16, {64, 64}, 1)});
  one({.opcode = Opcode::matrix_store, .operands = {outgoing, zero, builder.splat(Type::tile(ElementType::f16, {64, 128}), 0.0)}, .attributes = {{AttributeName::start, std::int64_t{64}}}}, {});
  one({.opcode = Opcode::proxy_fence}, {});
  one({.opcode = Opcode::warpgroup_barrier}, {});
  one({.opcode = Opcode::bulk_store, .operands = {outgoing, zero, function.parameter(1), zero, zero}}, {});
  one({.opcode = Opcode::bulk_wait, .attributes = {{AttributeName::pending, std::int64_t{1}}}}, {});
  one({.opcode = Opcode::worker_id}, {Type::scalar(ElementType::i32)});
  one({.opcode = Opcode::num_workers}, {Type::scalar(ElementType::i32)});
  Value scalars = one({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::barriers, std::int64_t{1}}}}, {Type::shared(ElementType::i32, {3}, 2)});
  BlockId producer = function.add_block(), consumer = function.add_block(), put = function.add_block();
  builder.create({.opcode = Opcode::roles,
                  .blocks = {producer, consumer},
                  .attributes = {{AttributeName::registers, std::vector<std::int64_t>{40, 232}}}},
                 {});
  builder.set_insertion_block(producer);
  one({.opcode = Opcode::ring_refill, .operands = {scalars, zero}, .blocks = {put}, .attributes = {{AttributeName::warp, std::int64_t{3}}}}, {});
  builder.yield({});
  builder.set_insertion_block(put);
  Value program = one({.opcode = Opcode::take_program}, {Type::scalar(ElementType::i32)});
  one({.opcode = Opcode::ring_put, .operands = {scalars, zero, program, builder.view_stride(a, 0)}}, {});
  builder.yield({});
  builder.set_insertion_block(consumer);
  one({.opcode = Opcode::ring_get, .operands = {scalars, zero}}, {Type::scalar(ElementType::i32), Type::scalar(ElementType::i64)});
  builder.yield({});
  builder.set_insertion_block(function.body());
  builder.return_values();
  return function;
}

}  // namespace

std::vector<Function> flextile::ir::functions_with_every_operation() {
  return {elementwise_function(), memory_function(), control_function(), shared_function()};
}

TEST_CASE("the functions of this test use every operation and verify") {
  std::set<Opcode> seen;
  for (const Function& function : functions_with_every_operation()) {
    verify(function, "after the test");
    for (std::uint32_t i = 0; i < function.operation_count(); ++i) seen.insert(function.operation(OperationId{i}).opcode);
  }
  for (int i = 0; i < opcode_count; ++i) {
    INFO("operation ", std::string(name(static_cast<Opcode>(i))));
    CHECK(seen.count(static_cast<Opcode>(i)) == 1);
  }
}
