// EXPECT: [reshape] the number of elements must stay the same
// NUMBERS: 64
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = reshape<4, 8>(zeros<f32, 8, 8>()); }
