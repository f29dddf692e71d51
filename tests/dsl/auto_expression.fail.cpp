// EXPECT: [auto] an expression lives for one statement: name its value with Tile, Scalar or Var instead of auto
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  auto twice = zeros<f32, 8>() * 2;
  Tile x = twice * twice;
}
