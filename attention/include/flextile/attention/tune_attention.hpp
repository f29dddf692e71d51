// tune_flex_attention(q, k, v, ...): times a few configurations of the attention kernel and keeps the fastest.
//
//   auto tuning = tune_flex_attention(q, k, v, softcap, block_mask);     // once, also in an earlier process: the result is on disk
//   auto out = flex_attention(q, k, v, softcap, block_mask).out;         // takes it
//
// The result is for the variant (element type, head dims, tile of the block mask, program of the mods, what is returned, other options)
// and a class of sizes (query and key lengths and the number of heads of all batches, each rounded up to a power of two) on devices of
// this kind. flex_attention looks for it when it first sees a variant and a class in a process; calls that set block_m, block_n,
// num_warps or stages do not. What a mask lets see is not part of the class: tune with a mask that is typical. Another configuration
// may add in another order, so the last bits of results can change once it is there.
#pragma once
#include <string>
#include <vector>

#include <flextile/attention/attention_config.hpp>
#include <flextile/attention/flex_attention.hpp>
#include <flextile/runtime/candidate_times.hpp>

namespace flextile {

struct AttentionTuningOptions {
  bool afresh = false;                // time the candidates, whatever is kept on disk; so does FLEXTILE_RETUNE=1
};

struct AttentionTuning {
  AttentionConfig config;             // the fastest that is not rejected, or the library's own choice where that is faster still
  std::vector<CandidateTime> times;   // of candidate_configs, named by their texts
  std::string problem;                // what it is for: the variant and the class of sizes, in words
  bool kept = false;                  // read from disk: nothing ran
};

/// The problem, a line per candidate, and which one is taken.
std::string to_string(const AttentionTuning& tuning);

/// Behind tune_flex_attention. Null: no score mod, no mask. Runs the kernel some hundred times on the call's stream and waits. Throws as
/// flex_attention does, ArgumentError where the options set what tuning chooses, and CompileError where every candidate failed.
AttentionTuning tune_attention(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                               const AttentionOptions& options, const AttentionTuningOptions& tuning = {});

template <Element T>
AttentionTuning tune_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const AttentionOptions& options = {},
                                    const AttentionTuningOptions& tuning = {}) {
  return tune_attention(query, key, value, nullptr, nullptr, options, tuning);
}

template <Element T>
AttentionTuning tune_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const BlockMask& block_mask,
                                    const AttentionOptions& options = {}, const AttentionTuningOptions& tuning = {}) {
  return tune_attention(query, key, value, nullptr, &block_mask, options, tuning);
}

template <Element T, ScoreModArgument ScoreMod>
AttentionTuning tune_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const ScoreMod& score_mod,
                                    const AttentionOptions& options = {}, const AttentionTuningOptions& tuning = {}) {
  const ir::Mod score = erase_score(score_mod);
  return tune_attention(query, key, value, &score, nullptr, options, tuning);
}

template <Element T, ScoreModArgument ScoreMod>
AttentionTuning tune_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value, const ScoreMod& score_mod, const BlockMask& block_mask,
                                    const AttentionOptions& options = {}, const AttentionTuningOptions& tuning = {}) {
  const ir::Mod score = erase_score(score_mod);
  return tune_attention(query, key, value, &score, &block_mask, options, tuning);
}

}  // namespace flextile
