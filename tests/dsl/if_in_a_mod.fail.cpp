// EXPECT: [if] in a mod a condition on indices or scores is an expression: choose with where(condition, a, b), combine with && and ||
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  erase_score([](auto score, auto, auto, auto q, auto kv) {
    if (q < kv) return score;
    return score;
  });
}
