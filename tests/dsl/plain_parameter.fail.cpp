// EXPECT: [kernel] a parameter must be Pointer<T>, TensorView<T, Rank> or Scalar<T>, taken by value
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
auto f() {
  return kernel("plain", [](Pointer<f32> out, int n) { store(out, n * 1.0f); });
}
