// RUN: --emit=tile --check-prefix=CHECK
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

// A named tile is used twice and computed once; infinity fills what lies outside of the row.
ir::Function golden() {
  auto row_softmax = kernel("row_softmax", [](TensorView<const f32, 2> x, TensorView<f32, 2> y) {
    Scalar row = program_id(0);
    Tile v = x.load<1000>(row, 0, {.other = -infinity});
    Tile e = exp2((v - max(v)) * log2e);
    y.store(e / sum(e), row, 0);
  });
  return row_softmax.trace();
}
// CHECK-LABEL: func @row_softmax(%0 "p0": view<2xf32> {read_only}, %1 "p1": view<2xf32>)
// CHECK: %[[V:[0-9]+]] = view_load %0, {{.*}} {other = -inf} : tile<1000xf32>
// CHECK: %[[MAX:[0-9]+]] = reduce %[[V]] {axis = 0, kind = "max"} : f32
// CHECK: sub %[[V]], {{.*}} : tile<1000xf32>
// CHECK: %[[E:[0-9]+]] = exp2 {{.*}} : tile<1000xf32>
// CHECK-NOT: exp2
// CHECK: reduce %[[E]] {axis = 0, kind = "sum"} : f32
// CHECK: %[[Y:[0-9]+]] = div %[[E]], {{.*}} : tile<1000xf32>
// CHECK: view_store %1, %[[Y]],
