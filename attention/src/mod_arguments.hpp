// A mod's captured tensors and dynamic scalars as a kernel's trailing parameters.
#pragma once
#include <string>
#include <vector>

#include <flextile/ir/mod.hpp>
#include <flextile/runtime/argument.hpp>

namespace flextile::attention {

/// The parameters of `fragment` from number `skip` on (the captured tensors, then the scalars), named "prefix_<i>".
void append_parameters(std::vector<ir::Parameter>& signature, const ir::Function* fragment, std::size_t skip, const std::string& prefix);

/// Their values, in the same order. `mod` must outlive the launch.
void append_arguments(std::vector<Argument>& arguments, const ir::Mod& mod);

/// Number of parameters of a mod before its captured tensors.
inline constexpr std::size_t score_indices = 5;
inline constexpr std::size_t mask_indices = 4;
/// Among a score mod's parameters: the score, then b, h, q and kv.
inline constexpr std::size_t q_of_score = 3;
inline constexpr std::size_t kv_of_score = 4;
/// Among a mask mod's: b, h, q and kv.
inline constexpr std::size_t q_of_mask = 2;
inline constexpr std::size_t kv_of_mask = 3;

}  // namespace flextile::attention
