// RUN: --target=sm_90a --emit=ptx --check-prefix=PTX
// RUN: --target=sm_90a --emit=ptx --check-prefix=STORE
// RUN: --target=sm_89 --emit=ptx --check-prefix=ADA
// RUN: --target=sm_80 --emit=ptx --check-prefix=AMPERE
#include <flextile/dsl/dsl.hpp>

#include "support/golden_main.hpp"
using namespace flextile;

template <int BM, int BN, int BK>
inline const auto matmul = kernel("matmul", [](TensorView<const f8e4m3, 2> a, TensorView<const f8e4m3, 2> b, TensorView<f8e4m3, 2> c, Scalar<f32> scale) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = 3}))
    acc = dot(a.load<BM, BK>(m, k), trans(b.load<BN, BK>(n, k)), acc);
  c.store(cast<f8e4m3>(acc * scale), m, n);
}, {.num_warps = 8});
ir::Function golden() {
  std::vector<ir::Parameter> facts = matmul<128, 128, 128>.signature();
  for (ir::Parameter& parameter : facts) {
    if (parameter.type.is_view()) parameter.aligned = parameter.unit_stride = true;
  }
  return matmul<128, 128, 128>.trace(facts);
}

// PTX: cp.async.bulk.tensor.2d
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3
// PTX-NOT: wgmma.mma_async
// STORE: cvt.rn.satfinite.e4m3x2.f32

// ADA-DAG: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
// ADA-DAG: cvt.rn.satfinite.e4m3x2.f32

// AMPERE-NOT: e4m3
// AMPERE: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// AMPERE-NOT: e4m3
