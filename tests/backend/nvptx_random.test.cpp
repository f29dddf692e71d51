// Random programs: the PTX, run by the emulator, and the plain interpreter agree on every value.
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <flextile/ir/function.hpp>

#include "../support/interpreter.hpp"
#include "../support/random_program.hpp"
#include "../support/random_seeds.hpp"
#include "../support/run_ptx.hpp"

using namespace flextile;

namespace {

bool close(float got, float expected) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (got == expected) return true;
  return std::fabs(got - expected) <= 4e-6f * std::fabs(expected);
}

/// The position of the first difference, or -1.
int first_difference(unsigned seed) {
  ir::Function function = test::RandomProgram(seed).function();
  constexpr int warps[] = {4, 1, 2, 8};
  function.num_warps = warps[seed % 4];
  test::RandomArguments ours(seed + 1), reference(seed + 1);
  const HostProgram program{{1, 0, 0}, {3, 1, 1}};
  const CompiledKernel kernel = compile(function, Target::sm_80(), {.line_info = false, .binary = false});
  test::run_ptx(kernel, ours.pointers(), program, {{ours.x, sizeof ours.x}, {ours.k, sizeof ours.k}, {ours.out.data(), ours.out.size() * 4}}, seed % 3 == 0);
  test::interpret(function, reference.pointers(), program);
  for (std::size_t i = 0; i < ours.out.size(); ++i) {
    if (close(ours.out[i], reference.out[i])) continue;
    MESSAGE("seed " << seed << ", element " << i << ": PTX " << ours.out[i] << ", interpreter " << reference.out[i]);
    return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("random programs give the interpreter's numbers as PTX") {
  test::check_seeds(20, first_difference);
}
