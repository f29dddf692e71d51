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
std::string outcome_of(const ir::Function& function, const Ring& ring) {
  std::vector<float> x(rows * columns), out(8 * 16, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1021);
  float *base = x.data(), *result = out.data();
  std::int32_t sizes[2] = {rows, columns}, out_sizes[2] = {8, 16}, count = turns;
  std::int64_t strides[2] = {columns, 1}, out_strides[2] = {16, 1};
  void* arguments[] = {&base, &sizes[0], &sizes[1], &strides[0], &strides[1], &result, &out_sizes[0], &out_sizes[1], &out_strides[0], &out_strides[1], &count};
  try {
    test::interpret(function, arguments, {{0, 0, 0}, {1, 1, 1}});
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

std::string outcome(const Ring& ring) { return outcome_of(sum_of_boxes(ring), ring); }

}  // namespace

TEST_CASE("the interpreter sums boxes through a ring of two stages") {
  CHECK(outcome(Ring{}) == "");
  CHECK(outcome(Ring{.row = -3, .column = 9}) == "");
  CHECK(outcome(Ring{.row = 5, .column = -7}) == "");
}

TEST_CASE("the interpreter notices every fault of a ring") {
  const std::string ring = " of a ring of 2 stages";
  CHECK(outcome(Ring{.releases = false}) == "interpreter: deadlock: the program waits for the copy of turn 2" + ring + ", which nobody started");
  CHECK(outcome(Ring{.copies = false}) == "interpreter: deadlock: the program waits for the copy of turn 0" + ring + ", which nobody started");
  CHECK(outcome(Ring{.started = 1}) == "interpreter: deadlock: the program waits for the copy of turn 1" + ring + ", which nobody started");
  CHECK(outcome(Ring{.started = 3}) == "interpreter: a copy of turn 2" + ring + " before the stage is released");
  CHECK(outcome(Ring{.again = 3}) == "interpreter: a copy of turn 3" + ring + " before the stage is released");
  CHECK(outcome(Ring{.again = 1}) == "interpreter: a second copy of turn 1" + ring);
  CHECK(outcome(Ring{.waits = false}) == "interpreter: a release of turn 0" + ring + ", which was not waited for");
  CHECK(outcome(Ring{.waited = 1}) == "interpreter: a release of turn 0" + ring + ", which was not waited for");
  CHECK(outcome(Ring{.waits = false, .releases = false}) == "wrong numbers");
  CHECK(outcome(Ring{.early = true}) == "wrong numbers");
}

// ---- roles

namespace {

/// A producer that hands a number over, and then fetches so many boxes; a consumer that sums up as many. The defaults are right.
struct Handing {
  bool puts = true, fetches = true;                     // the producer
  bool waits = true, releases = true;                   // the consumer, the number
  int kept = -1;                                        // the consumer never releases this box's stage
  int consumed = 0;                                     // boxes that the consumer reads more
  int numbers = 1;                                      // that the producer hands over in a row; the consumer asks for the first
};

class HandingKernel {
 public:
  explicit HandingKernel(const Handing& what)
      : function("handing", {test_view("x", true), test_view("out", false), {.name = "count", .type = Type::scalar(ElementType::i32)}}), builder(function), what_(what) {
    const Value zero = integer(0);
    scalars_ = ring_of(Type::shared(ElementType::i32, {1}, 2), function.num_warps + 4);
    boxes_ = ring_of(Type::shared(ElementType::f32, {8, 16}, 2), function.num_warps);
    block([&](ir::BlockId nothing) { create(Opcode::ring_start, {scalars_, boxes_}, {nothing}); }, [] {});
    const ir::BlockId producer = function.add_block(), consumer = function.add_block();
    builder.create({.opcode = Opcode::roles, .blocks = {producer, consumer}, .attributes = {{ir::AttributeName::registers, std::vector<std::int64_t>{0, 0}}}}, {});
    builder.return_values();
    builder.set_insertion_block(producer);
    produce(zero);
    builder.set_insertion_block(consumer);
    consume(zero);
    ir::verify(function, "after the test");
  }

  ir::Function function;

 private:
  static ir::Parameter test_view(const char* name, bool read_only) { return {.name = name, .type = Type::view(ElementType::f32, 2), .read_only = read_only, .aligned = true, .unit_stride = true}; }
  Value integer(std::int64_t value) { return builder.constant(ElementType::i32, value); }
  void create(Opcode opcode, std::vector<Value> operands, std::vector<ir::BlockId> blocks = {}) { builder.create({.opcode = opcode, .operands = std::move(operands), .blocks = std::move(blocks)}, {}); }
  Value ring_of(const Type& type, std::int64_t readers) {
    return builder.results(builder.create({.opcode = Opcode::alloc_shared, .attributes = {{ir::AttributeName::barriers, std::int64_t{1}}, {ir::AttributeName::readers, readers}}}, {type}))[0];
  }
  /// `owner` makes an operation with a block, which `fill` fills.
  template <class Owner, class Fill> void block(Owner owner, Fill fill) {
    const ir::BlockId outer = builder.insertion_block(), inner = function.add_block();
    owner(inner);
    builder.set_insertion_block(inner);
    fill();
    builder.yield({});
    builder.set_insertion_block(outer);
  }
  void refill(Value ring, Value turn, auto fill) {
    block([&](ir::BlockId inner) { create(Opcode::ring_refill, {ring, turn}, {inner}); }, fill);
  }
  void release(Value ring, Value turn) {
    block([&](ir::BlockId inner) { create(Opcode::ring_release, {ring, turn}, {inner}); }, [] {});
  }
  Value receive(Value turn, bool waits = true, bool releases = true) {
    if (waits) create(Opcode::ring_wait, {scalars_, turn});
    const Value number = builder.results(builder.create({.opcode = Opcode::ring_get, .operands = {scalars_, turn}}, {Type::scalar(ElementType::i32)}))[0];
    if (releases) release(scalars_, turn);
    return number;
  }
  template <class Body> void loop(Value count, Body body) {
    const ir::BlockId outer = builder.insertion_block();
    const ir::OperationId id = builder.for_loop(integer(0), count, integer(1), {});
    builder.set_insertion_block(function.operation(id).blocks[0]);
    body(builder.argument(id, 0, 0));
    builder.yield({});
    builder.set_insertion_block(outer);
  }

  void produce(Value zero) {
    refill(scalars_, zero, [&] {
      if (what_.puts) create(Opcode::ring_put, {scalars_, zero, function.parameter(2)});
    });
    loop(receive(zero), [&](Value turn) {
      refill(boxes_, turn, [&] {
        if (what_.fetches) create(Opcode::bulk_copy, {boxes_, turn, function.parameter(0), builder.binary(Opcode::mul, turn, integer(8)), integer(0)});
      });
    });
    for (int number = 1; number < what_.numbers; ++number) {
      refill(scalars_, integer(number), [&] { create(Opcode::ring_put, {scalars_, integer(number), zero}); });
      receive(integer(number));
    }
    builder.yield({});
  }

  void consume(Value zero) {
    const Value count = builder.binary(Opcode::add, receive(zero, what_.waits, what_.releases), integer(what_.consumed));
    const Type tile = Type::tile(ElementType::f32, {8, 16});
    const ir::BlockId outer = builder.insertion_block();
    const ir::OperationId summing = builder.for_loop(zero, count, integer(1), {builder.splat(tile, 0.0)});
    builder.set_insertion_block(function.operation(summing).blocks[0]);
    const Value turn = builder.argument(summing, 0, 0);
    create(Opcode::ring_wait, {boxes_, turn});
    const Value box = builder.results(builder.create({.opcode = Opcode::shared_load, .operands = {boxes_, builder.binary(Opcode::rem, turn, integer(2))}}, {tile}))[0];
    const ir::OperationId choice = builder.if_else(builder.binary(Opcode::ne, turn, integer(what_.kept)), {});
    const ir::BlockId body = builder.insertion_block();
    for (std::size_t i = 0; i < 2; ++i) {
      builder.set_insertion_block(function.operation(choice).blocks[i]);
      if (i == 0) release(boxes_, turn);
      builder.yield({});
    }
    builder.set_insertion_block(body);
    builder.yield({builder.binary(Opcode::add, builder.argument(summing, 0, 1), box)});
    builder.set_insertion_block(outer);
    builder.view_store(function.parameter(1), builder.results(summing)[0], {zero, zero});
    builder.yield({});
  }

  ir::Builder builder;
  Handing what_;
  Value scalars_, boxes_;
};

std::string outcome(const Handing& what) { return outcome_of(HandingKernel(what).function, {}); }

}  // namespace

TEST_CASE("a producer hands a number over, and boxes") {
  CHECK(outcome(Handing{}) == "");
}

TEST_CASE("the interpreter notices every fault between roles") {
  const std::string ring = " of a ring of 2 stages", deadlock = "interpreter: deadlock: the program waits for the copy of ", nobody = ", which nobody started";
  CHECK(outcome(Handing{.puts = false}) == deadlock + "turn 0" + ring + nobody);
  CHECK(outcome(Handing{.fetches = false}) == deadlock + "turn 0" + ring + nobody);
  CHECK(outcome(Handing{.consumed = 1}) == deadlock + "turn 5" + ring + nobody);
  CHECK(outcome(Handing{.consumed = -3}) == "interpreter: deadlock: the producer waits until turn 4" + ring + " may be filled");
  CHECK(outcome(Handing{.kept = 1, .consumed = -3}) == "interpreter: deadlock: the producer waits until turn 3" + ring + " may be filled");
  CHECK(outcome(Handing{.kept = 1}) == deadlock + "turn 3" + ring + nobody);
}

TEST_CASE("a number is kept until both roles have read it") {
  CHECK(outcome(Handing{.releases = false}) == "");
  CHECK(outcome(Handing{.releases = false, .numbers = 3}) == "interpreter: deadlock: the producer waits until turn 2 of a ring of 2 stages may be filled");
}

TEST_CASE("a number is read behind the wait for it") {
  CHECK(outcome(Handing{.waits = false}) == "interpreter: scalars are read in turn 0 of a ring of 2 stages, which was not waited for");
}
