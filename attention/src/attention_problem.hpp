// What one call of flex_attention asks for, checked.
#pragma once
#include <cstdint>

#include <flextile/attention/attention_options.hpp>
#include <flextile/attention/block_mask.hpp>
#include <flextile/ir/mod.hpp>
#include <flextile/ir/tensor_handle.hpp>

namespace flextile::attention {

struct AttentionProblem {
  const ir::TensorHandle &query, &key, &value;   // the caller's
  const ir::Mod* score = nullptr;        // null: none
  const BlockMask* mask = nullptr;       // null: all is visible
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, dim = 0, value_dim = 0;
  float scale = 0;                       // multiplies q.k before the score mod
};

/// Throws ArgumentError for the first rule of flex_attention that the arguments break; launches nothing. The result refers to
/// the tensors, the mod and the mask.
AttentionProblem check_problem(const ir::TensorHandle& query, const ir::TensorHandle& key, const ir::TensorHandle& value,
                               const ir::Mod* score, const BlockMask* mask, const AttentionOptions& options);

}  // namespace flextile::attention
