// Machine code of the reference kernels of the backend: no register is spilled, no wgmma is serialised.
#include <flextile/dsl/dsl.hpp>

#include "support/ptxas.hpp"
#include "support/reference_kernels.hpp"

using namespace flextile;

namespace {

/// samples/matmul.cpp, in its two sizes of tiles and others.
template <int BM, int BN, int BK, int Stages, int Warps>
inline const auto matmul = kernel("matmul", [](TensorView<const bf16, 2> a, TensorView<const bf16, 2> b, TensorView<bf16, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), BK, {.stages = Stages}))
    acc = dot(a.load<BM, BK>(m, k), b.load<BK, BN>(k, n), acc);
  c.store(cast<bf16>(acc), m, n);
}, {.num_warps = Warps});

template <class K> void check(const K& kernel) {
  if (!test::has_ptxas()) return;
  std::vector<ir::Parameter> facts = kernel.signature();
  for (ir::Parameter& parameter : facts) parameter.aligned = parameter.unit_stride = true;
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
    if (target.sm == 80 && kernel.trace(facts).num_warps == 12) continue;   // tiles for three warpgroups
    CAPTURE(target.name());
    test::check_assembles_well(compile(kernel.trace(facts), target));
  }
}

}  // namespace

TEST_CASE("assembled matmul: 192x192x64, the sample's") { check(matmul<192, 192, 64, 4, 12>); }
TEST_CASE("assembled matmul: 64x96x32, the sample's") { check(matmul<64, 96, 32, 4, 4>); }
TEST_CASE("assembled matmul: 128x128x64") { check(matmul<128, 128, 64, 3, 8>); }

TEST_CASE("assembled softmax") {
  if (!test::has_ptxas()) return;
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) test::check_assembles_well(compile(test::softmax(), target));
}

TEST_CASE("assembled: a kernel with more in registers than there are is found out, whoever assembles it") {
  const CompiledKernel kernel = compile(test::matmul({.m = 256, .n = 256, .k = 32, .warps = 4, .stages = 2}), Target::sm_80());
  if (!kernel.binary.empty()) CHECK(test::faults_text(kernel.resource_usage).find("spills") == 0);
  if (!kernel.binary.empty()) CHECK(kernel.explain().find("; spills ") != std::string::npos);
  if (test::has_ptxas()) CHECK(test::faults_text(test::assembled_by_ptxas(kernel)).find("spills") == 0);
}
