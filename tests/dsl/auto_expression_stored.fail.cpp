// EXPECT: [auto] an expression lives for one statement: name its value with Tile, Scalar or Var instead of auto
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(Pointer<f32> out) {
  auto value = program_id(0) * 0.5f;
  store(out, value);
}
