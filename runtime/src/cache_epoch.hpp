// Changes when forget_cached_kernels() is called: what threads remember of older epochs is not used.
#pragma once
#include <cstdint>

namespace flextile::runtime {

std::uint64_t cache_epoch();

}  // namespace flextile::runtime
