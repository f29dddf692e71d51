// EXPECT: [if] a tile's value is known only when the kernel runs: use where(condition, a, b) per element, or if_(condition, [&] { ... }) for a scalar
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  Tile x = zeros<f32, 8>();
  if (x > 0) program_id(0);
}
