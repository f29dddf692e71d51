// compile_flex_attention: the attention kernel of a mod, for any target, to look at.
//
//   auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
//   std::cout << compile_flex_attention(causal, {.dim = 128}, Target::sm_90a()).ptx();
#pragma once
#include <flextile/attention/attention_config.hpp>
#include <flextile/attention/block_mask.hpp>
#include <flextile/backend/compile.hpp>

namespace flextile {

struct AttentionCompileOptions {
  int dim = 64;                               // head dim of query and key
  int value_dim = 0;                          // 0: as dim
  ElementType element = ElementType::bf16;
  int q_block = 0;                            // the block mask's tile; 0: 128, or where both are 0 what calls with q_len rows take it in
  int kv_block = 0;
  std::int64_t q_len = 0;                     // 0: any number of rows; else the kernel for many programs of so many
  bool return_lse = false;
  bool return_max_scores = false;
  bool tf32 = false;
  bool exact_math = false;
  int block_m = 0;                            // as in AttentionOptions
  int block_n = 0;
  int num_warps = 0;
  int stages = 0;
};

/// Null: no score mod, no mask. Query, key, value and output are assumed to be aligned, with unit stride along the head dim; captured tensors are as they are.
ir::Function trace_attention(const ir::Mod* score, const ir::Mod* mask, const AttentionCompileOptions& options, const Target& target);
CompiledKernel compile_attention(const ir::Mod* score, const ir::Mod* mask, const AttentionCompileOptions& options, const Target& target,
                                 const CompileOptions& compile_options = {});

/// A mask mod (four parameters) or a score mod (five).
template <class AnyMod>
CompiledKernel compile_flex_attention(const AnyMod& mod, const AttentionCompileOptions& options, const Target& target, const CompileOptions& compile_options = {}) {
  if constexpr (mod_kind<AnyMod>() == ModKind::score) {
    const ir::Mod score = erase_score(mod);
    return compile_attention(&score, nullptr, options, target, compile_options);
  } else {
    const ir::Mod mask = erase_mask(mod);
    return compile_attention(nullptr, &mask, options, target, compile_options);
  }
}

template <class ScoreMod, class MaskMod>
  requires(!std::is_same_v<ScoreMod, AttentionCompileOptions> && !std::is_same_v<MaskMod, AttentionCompileOptions>)
CompiledKernel compile_flex_attention(const ScoreMod& score_mod, const MaskMod& mask_mod, const AttentionCompileOptions& options, const Target& target,
                                      const CompileOptions& compile_options = {}) {
  const ir::Mod score = erase_score(score_mod), mask = erase_mask(mask_mod);
  return compile_attention(&score, &mask, options, target, compile_options);
}

}  // namespace flextile
