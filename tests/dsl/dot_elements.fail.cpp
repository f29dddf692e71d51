// EXPECT: [dot] element types of left and right must be equal; cast one of them
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = dot(zeros<bf16, 128, 64>(), zeros<f16, 64, 32>()); }
