// EXPECT: [launch] the first argument is the stream that runs the kernel, such as device.stream(): launch(stream, kernel, grid, arguments...)
#include <flextile/flextile.hpp>
using namespace flextile;
const auto one = kernel("one", [](Pointer<f32> x) { store(x, 1.0f); });
void f(const Tensor<f32>& x) { launch(one, Grid{1}, x); }
