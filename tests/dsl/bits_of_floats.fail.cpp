// EXPECT: [bits] operands of & | ^ ~ << >> must be integers or i1; bitcast a floating-point tile first
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = zeros<f32, 8>() & 1; }
