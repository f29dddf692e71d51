// The forward attention kernel: a tile program after Dao, "FlashAttention-2" (2023), algorithm 1, over the tiles that a
// block mask lists.
#pragma once
#include <string>
#include <vector>

#include <flextile/attention/attention_config.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::attention {

/// Everything that changes the kernel's code.
struct ForwardKernel {
  AttentionShape shape;
  AttentionConfig config;
  const ir::Function* score = nullptr;     // fragments of the mods; null: none
  const ir::Function* mask = nullptr;
  bool listed = false;                     // a block mask lists the tiles; else every tile is computed
  bool return_lse = false;
  bool return_max_scores = false;
  bool positive_scale = true;              // without a score mod, scaling may follow the maximum
  bool tf32 = false;
  bool exact_math = false;                 // score mods without the target's quick instructions
  bool clamped = true;                     // mods that read memory see existing positions only; a GPU's reads guard their bounds themselves
  bool operator==(const ForwardKernel&) const = default;
  std::uint64_t hash() const;
  /// The configuration and the order of the keys, for explain().
  std::string describe() const;

  std::vector<ir::Parameter> signature() const;
  /// `facts` is signature() with what is known of the arguments.
  ir::Function trace(const std::vector<ir::Parameter>& facts) const;
};

}  // namespace flextile::attention
