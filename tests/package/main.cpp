// Traces, compiles and runs one small kernel on the host device.
#include <cstdio>
#include <flextile/flextile.hpp>
using namespace flextile;

int main() {
  auto twice = kernel("twice", [](Pointer<const f32> x, Pointer<f32> out, Scalar<i32> n) {
    Tile i = program_id(0) * 64 + arange<64>();
    Tile inside = i < n;
    store(out + i, load(x + i, inside) * 2.0f, inside);
  });
  Device device = Device::host();
  const int n = 100;
  Tensor x = full<f32>(device, {n}, 21.0f);
  Tensor out = empty<f32>(device, {n});
  launch(device.stream(), twice, Grid{ceil_div(n, 64)}, x, out, n);
  auto result = out.to_host();
  for (int i = 0; i < n; ++i)
    if (result[i] != 42.0f) return std::printf("result[%d] is %f, expected 42\n", i, double(result[i])), 1;
  std::puts("ok");
}
