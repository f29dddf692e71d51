// EXPECT: [store] the value's element type must be the memory's; cast it first
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(TensorView<bf16, 1> x) { x.store(zeros<f32, 8>(), 0); }
