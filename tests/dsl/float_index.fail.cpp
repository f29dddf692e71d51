// EXPECT: [index] an index must be an integer; cast<i32> it
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(TensorView<f32, 1> x, Scalar<f32> i) { x.load<8>(i); }
