// EXPECT: [shape] every extent must be at least 1
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = zeros<f32, 8, 0>(); }
