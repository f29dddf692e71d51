// EXPECT: [scalar] this value has axes: name it with Tile, or reduce it
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Scalar x = zeros<f32, 8>() * 2; }
