// EXPECT: [dot] columns of left must equal rows of right; did you forget trans()?
// NUMBERS: 64 == 128
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { Tile x = dot(zeros<bf16, 128, 64>(), zeros<bf16, 128, 64>()); }
