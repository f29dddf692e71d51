// EXPECT: [memory] the shape of a value, mask or other must be the pointers' shape, or stretch to it
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(Pointer<f32> x) { store(x, zeros<f32, 8>()); }
