// x + y, a program per 1,024 elements. The lambda runs once, while it is traced; what it says becomes the kernel.
#include "sample.hpp"
using namespace flextile;

int main() {
  auto vector_add = kernel("vector_add", [](Pointer<const f32> x, Pointer<const f32> y, Pointer<f32> out, Scalar<i32> n) {
    Tile i = program_id(0) * 1024 + arange<1024>();
    Tile inside = i < n;                               // the last program reaches past the end
    store(out + i, load(x + i, inside) + load(y + i, inside), inside);
  });

  const Device device = Device::best();
  const int n = 9'843'217;
  Tensor x = random_normal<f32>(device, {n});
  Tensor y = random_normal<f32>(device, {n});
  Tensor out = empty<f32>(device, {n});
  const double ms = sample::milliseconds(device, [&] { launch(device.stream(), vector_add, Grid{ceil_div(n, 1024)}, x, y, out, n); });
  std::printf("vector_add on %s: %d elements, %.3f ms, %.1f GB/s\n", device.name().c_str(), n, ms, 3.0 * n * sizeof(f32) / ms / 1e6);

  const auto left = x.to_host(), right = y.to_host(), result = out.to_host();
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += result[i] != left[i] + right[i];
  return sample::finish("vector_add", wrong == 0, "every element equal to a plain loop's");
}
