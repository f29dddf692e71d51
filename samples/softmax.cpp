// Softmax of every row, a program per row. A view knows its sizes, so the load past the row's end is filled with -infinity.
#include "sample.hpp"
#include <cmath>
using namespace flextile;

template <int N>
inline const auto row_softmax = kernel("row_softmax", [](TensorView<const f32, 2> x, TensorView<f32, 2> y) {
  Scalar row = program_id(0);
  Tile v = x.load<N>(row, 0, {.other = -infinity});
  Tile e = exp2((v - max(v)) * log2e);                 // a named tile is a value: used twice, computed once
  y.store(e / sum(e), row, 0);
});

int main() {
  const Device device = Device::best();
  const int rows = 4823, columns = 781;
  Tensor x = random_normal<f32>(device, {rows, columns});
  Tensor y = empty_like(x);
  const double ms = sample::milliseconds(device, [&] { launch(device.stream(), row_softmax<1024>, Grid{rows}, x, y); });
  std::printf("softmax on %s: %dx%d, %.3f ms, %.1f GB/s\n", device.name().c_str(), rows, columns, ms, 2.0 * rows * columns * sizeof(f32) / ms / 1e6);

  const auto given = x.to_host(), result = y.to_host();
  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    const f32* values = &given[std::size_t(row) * columns];
    double largest = values[0], total = 0;
    for (int i = 0; i < columns; ++i) largest = std::fmax(largest, values[i]);
    for (int i = 0; i < columns; ++i) total += std::exp(values[i] - largest);
    for (int i = 0; i < columns; ++i) {
      const double expected = std::exp(values[i] - largest) / total;
      worst = std::fmax(worst, std::fabs(result[std::size_t(row) * columns + i] - expected) / expected);
    }
  }
  std::printf("largest relative error: %.2e\n", worst);
  return sample::finish("softmax", worst < 1e-5, "relative error below 1e-5 against float64 loops");
}
