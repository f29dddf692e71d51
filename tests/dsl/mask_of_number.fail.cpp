// EXPECT: [mod] a mask mod returns a condition, i1: compare the number that it returns, for instance q - kv < 64 or x != 0
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { erase_mask([](auto, auto, auto q, auto kv) { return q - kv; }); }
