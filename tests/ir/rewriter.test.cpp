#include <doctest/doctest.h>

#include <flextile/ir/error.hpp>
#include <flextile/ir/rewriter.hpp>

#include "ir/every_operation.hpp"
#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

TEST_CASE("a rewriter that changes nothing gives an equal function") {
  for (const Function& function : functions_with_every_operation()) {
    Rewriter rewriter(function);
    rewriter.run([](OperationId) { return false; });
    Function copy = rewriter.take();
    verify(copy, "after copying");
    CHECK(print(copy) == print(function));
  }
}

TEST_CASE("a pass replaces an operation, inside blocks as well") {
  Function function = parse(R"(file 1 "a.cpp"
func @f(%0: i32) num_warps(4) {
  %1 = constant {value = 1} : i32 loc(1:3)
  %2 = mul %0, %1 : i32 loc(1:4)
  %3 = for %1, %0, %1, %2 : i32 loc(1:5) {
  ^(%4: i32, %5: i32):
    %6 = mul %5, %1 : i32 loc(1:6)
    yield %6 loc(1:7)
  }
  return %3
})");
  Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    const Operation& operation = function.operation(id);
    if (operation.opcode != Opcode::mul) return false;
    rewriter.replace(operation.results[0],
                     rewriter.builder().binary(Opcode::add, rewriter[operation.operands[0]], rewriter[operation.operands[1]]));
    return true;
  });
  CHECK(print(rewriter.take()) == R"(file 1 "a.cpp"
func @f(%0: i32) num_warps(4) {
  %1 = constant {value = 1} : i32 loc(1:3)
  %2 = add %0, %1 : i32 loc(1:4)
  %3 = for %1, %0, %1, %2 : i32 loc(1:5) {
  ^(%4: i32, %5: i32):
    %6 = add %5, %1 : i32 loc(1:6)
    yield %6 loc(1:7)
  }
  return %3
}
)");
}

TEST_CASE("dropping a value that is still used is an internal error") {
  Function function = parse("func @f(%0: i32) num_warps(4) {\n %1 = neg %0 : i32\n return %1\n}");
  Rewriter rewriter(function);
  std::string message;
  try {
    rewriter.run([&](OperationId id) { return function.operation(id).opcode == Opcode::neg; });
  } catch (const InternalError& error) {
    message = error.what();
  }
  CHECK(contains(message, "return %1\n  operand 0 was dropped while it is still used"));
}
