// EXPECT: [bits] operands of & | ^ ~ << >> must be integers or i1; bitcast a floating-point tile first
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() { erase_score([](auto score, auto, auto, auto, auto) { return score << 2; }); }
