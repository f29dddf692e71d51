// EXPECT: [store] the pointer or view is to const elements: it cannot be written
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(TensorView<const f32, 1> x) { x.store(zeros<f32, 8>(), 0); }
