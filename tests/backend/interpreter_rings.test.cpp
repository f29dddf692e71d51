// Rings in the plain interpreter: boxes of a tensor through a ring of two stages, right and with each fault.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <flextile/ir/builder.hpp>

#include "support/interpreter.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

/// What differs between the functions. The defaults are right.
struct Ring {
  bool copies = true, waits = true, releases = true;
  bool early = false;                      // releases before the stage is read
  int started = 2;                         // turns that are filled in front of the loop
  int again = 2;                           // turns ahead that a released stage is filled with
  int waited = 0;                          // turns ahead of the one that is read
  int row = 0, column = 0;                 // where the first box begins; each turn 8 rows further
};

constexpr int turns = 5, rows = 37, columns = 20;

/// x view<2xf32>, out view<2xf32>, count i32: out[8 x 16] is the sum of the boxes.
ir::Function sum_of_boxes(const Ring& ring) {
  ir::Function function("sum_of_boxes", {{.name = "x", .type = Type::view(ElementType::f32, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                         {.name = "out", .type = Type::view(ElementType::f32, 2)},
                                         {.name = "count", .type = Type::scalar(ElementType::i32)}});
  ir::Builder builder(function);
  const Value x = function.parameter(0), out = function.parameter(1), count = function.parameter(2);
  auto integer = [&](std::int64_t value) { return builder.constant(ElementType::i32, value); };
  auto create = [&](Opcode opcode, std::vector<Value> operands) { builder.create({.opcode = opcode, .operands = std::move(operands)}, {}); };
  const Type tile = Type::tile(ElementType::f32, {8, 16});
  const Value buffer =
      builder.results(builder.create({.opcode = Opcode::alloc_shared, .attributes = {{ir::AttributeName::barriers, std::int64_t{1}}}}, {Type::shared(ElementType::f32, {8, 16}, 2)}))[0];
  auto copy = [&](Value turn) {
    const Value row = builder.binary(Opcode::add, builder.binary(Opcode::mul, turn, integer(8)), integer(ring.row));
    if (ring.copies) create(Opcode::bulk_copy, {buffer, turn, x, row, integer(ring.column)});
  };
  const ir::BlockId filling = function.add_block();
  builder.create({.opcode = Opcode::ring_start, .operands = {buffer}, .blocks = {filling}}, {});
  builder.set_insertion_block(filling);
  for (int turn = 0; turn < ring.started; ++turn) copy(integer(turn));
  builder.yield({});

  builder.set_insertion_block(function.body());
  const ir::OperationId summing = builder.for_loop(integer(0), count, integer(1), {builder.splat(tile, 0.0)});
  const ir::BlockId body = function.operation(summing).blocks[0];
  builder.set_insertion_block(body);
  const Value turn = builder.argument(summing, 0, 0), sum = builder.argument(summing, 0, 1);
  auto release = [&] {
    const ir::BlockId again = function.add_block();
    builder.create({.opcode = Opcode::ring_release, .operands = {buffer, turn}, .blocks = {again}}, {});
    builder.set_insertion_block(again);
    copy(builder.binary(Opcode::add, turn, integer(ring.again)));
    builder.yield({});
    builder.set_insertion_block(body);
  };
  if (ring.waits) create(Opcode::ring_wait, {buffer, builder.binary(Opcode::add, turn, integer(ring.waited))});
  if (ring.releases && ring.early) release();
  const Value box = builder.results(builder.create({.opcode = Opcode::shared_load, .operands = {buffer, builder.binary(Opcode::rem, turn, integer(2))}}, {tile}))[0];
  if (ring.releases && !ring.early) release();
  builder.yield({builder.binary(Opcode::add, sum, box)});

  builder.set_insertion_block(function.body());
  builder.view_store(out, builder.results(summing)[0], {integer(0), integer(0)});
  builder.return_values();
  ir::verify(function, "after the test");
  return function;
}

/// "" if the numbers are right, "wrong numbers", or what was thrown.
std::string outcome(const Ring& ring) {
  std::vector<float> x(rows * columns), out(8 * 16, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1021);
  float *base = x.data(), *result = out.data();
  std::int32_t sizes[2] = {rows, columns}, out_sizes[2] = {8, 16}, count = turns;
  std::int64_t strides[2] = {columns, 1}, out_strides[2] = {16, 1};
  void* arguments[] = {&base, &sizes[0], &sizes[1], &strides[0], &strides[1], &result, &out_sizes[0], &out_sizes[1], &out_strides[0], &out_strides[1], &count};
  try {
    test::interpret(sum_of_boxes(ring), arguments, {{0, 0, 0}, {1, 1, 1}});
  } catch (const std::exception& error) {
    return error.what();
  }
  std::vector<float> expected(8 * 16, 0);
  for (int turn = 0; turn < turns; ++turn)
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 16; ++j) {
        const int row = ring.row + 8 * turn + i, column = ring.column + j;
        if (row >= 0 && row < rows && column >= 0 && column < columns) expected[static_cast<std::size_t>(16 * i + j)] += x[static_cast<std::size_t>(row * columns + column)];
      }
  return out == expected ? "" : "wrong numbers";
}

}  // namespace

TEST_CASE("the interpreter sums boxes through a ring of two stages") {
  CHECK(outcome({}) == "");
  CHECK(outcome({.row = -3, .column = 9}) == "");
  CHECK(outcome({.row = 5, .column = -7}) == "");
}

TEST_CASE("the interpreter notices every fault of a ring") {
  const std::string ring = " of a ring of 2 stages";
  CHECK(outcome({.releases = false}) == "interpreter: deadlock: the program waits for the copy of turn 2" + ring + ", which nobody started");
  CHECK(outcome({.copies = false}) == "interpreter: deadlock: the program waits for the copy of turn 0" + ring + ", which nobody started");
  CHECK(outcome({.started = 1}) == "interpreter: deadlock: the program waits for the copy of turn 1" + ring + ", which nobody started");
  CHECK(outcome({.started = 3}) == "interpreter: a copy of turn 2" + ring + " before the stage is released");
  CHECK(outcome({.again = 3}) == "interpreter: a copy of turn 3" + ring + " before the stage is released");
  CHECK(outcome({.again = 1}) == "interpreter: a second copy of turn 1" + ring);
  CHECK(outcome({.waits = false}) == "interpreter: a release of turn 0" + ring + ", which was not waited for");
  CHECK(outcome({.waited = 1}) == "interpreter: a release of turn 0" + ring + ", which was not waited for");
  CHECK(outcome({.waits = false, .releases = false}) == "wrong numbers");
  CHECK(outcome({.early = true}) == "wrong numbers");
}
