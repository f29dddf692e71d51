// RUN: --emit=error --check-prefix=CHECK
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

ir::Function golden() {
  return trace("wrong_dot", [](Parameters& p) {
    AnyView x = p.view("x", ElementType::f32, 2);
    store(x, dot(load(x, {0, 0}, {128, 64}), load(x, {0, 0}, {32, 128})), {0, 0});
  });
}
// CHECK: compile error in kernel "wrong_dot", {{.*}}shape_fault.golden.cpp:10
// CHECK-NEXT: [dot] left is tile<128x64xf32>, right is tile<32x128xf32>: columns of left (64) must equal rows of right (32)
