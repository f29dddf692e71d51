// EXPECT: [operator] f8e4m3 and f8e5m2 are for memory, casts and dot; cast them to f16 or f32 to compute
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = zeros<f8e4m3, 8>() * zeros<f8e4m3, 8>(); }
