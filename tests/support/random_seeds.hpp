// Which random programs a test compares: FLEXTILE_TEST_SEEDS says how many, FLEXTILE_TEST_SEED picks one and prints it.
#pragma once
#include <cstdlib>

#include <doctest/doctest.h>
#include <flextile/ir/function.hpp>

#include "random_program.hpp"

namespace flextile::test {

/// `first_difference(seed)` gives the position of the first wrong value, or -1.
inline void check_seeds(unsigned usual_count, int (*first_difference)(unsigned seed)) {
  if (const char* chosen = std::getenv("FLEXTILE_TEST_SEED")) {
    const auto seed = static_cast<unsigned>(std::atoi(chosen));
    MESSAGE(ir::print(RandomProgram(seed).function()));
    CHECK(first_difference(seed) == -1);
    return;
  }
  const char* count = std::getenv("FLEXTILE_TEST_SEEDS");
  const unsigned seeds = count ? static_cast<unsigned>(std::atoi(count)) : usual_count;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    CHECK(first_difference(seed) == -1);
  }
}

}  // namespace flextile::test
