// EXPECT: [mod] a mask mod takes the 4 parameters (b, h, q, kv), a score mod the 5 parameters (score, b, h, q, kv): this is the other kind
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { erase_mask([](auto score, auto, auto, auto, auto) { return score * 2; }); }
