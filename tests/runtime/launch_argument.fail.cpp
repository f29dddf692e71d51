// EXPECT: [launch] a kernel's argument must be a tensor, a number, or nullptr for an absent tensor: copy other memory with from_host
#include <flextile/flextile.hpp>
using namespace flextile;
const auto one = kernel("one", [](Pointer<f32> x) { store(x, 1.0f); });
void f(const Device& device, const std::vector<f32>& x) { launch(device.stream(), one, 2, x); }
