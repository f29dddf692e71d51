// EXPECT: [assign] the value's element type must be the variable's; cast it: a variable keeps its type
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  Var x = zeros<bf16, 8>();
  x = zeros<f32, 8>();
}
