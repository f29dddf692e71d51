// Machine code of the reference kernels of attention: no register is spilled, no wgmma is serialised, no setmaxnreg ignored.
#include <algorithm>
#include <string>
#include <vector>

#include <flextile/flextile.hpp>

#include "support/ptxas.hpp"

using namespace flextile;

namespace {

/// A kernel for a mask's tile of the default size, or of the size that is fastest; without a mask the tile says nothing.
template <class... Mods> void check(const char* what, int dim, MaskBlock block, const Target& target, const Mods&... mods) {
  CAPTURE(what);
  CAPTURE(block.q);
  CAPTURE(block.kv);
  const AttentionCompileOptions options{.dim = dim, .q_block = block.q, .kv_block = block.kv};
  if constexpr (sizeof...(Mods) == 0) test::check_assembles_well(compile_attention(nullptr, nullptr, options, target));
  else test::check_assembles_well(compile_flex_attention(mods..., options, target));
}

/// Variants that people use, in the schedules that they get.
void check_variants(int dim, const Target& target) {
  if (!test::has_ptxas()) return;
  CAPTURE(dim);
  const Tensor<i32> ids = document_ids(Device::host(), 512);
  const Tensor<f32> table = zeros<f32>(Device::host(), {8, 1024});
  const Tensor<bf16> matrix = zeros<bf16>(Device::host(), {512, 512});
  const auto relative = [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + 511); };
  const auto biased = [matrix](auto score, auto, auto, auto q, auto kv) { return score + matrix(q, kv); };
  const MaskBlock best = best_mask_block(ElementType::bf16, dim, target);
  std::vector<MaskBlock> blocks = {{128, 128}, best, best_mask_block(ElementType::bf16, dim, target, 4096)};
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  check("full", dim, best, target);
  for (const MaskBlock& block : blocks) {
    check("causal", dim, block, target, masks::causal);
    check("documents", dim, block, target, masks::document(ids));
  }
  check("alibi", dim, best, target, scores::alibi(8), masks::causal);
  check("softcap", dim, best, target, scores::softcap(20), masks::causal);
  check("relative bias", dim, best, target, relative, masks::causal);
  if (dim <= 128) check("bias of every position", dim, best, target, biased, masks::causal);
}

}  // namespace

TEST_CASE("assembled attention: head dim 64 on sm_90a") { check_variants(64, Target::sm_90a()); }
TEST_CASE("assembled attention: head dim 96 on sm_90a") { check_variants(96, Target::sm_90a()); }
TEST_CASE("assembled attention: head dim 128 on sm_90a") { check_variants(128, Target::sm_90a()); }
TEST_CASE("assembled attention: head dim 192 on sm_90a") { check_variants(192, Target::sm_90a()); }
TEST_CASE("assembled attention: head dim 256 on sm_90a") { check_variants(256, Target::sm_90a()); }

TEST_CASE("assembled attention: on sm_80") {
  for (const int dim : {64, 128, 256}) check_variants(dim, Target::sm_80());
}

TEST_CASE("assembled attention: a schedule that cannot fit is found out") {
  if (!test::has_ptxas()) return;
  // 192 rows of 256 columns of scores and 128 of output, in 160 registers.
  const Resources resources = test::assembled_by_ptxas(compile_flex_attention(masks::causal, {.dim = 128, .q_block = 192, .kv_block = 256, .block_n = 256}, Target::sm_90a()));
  CAPTURE(resources.log);
  CHECK(test::faults_text(resources).find("spills") == 0);
}
