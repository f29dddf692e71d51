// Every machine-independent pass on random programs: it verifies, changes no number, and has nothing to do a second time.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>

#include <flextile/ir/error.hpp>

#include "../../backend/src/nvptx/nvptx.hpp"
#include "../../backend/src/passes/canonicalise.hpp"
#include "../../backend/src/passes/common_subexpressions.hpp"
#include "../../backend/src/passes/dead_code.hpp"
#include "../../backend/src/passes/loop_invariant.hpp"
#include "../../backend/src/passes/simplify_control.hpp"
#include "../../backend/src/passes/sink.hpp"
#include "support/interpreter.hpp"
#include "support/random_program.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

std::vector<float> run(const ir::Function& function, unsigned seed) {
  RandomArguments arguments(seed);
  interpret(function, arguments.pointers(), {{2, 0, 0}, {3, 1, 1}});
  return arguments.out;
}

/// The first element that differs (NaN equals NaN), or -1.
int first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return static_cast<int>(i);
  }
  return -1;
}

using Pass = ir::Function (*)(const ir::Function&, const Target&);

void check_pass(const char* name, Pass pass, unsigned seed, ir::Function& function) {
  INFO(std::string(name) << " of seed " << seed);
  const ir::Function changed = pass(function, Target::host());
  REQUIRE_NOTHROW(ir::verify(changed, name));
  const int difference = first_difference(run(function, seed), run(changed, seed));
  INFO("before:\n" << ir::print(function) << "\nafter:\n" << ir::print(changed));
  REQUIRE(difference == -1);
  function = changed;
}

}  // namespace

TEST_CASE("passes keep the numbers of random programs") {
  const unsigned count = 400;
  for (unsigned seed = 0; seed < count; ++seed) {
    ir::Function function = RandomProgram(seed).function();
    check_pass("canonicalise", backend::canonicalise, seed, function);
    check_pass("simplify_control", backend::simplify_control, seed, function);
    check_pass("common_subexpressions", backend::common_subexpressions, seed, function);
    check_pass("loop_invariant", backend::loop_invariant, seed, function);
    check_pass("sink", backend::sink, seed, function);
    check_pass("dead_code", backend::dead_code, seed, function);
  }
}

TEST_CASE("passes alone keep the numbers, and have nothing to do a second time") {
  constexpr std::pair<const char*, Pass> passes[] = {{"canonicalise", backend::canonicalise},
                                                     {"simplify_control", backend::simplify_control},
                                                     {"common_subexpressions", backend::common_subexpressions},
                                                     {"loop_invariant", backend::loop_invariant},
                                                     {"sink", backend::sink},
                                                     {"tile_gathers", backend::tile_gathers},
                                                     {"dead_code", backend::dead_code}};
  for (const auto& [name, pass] : passes) {
    for (unsigned seed = 1000; seed < 1100; ++seed) {
      ir::Function function = RandomProgram(seed).function();
      check_pass(name, pass, seed, function);
      const std::string once = ir::print(backend::dead_code(function, Target::host()));
      const std::string twice = ir::print(backend::dead_code(pass(function, Target::host()), Target::host()));
      INFO(std::string(name) << " of seed " << seed << " once:\n" << once << "\ntwice:\n" << twice);
      const bool nothing_to_do = once == twice;
      REQUIRE(nothing_to_do);
    }
  }
}
