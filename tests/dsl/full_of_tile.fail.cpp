// EXPECT: [full] the value must be one number, plain or a Scalar: stretch a tile with broadcast_to
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = full<f32, 64, 32>(arange<32>()); }
