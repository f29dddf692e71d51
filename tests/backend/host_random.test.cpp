// Random programs: the host back end and the plain interpreter agree on every value.
#include <cmath>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <flextile/backend/host_module.hpp>
#include <flextile/ir/function.hpp>

#include "../support/interpreter.hpp"
#include "../support/random_program.hpp"
#include "../support/random_seeds.hpp"

using namespace flextile;

namespace {

bool close(float got, float expected) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (got == expected) return true;
  return std::fabs(got - expected) <= 2e-6f * std::fabs(expected);
}

/// The position of the first difference, or -1.
int first_difference(unsigned seed) {
  const test::RandomProgram random(seed);
  const char* target = std::getenv("FLEXTILE_TEST_TARGET");
  const HostModule module(compile(random.function(), target ? Target::parse(target) : Target::host()));
  test::RandomArguments ours(seed + 1), reference(seed + 1);
  const HostProgram program{{1, 0, 0}, {3, 1, 1}};
  module.entry()(ours.pointers(), &program);
  test::interpret(random.function(), reference.pointers(), program);
  for (std::size_t i = 0; i < ours.out.size(); ++i) {
    if (close(ours.out[i], reference.out[i])) continue;
    MESSAGE("seed " << seed << ", element " << i << ": host " << ours.out[i] << ", interpreter " << reference.out[i]);
    return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("random programs give the interpreter's numbers on the host") {
  test::check_seeds(40, first_difference);
}
