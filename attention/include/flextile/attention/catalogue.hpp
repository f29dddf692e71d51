// Masks and score mods that people use, by name. Each is an ordinary mod, written as a user would write it.
//
//   BlockMask mask = create_block_mask(masks::sliding_window(1024), {.q_len = T, .kv_len = T});
//   auto attended = flex_attention(q, k, v, scores::alibi(heads), mask);
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <flextile/dsl/mod.hpp>
#include <flextile/ir/mod.hpp>

namespace flextile {

/// mask_mods: true where position q may look at position kv.
namespace masks {

inline constexpr auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };

/// Causal, and at most `window` positions back.
inline auto sliding_window(int window) {
  return [window](auto, auto, auto q, auto kv) { return q >= kv && q - kv <= window; };
}

/// Every `step`-th position within `window` on either side.
inline auto dilated_sliding_window(int window, int step) {
  return [window, step](auto, auto, auto q, auto kv) { return abs(q - kv) <= window && abs(q - kv) % step == 0; };
}

/// The first `prefix` positions are seen by all; the rest is causal.
inline auto prefix_lm(int prefix) {
  return [prefix](auto, auto, auto q, auto kv) { return kv < prefix || q >= kv; };
}

/// Causal inside chunks of `length` positions.
inline auto chunked(int length) {
  return [length](auto, auto, auto q, auto kv) { return q >= kv && q / length == kv / length; };
}

/// Causal inside the position's own document; ids[i] is the document of position i.
template <class Ids> auto document(const Ids& ids) {
  return [ids](auto, auto, auto q, auto kv) { return q >= kv && ids[q] == ids[kv]; };
}

/// Neighbourhood attention on a grid of `width` columns and `height` rows, kernels of odd sizes.
inline auto neighbourhood(int width, int height, int kernel_width, int kernel_height) {
  return [=](auto, auto, auto q, auto kv) {
    auto centre = [](auto at, int kernel, int extent) { return min(max(at, kernel / 2), extent - 1 - kernel / 2); };
    auto dx = abs(centre(q % width, kernel_width, width) - kv % width);
    auto dy = abs(centre(q / width, kernel_height, height) - kv / width);
    return dx <= kernel_width / 2 && dy <= kernel_height / 2;
  };
}

}  // namespace masks

/// score_mods: the score that replaces `score`.
namespace scores {

/// A penalty linear in the distance, steeper for the first heads.
inline auto alibi(int heads) {
  return [heads](auto score, auto, auto h, auto q, auto kv) { return score + exp2(-(h + 1) * 8.0f / heads) * (kv - q); };
}

/// Keeps scores within (-cap, cap).
inline auto softcap(float cap) {
  return [cap](auto score, auto, auto, auto, auto) { return cap * tanh(score / cap); };
}

/// The distance itself as a bias.
inline constexpr auto relative = [](auto score, auto, auto, auto q, auto kv) { return score + (q - kv); };

/// A learned bias of the distance: table(h, q - kv + zero), a table [heads, distances] of which number `zero` is for the distance 0.
/// Distances that it does not have get none. Rows of whole 16 bytes are fetched in windows on sm_90a.
template <class Table> auto distance_bias(const Table& table, int zero) {
  return [table, zero](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + zero); };
}

/// A constant per head.
inline constexpr auto head_bias = [](auto score, auto, auto h, auto, auto) { return score + 2 * h; };

}  // namespace scores

/// A mask of the catalogue for tools: "causal", "sliding_window:1024", "prefix_lm:512", ... Captures, where there are
/// any, are placeholders on the host. Throws ArgumentError that lists the names.
ir::Mod named_mask(std::string_view name);
/// A score mod: "alibi:16", "softcap:20", "relative", "head_bias", "distance_bias:1024".
ir::Mod named_score(std::string_view name);
/// The names that named_mask (named_score) knows, each with its default number.
std::vector<std::string> mask_names();
std::vector<std::string> score_names();

}  // namespace flextile
