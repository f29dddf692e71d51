// EXPECT: [dot] operands must be tiles of two axes
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = dot(zeros<bf16, 64>(), zeros<bf16, 64, 32>()); }
