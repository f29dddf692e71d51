// EXPECT: [element-wise] extents of an axis must be equal, or 1 where they stretch; did you forget expand_dims?
// NUMBERS: 64 == 128
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = zeros<f32, 128, 64>() + zeros<f32, 128>(); }
