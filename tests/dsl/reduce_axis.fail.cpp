// EXPECT: [axis] the tile has no such axis: axes go from 0 to rank - 1
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = sum<2>(zeros<f32, 8, 8>()); }
