// RUN: --emit=tile --check-prefix=CHECK
// RUN: --target=sm_90a --emit=ptx --check-prefix=PTX
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

template <int BM, int BN, int BK>
inline const auto matmul = kernel("matmul", [](TensorView<const bf16, 2> a, TensorView<const bf16, 2> b, TensorView<bf16, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 4}))
    acc = dot(a.load<BM, BK>(m, k), b.load<BK, BN>(k, n), acc);
  c.store(cast<bf16>(acc), m, n);
}, {.num_warps = 8});
ir::Function golden() {
  std::vector<ir::Parameter> facts = matmul<128, 192, 64>.signature();
  for (ir::Parameter& parameter : facts) parameter.aligned = parameter.unit_stride = true;
  return matmul<128, 192, 64>.trace(facts);
}

// The variable that the loop assigns is its one carried value; the hint is on the loop.
// CHECK-LABEL: func @matmul(
// CHECK: %[[ZERO:[0-9]+]] = constant {value = 0.0} : tile<128x192xf32>
// CHECK: %[[SIZE:[0-9]+]] = view_size %0 {axis = 1} : i32
// CHECK: %[[ACC:[0-9]+]] = for {{.*}}, %[[SIZE]], {{.*}}, %[[ZERO]] {stages = 4} : tile<128x192xf32>
// CHECK-NEXT: ^(%[[K:[0-9]+]]: i32, %[[IN:[0-9]+]]: tile<128x192xf32>):
// CHECK-DAG: %[[A:[0-9]+]] = view_load %0, {{.*}}, %[[K]] {other = 0.0} : tile<128x64xbf16>
// CHECK-DAG: %[[B:[0-9]+]] = view_load %1, %[[K]], {{.*}} {other = 0.0} : tile<64x192xbf16>
// CHECK: %[[OUT:[0-9]+]] = dot %[[A]], %[[B]], %[[IN]] : tile<128x192xf32>
// CHECK-NEXT: yield %[[OUT]]
// CHECK: cast %[[ACC]] : tile<128x192xbf16>
// CHECK: view_store %2,

// The copy engine stores the tile in three parts. Each warpgroup writes its rows, fences, and meets at a barrier of its own.
// PTX: .entry matmul
// PTX-NOT: st.global
// PTX: cp.async.bulk.wait_group.read 0;
// PTX: bar.sync %r{{[0-9]+}}, 128;
// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: fence.proxy.async.shared::cta;
// PTX: bar.sync %r{{[0-9]+}}, 128;
// PTX: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
// PTX: cp.async.bulk.commit_group;
// PTX-NOT: st.global
