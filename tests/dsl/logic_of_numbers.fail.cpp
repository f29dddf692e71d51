// EXPECT: [logic] operands of && || ! must be i1; compare first, for instance with 0
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = zeros<f32, 8>() > 0 && zeros<i32, 8>(); }
