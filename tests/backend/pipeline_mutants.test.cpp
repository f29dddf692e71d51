// Functions that were damaged at random reach compile(): each compiles, or is refused as the caller's error. Nothing else.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "support/random_program.hpp"

using namespace flextile;

namespace {

void damage(ir::Function& function, std::mt19937& random) {
  auto below = [&random](std::size_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  ir::Operation& operation = function.operation(ir::OperationId{below(function.operation_count())});
  switch (below(6)) {
    case 0:
      if (!operation.operands.empty()) operation.operands[below(operation.operands.size())] = ir::Value{below(function.value_count() + 2)};
      return;
    case 1:
      if (!operation.operands.empty()) operation.operands.pop_back();
      return;
    case 2: operation.opcode = static_cast<ir::Opcode>(below(ir::opcode_count)); return;
    case 3: operation.attributes = {}; return;
    case 4: {
      std::vector<ir::OperationId>& operations = function.block(ir::BlockId{below(function.block_count())}).operations;
      if (operations.size() > 1) std::swap(operations[below(operations.size())], operations[below(operations.size())]);
      return;
    }
    default: function.set_type(ir::Value{below(function.value_count())}, ir::Type::tile(ElementType::f32, {4, 6}));
  }
}

}  // namespace

TEST_CASE("damaged functions are refused or compile, and are never an internal error") {
  int refused = 0, compiled = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    ir::Function function = test::RandomProgram(seed % 40).function();
    for (int i = 0; i < 2; ++i) damage(function, random);
    try {
      compile(function, seed % 16 == 0 ? Target::sm_80() : Target::host(), {.binary = false});
      ++compiled;
    } catch (const CompileError& error) {
      ++refused;
      const bool names_kernel = std::string(error.what()).find("kernel \"random_") != std::string::npos;
      CHECK_MESSAGE(names_kernel, error.what());
    } catch (const std::exception& error) {
      FAIL_CHECK("seed " << seed << ": " << error.what());
    }
  }
  CHECK(refused > 200);
  CHECK(compiled > 10);
}

TEST_CASE("what belongs to a GPU's schedule is refused on a CPU") {
  using ir::Opcode;
  struct Case {
    Opcode opcode;
    std::vector<ir::Type> results;
  };
  const Case cases[] = {{Opcode::alloc_shared, {ir::Type::shared(ElementType::f32, {4, 8}, 1)}}, {Opcode::take_program, {ir::Type::scalar(ElementType::i32)}},
                        {Opcode::worker_id, {ir::Type::scalar(ElementType::i32)}}, {Opcode::barrier, {}}, {Opcode::proxy_fence, {}}, {Opcode::warpgroup_barrier, {}}, {Opcode::bulk_wait, {}}};
  for (const Case& each : cases) {
    ir::Function function("k", {});
    ir::Builder builder(function);
    builder.create({.opcode = each.opcode}, each.results);
    builder.return_values();
    std::string sentence;
    try {
      compile(function, Target::host(), {.binary = false});
    } catch (const CompileError& error) {
      sentence = error.what();
    }
    CHECK(sentence == "flextile: compile error in kernel \"k\"\n  [" + std::string(ir::name(each.opcode)) + "] has no meaning on a CPU: it belongs to a GPU's schedule");
  }
}
