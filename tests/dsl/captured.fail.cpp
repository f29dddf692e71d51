// EXPECT: [kernel] a kernel's lambda captures nothing: pass run-time values as parameters, compile-time ones as template arguments
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
auto f(int n) {
  return kernel("captures", [n](Pointer<f32> out) { store(out, n * 1.0f); });
}
