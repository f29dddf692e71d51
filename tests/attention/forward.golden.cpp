// RUN: --emit=tile --check-prefix=TILE
// RUN: --target=sm_80 --emit=ptx --check-prefix=PTX
// RUN: --target=sm_90a --emit=ptx --check-prefix=HOPPER
// The forward kernel reads like the algorithm, and becomes matrix instructions with asynchronous copies; on sm_90a
// products of warpgroups, whose tiles the copy engine fetches.
#include "support/golden_main.hpp"

#include <flextile/attention/catalogue.hpp>
#include <flextile/attention/compile.hpp>
using namespace flextile;

ir::Function golden() {
  const ir::Mod causal = erase_mask(masks::causal);
  return trace_attention(nullptr, &causal, {.dim = 128}, Target::sm_80());
}
// TILE-LABEL: func @flex_attention
// TILE-SAME: num_warps(4)
// TILE: %[[Q:[0-9]+]] = view_load %0, {{.*}} : tile<128x128xbf16>
// TILE: for {{.*}} {stages = 3}
// TILE: %[[ENTRY:[0-9]+]] = load {{.*}} : i32
// TILE: %[[K:[0-9]+]] = view_load %1, {{.*}} : tile<32x128xbf16>
// TILE: %[[V:[0-9]+]] = view_load %2, {{.*}} : tile<32x128xbf16>
// TILE: %[[KT:[0-9]+]] = transpose %[[K]]
// TILE: %[[S:[0-9]+]] = dot %[[Q]], %[[KT]],
// TILE: %[[SHOWN:[0-9]+]] = if {{.*}} : tile<128x32xf32>
// TILE-NEXT: %[[MASKED:[0-9]+]] = if {{.*}} : tile<128x32xf32>
// TILE: yield %[[S]]
// TILE: if {{.*}} : tile<128x32xf32>
// TILE: yield %[[MASKED]]
// TILE: yield %[[S]]
// TILE: reduce %[[SHOWN]] {axis = 1, kind = "max"} : tile<128xf32>
// TILE: unlikely {{.*}} : tile<128xi1>
// TILE: exp2 {{.*}} : tile<128x32xf32>
// TILE: reduce {{.*}} {axis = 1, kind = "sum"} : tile<128x4x2xf32>
// TILE: reduce {{.*}} {axis = 2, kind = "sum"} : tile<128x4xf32>
// TILE: dot {{.*}}, %[[V]],
// TILE: reduce {{.*}} {axis = 1, kind = "sum"} : tile<128xf32>
// TILE: view_store %3,

// PTX: .entry flex_attention
// PTX-NOT: .local
// PTX-DAG: cp.async.cg.shared.global
// PTX-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-DAG: ex2.approx

// All threads meet once, where the rings are made. Then the producer's warps, one thread of each: they ask what the program is,
// fetch its tiles, and take the next program in one of the steps, or where there are none; they multiply nothing.
// HOPPER: .target sm_90a
// HOPPER-NOT: mma.sync
// HOPPER-NOT: cp.async.cg
// HOPPER: fence.mbarrier_init
// HOPPER: bar.sync
// HOPPER-NOT: {{bar.sync|wgmma}}
// HOPPER: elect.sync
// HOPPER: mbarrier.try_wait.parity
// HOPPER: cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// HOPPER-NOT: {{bar.sync|wgmma}}
// HOPPER: atom.relaxed.gpu.global.inc.u32
// HOPPER: mbarrier.arrive.shared::cta.b64
// HOPPER: atom.relaxed.gpu.global.inc.u32
// HOPPER: mbarrier.arrive.shared::cta.b64
// The consumers multiply; a release is one arrival of each warp, without a branch.
// HOPPER-NOT: {{bar.sync|cp.async.bulk|elect.sync|pending_count|atom}}
// HOPPER: mbarrier.try_wait.parity
// HOPPER: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16
// HOPPER-NOT: {{bar.sync|cp.async.bulk|elect.sync|pending_count|atom}}
// HOPPER: @%first mbarrier.arrive.shared::cta.b64
// HOPPER: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// HOPPER-NOT: {{bar.sync|cp.async.bulk|elect.sync|pending_count|atom}}
// The result goes through the query's stage, a warpgroup's rows at a time.
// HOPPER: bar.sync %r{{[0-9]+}}, 128;
// HOPPER: stmatrix.sync.aligned.m8n8.x4.shared.b16
// HOPPER-NOT: st.global
// HOPPER: fence.proxy.async.shared::cta;
// HOPPER: bar.sync %r{{[0-9]+}}, 128;
// HOPPER: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// HOPPER: cp.async.bulk.commit_group;
// HOPPER-NOT: {{cp.async.bulk|elect.sync|pending_count|atom|st.global}}
