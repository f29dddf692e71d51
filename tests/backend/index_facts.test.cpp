// What the index analysis claims holds for the numbers that random programs compute.
#include <doctest/doctest.h>

#include <string>

#include <flextile/ir/builder.hpp>

#include "../../backend/src/nvptx/facts.hpp"
#include "support/interpreter.hpp"
#include "support/random_program.hpp"

using namespace flextile;
using namespace flextile::test;
using backend::IndexFacts;

namespace {

/// The claim that `row`, one line along the last axis, breaks, or "". Counting goes modulo the type's width.
std::string broken_claim(const IndexFacts& facts, const Number* row, std::int64_t extent, ElementType element) {
  const bool counts = !is_float(element);
  for (std::int64_t i = 0; i < extent; ++i) {
    const std::int64_t run_start = i - i % facts.run, group_start = i - i % facts.constancy;
    const Number &value = row[i], &first = row[run_start], &same = row[group_start];
    const std::string at = " at element " + std::to_string(i);
    if (value.integer != same.integer || std::memcmp(&value.real, &same.real, sizeof value.real) != 0) return "constancy " + std::to_string(facts.constancy) + at;
    if (counts && value.integer != rounded(element, {first.integer + (i - run_start), 0}).integer) return "run " + std::to_string(facts.run) + at;
    if (counts && i == run_start && value.integer % facts.divisor != 0) return "divisor " + std::to_string(facts.divisor) + at;
  }
  return "";
}

void check(const ir::Function& function, Interpreter& interpreter) {
  const std::vector<IndexFacts> facts = backend::index_facts(function);
  for (std::uint32_t i = 0; i < function.value_count(); ++i) {
    const ir::Type& type = function.type(ir::Value{i});
    const std::vector<Number>& elements = interpreter.last(ir::Value{i}).elements;
    if (!type.is_number() || elements.empty()) continue;
    const std::int64_t extent = type.rank == 0 ? 1 : type.extents[type.rank - 1];
    REQUIRE(facts[i].run > 0);
    REQUIRE(facts[i].constancy > 0);
    REQUIRE(facts[i].divisor > 0);
    for (std::size_t start = 0; start < elements.size(); start += static_cast<std::size_t>(extent)) {
      const std::string broken = broken_claim(facts[i], &elements[start], extent, type.element);
      INFO("value " << i << " of\n" << ir::print(function));
      REQUIRE(broken == "");
    }
  }
}

/// Of a function whose one parameter is 3.
std::vector<IndexFacts> checked_facts(const ir::Function& function) {
  Interpreter interpreter(function, {{0, 0, 0}, {1, 1, 1}});
  Contents three;
  three.elements = {{3, 0}};
  interpreter.run({three});
  check(function, interpreter);
  return backend::index_facts(function);
}

}  // namespace

TEST_CASE("index facts hold for random programs") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const ir::Function function = RandomProgram(seed).function();
    RandomArguments arguments(seed);
    Interpreter interpreter(function, {{1, 0, 0}, {3, 1, 1}});
    interpreter.run(contents_of(function, arguments.pointers()));
    check(function, interpreter);
  }
}

TEST_CASE("index facts hold where integers wrap, and find what addresses are made of") {
  using ir::Opcode;
  ir::Function function("k", {{.name = "n", .type = ir::Type::scalar(ElementType::i32)}});
  ir::Builder builder(function);
  const ir::Value n = function.parameter(0);
  const ir::Value count = builder.arange(512, -4);
  for (const ElementType narrow : {ElementType::i1, ElementType::i8, ElementType::u8, ElementType::u32, ElementType::i64}) {
    builder.cast(builder.cast(count, narrow), ElementType::i64);
    builder.binary(Opcode::lt, builder.cast(builder.cast(count, narrow), ElementType::i32), builder.constant(ElementType::i32, std::int64_t{8}));
  }
  const ir::Value start = builder.binary(Opcode::mul, n, builder.constant(ElementType::i32, std::int64_t{64}));
  const ir::Value address = builder.cast(builder.binary(Opcode::add, start, builder.arange(64)), ElementType::i64);
  const ir::Value inside = builder.binary(Opcode::lt, builder.binary(Opcode::add, start, builder.arange(64)), builder.constant(ElementType::i32, std::int64_t{200}));
  builder.return_values();

  const std::vector<IndexFacts> facts = checked_facts(function);
  CHECK(facts[address.index].run == 64);
  CHECK(facts[address.index].divisor == 64);
  CHECK(facts[inside.index].constancy == 8);
}

TEST_CASE("index facts of what loops carry and branches yield") {
  using ir::Opcode;
  ir::Function function("k", {{.name = "n", .type = ir::Type::scalar(ElementType::i32)}});
  ir::Builder b(function);
  auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
  const ir::Value zero = number(0), n = function.parameter(0);
  // for: 64 + 32 i, twice as much, and one more each time.
  const ir::OperationId loop = b.for_loop(zero, n, number(1), {number(64), number(64), number(64)});
  b.set_insertion_block(function.operation(loop).blocks[0]);
  b.yield({b.binary(Opcode::add, b.argument(loop, 0, 1), number(32)), b.binary(Opcode::mul, b.argument(loop, 0, 2), number(2)), b.binary(Opcode::add, b.argument(loop, 0, 3), number(1))});
  b.set_insertion_block(function.body());
  const ir::Value steps = b.results(loop)[0], powers = b.results(loop)[1], any = b.results(loop)[2];
  // A tile of addresses that a loop moves on keeps counting up.
  const ir::OperationId walk = b.for_loop(zero, n, number(1), {b.arange(64)});
  b.set_insertion_block(function.operation(walk).blocks[0]);
  b.yield({b.binary(Opcode::add, b.argument(walk, 0, 1), number(16))});
  b.set_insertion_block(function.body());
  const ir::Value moved = b.results(walk)[0];
  const ir::OperationId choice = b.if_else(b.binary(Opcode::lt, n, number(2)), {ir::Type::scalar(ElementType::i32)});
  b.set_insertion_block(function.operation(choice).blocks[0]);
  b.yield({number(48)});
  b.set_insertion_block(function.operation(choice).blocks[1]);
  b.yield({number(8)});
  b.set_insertion_block(function.body());
  const ir::Value chosen = b.results(choice)[0];
  b.return_values();

  const std::vector<IndexFacts> facts = checked_facts(function);
  CHECK(facts[steps.index].divisor == 32);
  CHECK(facts[powers.index].divisor == 64);
  CHECK(facts[any.index].divisor == 1);
  CHECK(facts[moved.index] == IndexFacts{64, 1, 16});
  CHECK(facts[chosen.index].divisor == 8);
}
