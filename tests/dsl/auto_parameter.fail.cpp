// EXPECT: [kernel] a kernel's parameters have types: write Pointer<const f32> x instead of auto x
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
auto f() {
  return kernel("generic", [](auto out) { store(out, 1.0f); });
}
