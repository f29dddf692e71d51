// What is known of the numbers in a tile along its last axis: the base of vectorised memory access.
#pragma once
#include <cstdint>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// Along the last axis, the tile is made of aligned groups of `run` numbers that count up by one, and of groups of
/// `constancy` equal numbers. The first number of every run is a multiple of `divisor` (a power of two).
/// For pointers the unit is the element.
struct IndexFacts {
  std::int64_t run = 1;
  std::int64_t constancy = 1;
  std::int64_t divisor = 1;
  bool operator==(const IndexFacts&) const = default;
};

/// Facts of every value of the function, by value index.
std::vector<IndexFacts> index_facts(const ir::Function& function);

}  // namespace flextile::backend
