// select_flex_attention(q, k, v, ...): the kernel that flex_attention would launch for these arguments, loaded on their device.
//
//   std::cout << select_flex_attention(q, k, v, softcap, block_mask).compiled().explain();    // schedule, bound, registers, spills
#pragma once
#include <flextile/attention/flex_attention.hpp>
#include <flextile/runtime/loaded_kernel.hpp>

namespace flextile {

/// Behind select_flex_attention. Null: no score mod, no mask. Compiles and loads the kernel where that was not done yet, and launches
/// nothing but, as a first call would, what lists a mask in the tiles that it is taken in. Throws as flex_attention does.
LoadedKernel select_attention(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                              const AttentionOptions& options);

template <Element T>
LoadedKernel select_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const AttentionOptions& options = {}) {
  return select_attention(query, key, value, nullptr, nullptr, options);
}

template <Element T>
LoadedKernel select_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const BlockMask& block_mask,
                                   const AttentionOptions& options = {}) {
  return select_attention(query, key, value, nullptr, &block_mask, options);
}

template <Element T, ScoreModArgument ScoreMod>
LoadedKernel select_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const ScoreMod& score_mod,
                                   const AttentionOptions& options = {}) {
  const ir::Mod score = erase_score(score_mod);
  return select_attention(query, key, value, &score, nullptr, options);
}

template <Element T, ScoreModArgument ScoreMod>
LoadedKernel select_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const ScoreMod& score_mod, const BlockMask& block_mask,
                                   const AttentionOptions& options = {}) {
  const ir::Mod score = erase_score(score_mod);
  return select_attention(query, key, value, &score, &block_mask, options);
}

}  // namespace flextile
