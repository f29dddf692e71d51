// EXPECT: [bitcast] both element types must have the same number of bits
// NUMBERS: 32 == 16
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = bitcast<i16>(zeros<f32, 8>()); }
