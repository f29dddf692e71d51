// EXPECT: [launch] the third argument is the grid, Grid{x, y, z} or a whole number of programs; the kernel's arguments follow
#include <flextile/flextile.hpp>
using namespace flextile;
const auto one = kernel("one", [](Pointer<f32> x) { store(x, 1.0f); });
void f(const Device& device, const Tensor<f32>& x) { launch(device.stream(), one, x); }
