// EXPECT: [assign] the value's shape must be the variable's, or stretch to it: a variable keeps its type
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f() {
  Var x = zeros<f32, 8>();
  x = zeros<f32, 8, 8>();
}
