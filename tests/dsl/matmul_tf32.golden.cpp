// RUN: --target=sm_90a --emit=ptx --check-prefix=PTX
// RUN: --target=sm_90a --emit=explain --check-prefix=EXPLAIN
// RUN: --target=sm_80 --emit=ptx --check-prefix=OLDER
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

// b lies in memory as [N, K]: both operands have K along their rows.
template <int BM, int BN, int BK>
inline const auto matmul = kernel("matmul", [](TensorView<const f32, 2> a, TensorView<const f32, 2> b, TensorView<f32, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 4}))
    acc = dot(a.load<BM, BK>(m, k), trans(b.load<BN, BK>(n, k)), acc);
  c.store(acc, m, n);
}, {.num_warps = 8});
ir::Function golden() {
  std::vector<ir::Parameter> facts = matmul<128, 256, 32>.signature();
  for (ir::Parameter& parameter : facts) parameter.aligned = parameter.unit_stride = true;
  return matmul<128, 256, 32>.trace(facts);
}

// A stage is fetched whole and announced with its bytes: 256 x 32 and 128 x 32 f32.
// PTX-DAG: mbarrier.arrive.expect_tx{{.*}}, 32768;
// PTX-DAG: mbarrier.arrive.expect_tx{{.*}}, 16384;
// PTX: cp.async.bulk.tensor.2d
// PTX: wgmma.fence
// PTX: wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {{.*}}, 1, 1, 1;
// PTX-COUNT-3: wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32
// PTX-NOT: wgmma.mma_async
// PTX: wgmma.commit_group
// PTX-NOT: mma.sync

// EXPLAIN-DAG: [dot] wgmma
// EXPLAIN-DAG: [load] tile<128x32xf32> by the copy engine, 4 stages

// OLDER: cvt.rna.tf32.f32
// OLDER: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
