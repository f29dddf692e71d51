// Score and mask mods: what combines them.
#pragma once
#include <flextile/dsl/mod_erase.hpp>

namespace flextile {

/// The score mod that applies f, then g.
template <class F, class G>
auto compose(const F& f, const G& g) {
  return [f, g](auto score, auto b, auto h, auto q, auto kv) { return g(f(score, b, h, q, kv), b, h, q, kv); };
}

/// Visible where all masks show it; with none, everywhere.
template <class... Masks>
auto and_masks(const Masks&... masks) {
  return [=]([[maybe_unused]] auto b, [[maybe_unused]] auto h, [[maybe_unused]] auto q, [[maybe_unused]] auto kv) {
    return (true && ... && masks(b, h, q, kv));
  };
}

/// Visible where one mask shows it; with none, nowhere.
template <class... Masks>
auto or_masks(const Masks&... masks) {
  return [=]([[maybe_unused]] auto b, [[maybe_unused]] auto h, [[maybe_unused]] auto q, [[maybe_unused]] auto kv) {
    return (false || ... || masks(b, h, q, kv));
  };
}

/// Shows everything.
inline constexpr auto noop_mask = [](auto, auto, auto, auto) { return true; };

}  // namespace flextile
