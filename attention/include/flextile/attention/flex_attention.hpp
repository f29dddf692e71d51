// flex_attention(q, k, v, ...): attention with your own score and mask rules, in one fused kernel.
//
//   auto softcap = [](auto score, auto b, auto h, auto q, auto kv) { return 20.0f * tanh(score / 20.0f); };
//   auto attended = flex_attention(q, k, v, softcap, block_mask, {.return_lse = true});
//
// query (B, Hq, L, E), key (Bkv, Hkv, S, E), value (Bkv, Hkv, S, Ev) → out (B, Hq, L, Ev):
//   s = query . key * scale;  s = score_mod(s, b, h, q, kv);  hidden s = -inf;  softmax over kv;  times value
// Bkv is B or 1, Hq a multiple of Hkv, E and Ev are 1 to 256; f32, f16 or bf16; any strides. A row that sees nothing gives 0 and lse
// -inf. Scores are f32, weights are taken in base 2: a score of magnitude x has weights that err by a factor of up to 1 + x / 1e7, far
// beyond 1e7 a row may be infinite or NaN, and a score beyond 2.3e38, such as -FLT_MAX, counts as infinite. max_scores of a row with NaN
// and +inf is +inf. A value that is NaN or infinite reaches every row that visits its tile, even where the mask hides it.
// ArgumentError, and nothing is launched, where an argument does not fit.
#pragma once
#include <type_traits>

#include <flextile/attention/attention_options.hpp>
#include <flextile/attention/block_mask.hpp>
#include <flextile/runtime/tensor.hpp>

namespace flextile {

template <Element T> struct Attended {
  Tensor<T> out;              // strides in the order of the query's, the last one 1
  Tensor<f32> lse;            // (B, Hq, L): natural logarithm of the sum of exp(score); if return_lse
  Tensor<f32> max_scores;     // (B, Hq, L): if return_max_scores
};

/// Attended without its element type.
struct AttendedRef {
  TensorRef out, lse, max_scores;
};

/// Behind flex_attention. Null: no score mod, no mask.
AttendedRef attend(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                   const AttentionOptions& options);

/// What stands in the place of a score mod.
template <class F> concept ScoreModArgument = !std::is_base_of_v<BlockMask, F> && !std::is_base_of_v<AttentionOptions, F> && !std::is_base_of_v<TensorRef, F>;

template <Element Q, Element K, Element V> Attended<Q> attend_typed(const Tensor<Q>& query, const Tensor<K>& key, const Tensor<V>& value, const ir::Mod* score,
                                                                    const BlockMask* mask, const AttentionOptions& options) {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<Q, V>, "[flex_attention] query, key and value must have one element type");
  const AttendedRef attended = attend(query, key, value, score, mask, options);
  Attended<Q> result{Tensor<Q>(attended.out), {}, {}};
  if (attended.lse) result.lse = Tensor<f32>(attended.lse);
  if (attended.max_scores) result.max_scores = Tensor<f32>(attended.max_scores);
  return result;
}

template <Element Q, Element K, Element V>
Attended<Q> flex_attention(const Tensor<Q>& query, const Tensor<K>& key, const Tensor<V>& value, const AttentionOptions& options = {}) {
  return attend_typed(query, key, value, nullptr, nullptr, options);
}

template <Element Q, Element K, Element V>
Attended<Q> flex_attention(const Tensor<Q>& query, const Tensor<K>& key, const Tensor<V>& value, const BlockMask& block_mask,
                           const AttentionOptions& options = {}) {
  return attend_typed(query, key, value, nullptr, &block_mask, options);
}

template <Element Q, Element K, Element V, ScoreModArgument ScoreMod>
Attended<Q> flex_attention(const Tensor<Q>& query, const Tensor<K>& key, const Tensor<V>& value, const ScoreMod& score_mod,
                           const AttentionOptions& options = {}) {
  const ir::Mod score = erase_score(score_mod);
  return attend_typed(query, key, value, &score, nullptr, options);
}

template <Element Q, Element K, Element V, ScoreModArgument ScoreMod>
Attended<Q> flex_attention(const Tensor<Q>& query, const Tensor<K>& key, const Tensor<V>& value, const ScoreMod& score_mod, const BlockMask& block_mask,
                           const AttentionOptions& options = {}) {
  const ir::Mod score = erase_score(score_mod);
  return attend_typed(query, key, value, &score, &block_mask, options);
}

}  // namespace flextile
