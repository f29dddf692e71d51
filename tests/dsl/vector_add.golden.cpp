// RUN: --emit=tile --check-prefix=CHECK
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

ir::Function golden() {
  auto vector_add = kernel("vector_add", [](Pointer<const f32> x, Pointer<const f32> y, Pointer<f32> out, Scalar<i32> n) {
    Tile i = program_id(0) * 1024 + arange<1024>();
    Tile inside = i < n;
    store(out + i, load(x + i, inside) + load(y + i, inside), inside);
  });
  return vector_add.trace();
}
// CHECK: file [[FILE:[0-9]+]] "{{.*}}vector_add.golden.cpp"
// CHECK-LABEL: func @vector_add(%0 "p0": ptr<f32> {read_only}, %1 "p1": ptr<f32> {read_only}, %2 "p2": ptr<f32>, %3 "p3": i32) num_warps(4)
// CHECK: program_id {axis = 0} : i32 loc([[FILE]]:9)
// CHECK: %[[I:[0-9]+]] = add {{.*}} : tile<1024xi32> loc([[FILE]]:9)
// CHECK: %[[INSIDE:[0-9]+]] = lt %[[I]], {{.*}} : tile<1024xi1> loc([[FILE]]:10)
// CHECK-DAG: load {{.*}}, %[[INSIDE]] : tile<1024xf32> loc([[FILE]]:11)
// CHECK: %[[SUM:[0-9]+]] = add {{.*}} : tile<1024xf32> loc([[FILE]]:11)
// CHECK-NEXT: store {{.*}}, %[[SUM]], %[[INSIDE]] loc([[FILE]]:11)
// CHECK-NEXT: return
