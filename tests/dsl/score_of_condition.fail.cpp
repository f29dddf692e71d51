// EXPECT: [mod] a score mod returns the new score, a number: choose with where(condition, a, b), or hide positions with a mask mod
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { erase_score([](auto, auto, auto, auto q, auto kv) { return q >= kv; }); }
