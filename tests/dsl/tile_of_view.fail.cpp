// EXPECT: [load] a tile cannot have more axes than its view
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(TensorView<f32, 1> x) { x.load<8, 8>(0); }
