#include <atomic>

#include <flextile/ir/identity.hpp>

namespace flextile::ir {

std::uint64_t new_identity() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace flextile::ir
