// Numbers that tell objects of one process apart, so that what was made for one is never used for another.
#pragma once
#include <cstdint>

namespace flextile::ir {

/// Never 0, never returned twice. What is copied keeps its number: equal numbers mean equal contents.
std::uint64_t new_identity();

}  // namespace flextile::ir
