// EXPECT: [mod] a mask mod takes (b, h, q, kv), a score mod takes (score, b, h, q, kv): this callable takes neither
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { erase([](auto q, auto kv) { return q >= kv; }); }
