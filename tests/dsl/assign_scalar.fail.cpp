// EXPECT: [assign] a Tile or Scalar does not change: use Var for what is assigned, or give the new value a name of its own
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  Scalar i = program_id(0);
  i = i * 2;
}
