// EXPECT: [dot] the accumulator's shape must be rows of left x columns of right
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = dot(zeros<bf16, 128, 64>(), zeros<bf16, 64, 32>(), zeros<f32, 128, 64>()); }
