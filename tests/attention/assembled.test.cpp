// Machine code of the reference kernels of attention: no register is spilled, no wgmma is serialised, no setmaxnreg ignored.
#include <algorithm>
#include <string>
#include <vector>

#include <flextile/flextile.hpp>

#include "support/ptxas.hpp"

using namespace flextile;

namespace {

/// Kernels that do spill, and how much in a thread (ptxas 13.0): three warpgroups have 160 registers each, and these mods need more than
/// scores and sums leave. Shorter is better; longer is a fault.
struct KnownSpill {
  const char* variant;
  int dim;
  MaskBlock block;
  int bytes;
};
constexpr KnownSpill known_spills[] = {
    {"alibi", 64, {192, 128}, 140}, {"distance", 64, {192, 128}, 124}, {"matrix", 64, {192, 128}, 216},
    {"table of distances", 96, {192, 96}, 40}, {"table of distances", 128, {192, 80}, 16},
};
/// mma.sync, 128 rows in four warps.
constexpr KnownSpill known_spills_of_sm_80[] = {{"table of distances", 64, {128, 128}, 12}, {"matrix", 64, {128, 128}, 64}, {"documents", 128, {128, 128}, 8}};

template <std::size_t Count> int known(const KnownSpill (&spills)[Count], const std::string& variant, int dim, MaskBlock block) {
  for (const KnownSpill& spill : spills)
    if (variant == spill.variant && dim == spill.dim && block == spill.block) return spill.bytes;
  return 0;
}

/// A kernel for a mask's tile of the default size, or of the size that is fastest; without a mask the tile says nothing.
template <class... Mods> void check(const std::string& variant, int dim, MaskBlock block, const Target& target, const Mods&... mods) {
  CAPTURE(variant);
  CAPTURE(block.q);
  CAPTURE(block.kv);
  const AttentionCompileOptions options{.dim = dim, .q_block = block.q, .kv_block = block.kv};
  const int most = target.sm == 80 ? known(known_spills_of_sm_80, variant, dim, block) : known(known_spills, variant, dim, block);
  if constexpr (sizeof...(Mods) == 0) test::check_assembles_well(compile_attention(nullptr, nullptr, options, target), most);
  else test::check_assembles_well(compile_flex_attention(mods..., options, target), most);
}

/// Variants that people use, in the schedules that they get.
void check_variants(int dim, const Target& target) {
  if (!test::has_ptxas()) return;
  CAPTURE(dim);
  const Tensor<i32> ids = document_ids(Device::host(), 512);
  const Tensor<f32> table = zeros<f32>(Device::host(), {8, 1024});
  const Tensor<bf16> matrix = zeros<bf16>(Device::host(), {512, 512});
  const auto distances = [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + 511); };
  const auto biased = [matrix](auto score, auto, auto, auto q, auto kv) { return score + matrix(q, kv); };
  std::vector<MaskBlock> blocks = {{128, 128}};
  auto add = [&](MaskBlock block) {
    if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
  };
  add(best_mask_block(ElementType::bf16, dim, target));
  if (dim > 128 && target.sm == 90) add({128, 80});
  const std::size_t long_sequences = blocks.size();
  add(best_mask_block(ElementType::bf16, dim, target, 4096));
  check("full", dim, blocks[0], target);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const MaskBlock& block = blocks[i];
    check("causal", dim, block, target, masks::causal);
    check("documents", dim, block, target, masks::document(ids));
    if (i >= long_sequences) continue;
    check("alibi", dim, block, target, scores::alibi(8), masks::causal);
    check("softcap", dim, block, target, scores::softcap(20), masks::causal);
    check("distance", dim, block, target, scores::relative, masks::causal);
    check("table of distances", dim, block, target, distances, masks::causal);
    if (dim <= 128) check("matrix", dim, block, target, biased, masks::causal);
  }
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
