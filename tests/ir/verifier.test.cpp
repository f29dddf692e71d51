// The verifier finds what is broken by hand, and says after what.
#include <doctest/doctest.h>

#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "ir/every_operation.hpp"
#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

namespace {

std::string verdict(const Function& function) {
  try {
    verify(function, "after pass cse");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "right";
}

// func @f(%0 "n": i32, %1 "flag": i1): %2 = neg %0; if %1 { %3 = neg %2; yield %3 } { yield %2 }; return
struct Fixture {
  Function function{"f", {{"n", Type::scalar(ElementType::i32)}, {"flag", Type::scalar(ElementType::i1)}}};
  OperationId neg, choice, inner, ending;

  Fixture() {
    Builder builder(function);
    builder.set_location("f.cpp", 9);
    Value a = builder.unary(Opcode::neg, function.parameter(0));
    neg = function.definition(a).operation;
    choice = builder.if_else(function.parameter(1), {builder.type(a)});
    builder.set_insertion_block(function.operation(choice).blocks[0]);
    Value b = builder.unary(Opcode::neg, a);
    inner = function.definition(b).operation;
    builder.yield({b});
    builder.set_insertion_block(function.operation(choice).blocks[1]);
    builder.yield({a});
    builder.set_insertion_block(function.body());
    builder.return_values();
    ending = function.block(function.body()).operations.back();
  }
  std::vector<OperationId>& body() { return function.block(function.body()).operations; }
};

}  // namespace

TEST_CASE("the fixture is right, and an error names pass, kernel, line, operation and sentence") {
  Fixture f;
  CHECK(verdict(f.function) == "right");
  f.function.set_type(f.function.operation(f.neg).results[0], Type::scalar(ElementType::i64));
  CHECK(verdict(f.function) ==
        "flextile: internal error after pass cse: kernel \"f\", f.cpp:9\n  %2 = neg %0 : i64 loc(1:9)\n  [neg] result is i64: must be i32");
}

TEST_CASE("broken structure is found") {
  SUBCASE("used before it is defined") {
    Fixture f;
    std::swap(f.body()[0], f.body()[1]);
    CHECK(contains(verdict(f.function), "operand 0 is value 2, which is not defined before it"));
  }
  SUBCASE("used outside its block") {
    Fixture f;
    f.function.operation(f.ending).operands = {f.function.operation(f.inner).results[0]};
    CHECK(contains(verdict(f.function), "operand 0 is value 4, which is not visible here"));
  }
  SUBCASE("a none value is used") {
    Fixture f;
    f.function.operation(f.neg).operands[0] = Value{};
    CHECK(contains(verdict(f.function), "operand 0 is no value of this function"));
  }
  SUBCASE("an index outside the function") {
    Fixture f;
    f.function.operation(f.neg).operands[0] = Value{1000};
    CHECK(contains(verdict(f.function), "operand 0 is no value of this function"));
    f.body().push_back(OperationId{1000});
    CHECK(verdict(f.function) != "right");
  }
  SUBCASE("no terminator") {
    Fixture f;
    f.body().pop_back();
    CHECK(contains(verdict(f.function), "ends a block and is no terminator"));
    f.body().clear();
    CHECK(contains(verdict(f.function), "the body is empty: it ends in return"));
  }
  SUBCASE("a terminator in the middle") {
    Fixture f;
    f.body().insert(f.body().begin(), f.ending);
    CHECK(contains(verdict(f.function), "is a terminator and does not end its block"));
  }
  SUBCASE("an operation stands twice") {
    Fixture f;
    f.body().insert(f.body().begin(), f.neg);
    CHECK(contains(verdict(f.function), "stands in the function twice"));
  }
  SUBCASE("a block is used twice") {
    Fixture f;
    f.function.operation(f.choice).blocks[1] = f.function.operation(f.choice).blocks[0];
    CHECK(contains(verdict(f.function), "has a block that is used twice"));
  }
  SUBCASE("an empty block") {
    Fixture f;
    f.function.block(f.function.operation(f.choice).blocks[1]).operations.clear();
    CHECK(contains(verdict(f.function), "has an empty block"));
  }
  SUBCASE("return inside a branch") {
    Fixture f;
    f.function.block(f.function.operation(f.choice).blocks[1]).operations = {f.ending};
    CHECK(contains(verdict(f.function), "[if] its block must end in yield, ends in return"));
  }
  SUBCASE("parameters and the body's arguments differ") {
    Fixture f;
    f.function.parameters[0].type = Type::scalar(ElementType::i64);
    CHECK(contains(verdict(f.function), "parameter 0 is i64, its value is i32"));
    f.function.parameters.pop_back();
    CHECK(contains(verdict(f.function), "has 1 parameters, its body 2 arguments"));
  }
  SUBCASE("a location outside the table of files") {
    Fixture f;
    f.function.operation(f.neg).location.file = 7;
    CHECK(contains(verdict(f.function), "names file 7, which is not in the table"));
  }
  SUBCASE("a layout outside the table") {
    Fixture f;
    f.function.set_layout(f.function.operation(f.neg).results[0], Layout{});
    f.function.layouts.clear();
    CHECK(contains(verdict(f.function), "layout 0 is not in the table"));
  }
  SUBCASE("no body at all") { CHECK(contains(verdict(Function{}), "the function has no body")); }
}

TEST_CASE("a layout that does not fit its tile is found") {
  auto with = [](Layout layout) {
    Function function("f", {});
    Builder builder(function);
    Value tile = builder.splat(Type::tile(ElementType::f32, {8, 96}), 0.0);
    builder.return_values();
    function.set_layout(tile, layout);
    return verdict(function);
  };
  CHECK(with({{{3, 1, 32}, {2, 0, 4}}, {{32, 1, 1}}, {{4, 0, 1}}}) == "right");
  CHECK(with({{{3, 1, 32}, {8, 0, 1}}, {{32, 1, 1}}, {{4, -1, 0}}}) == "right");
  CHECK(contains(with({{{3, 1, 32}, {4, 0, 2}}, {{16, 1, 1}}, {{4, 0, 1}}}), "the layout has 16 lanes, must have 32"));
  CHECK(contains(with({{{3, 1, 32}}, {{32, 1, 1}}, {{8, 0, 1}}}), "the layout has 8 warps, the function 4"));
  CHECK(contains(with({{{3, 1, 32}}, {{32, 1, 1}}, {{4, 0, 1}}}), "the layout reaches 4 elements of axis 0, the type is tile<8x96xf32>"));
  CHECK(contains(with({{{3, 1, 33}, {2, 0, 4}}, {{32, 1, 1}}, {{4, 0, 1}}}), "the layout reaches 32 elements of axis 1"));
  CHECK(contains(with({{{3, 1, 32}, {2, 2, 4}}, {{32, 1, 1}}, {{4, 0, 1}}}), "the layout names axis 2"));
  CHECK(contains(with({{{0, 1, 32}}, {{32, 1, 1}}, {{4, 0, 1}}}), "must be at least 1"));
}

TEST_CASE("every operation's rule is checked: a dropped operand, a dropped result, another type") {
  for (const Function& original : functions_with_every_operation()) {
    for (std::uint32_t i = 0; i < original.operation_count(); ++i) {
      const Operation& operation = original.operation(OperationId{i});
      INFO("operation ", print(original, OperationId{i}));
      if (operand_count(operation.opcode) > 0) {
        Function broken = original;
        broken.operation(OperationId{i}).operands.pop_back();
        CHECK(contains(rule_violation(broken, broken.operation(OperationId{i})), "takes"));
      }
      if (operation.results.empty()) continue;
      Function broken = original;
      broken.set_type(operation.results[0], Type::view(ElementType::u16, 8));
      CHECK(rule_violation(broken, broken.operation(OperationId{i})) != "");
      CHECK(verdict(broken) != "right");
      broken.set_type(operation.results[0], Type{});
      CHECK(rule_violation(broken, broken.operation(OperationId{i})) != "");
    }
  }
}

TEST_CASE("the text of a broken function does not crash the printer") {
  Fixture f;
  f.function.operation(f.neg).operands[0] = Value{1000};
  f.function.operation(f.choice).blocks[1] = f.function.body();
  f.body().push_back(OperationId{1000});
  CHECK(contains(print(f.function), "neg %none"));
  CHECK(print(f.function, OperationId{1000}) == "no operation");
}
