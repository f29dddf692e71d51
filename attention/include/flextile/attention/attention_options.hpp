// Options of flex_attention.
#pragma once
#include <optional>

namespace flextile {

class Stream;

struct AttentionOptions {
  std::optional<float> scale = {};  // multiplies q.k before the score mod; 1 / sqrt(head dim) when not given
  bool return_lse = false;          // natural logarithm of each row's sum of exponentials
  bool return_max_scores = false;   // each row's largest modified score
  bool tf32 = false;                // f32 tensors: tensor cores with 10-bit mantissas instead of full precision
  bool exact_math = false;          // score mods of f16 and bf16 without quick instructions of a GPU: tanh to some 11 bits, division and casts
  int block_m = 0;                  // at most so many query rows a program; 0: the library's choice
  int block_n = 0;                  // at most so many key columns a step; 0: the library's choice
  int num_warps = 0;                // 0: the library's choice
  int stages = 0;                   // key and value tiles in flight; 0: the library's choice
  const Stream* stream = nullptr;   // where the kernel is queued, after what made its arguments; default: the device's own stream
};

}  // namespace flextile
