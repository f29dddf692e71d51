// One generic lambda, called with leaves, is an expression; evaluated in a domain, it is the mod's value there.
#pragma once
#include <flextile/dsl/mod_number.hpp>

namespace flextile {

enum class ModKind { none, score, mask };

using ScoreLeaf = LeafNode<ModLeaf::score>;
using BatchLeaf = LeafNode<ModLeaf::batch>;
using HeadLeaf = LeafNode<ModLeaf::head>;
using QueryLeaf = LeafNode<ModLeaf::query>;
using KeyLeaf = LeafNode<ModLeaf::key>;

/// What a callable is, by the number of its parameters.
template <class F>
consteval ModKind mod_kind() {
  if constexpr (std::is_invocable_v<const F&, ScoreLeaf, BatchLeaf, HeadLeaf, QueryLeaf, KeyLeaf>)
    return ModKind::score;
  else if constexpr (std::is_invocable_v<const F&, BatchLeaf, HeadLeaf, QueryLeaf, KeyLeaf>)
    return ModKind::mask;
  else
    return ModKind::none;
}

/// The expression of a mod: the lambda called with leaves.
template <class F>
auto mod_expression(const F& mod) {
  if constexpr (mod_kind<F>() == ModKind::score)
    return as_node(mod(ScoreLeaf{}, BatchLeaf{}, HeadLeaf{}, QueryLeaf{}, KeyLeaf{}));
  else if constexpr (mod_kind<F>() == ModKind::mask)
    return as_node(mod(BatchLeaf{}, HeadLeaf{}, QueryLeaf{}, KeyLeaf{}));
  else {
    static_assert(rules::is_a_mod<F>());
    return NumberNode<bool>(false);
  }
}

/// The value of an expression in a domain, its leaves bound to values of that domain. A domain says what numbers, element-wise
/// operations, captured elements and repetition are: see NumberDomain for plain numbers, IrDomain for the compiled form.
template <class Node, class Domain, class Score, class Index>
auto evaluate(const Node& node, Domain& domain, Score score, Index b, Index h, Index q, Index kv) {
  auto key = bind<KeyLeaf>(kv, EmptyEnvironment{});
  auto query = bind<QueryLeaf>(q, key);
  auto head = bind<HeadLeaf>(h, query);
  auto batch = bind<BatchLeaf>(b, head);
  return node.evaluate(domain, bind<ScoreLeaf>(score, batch));
}

/// What a score mod makes of a score, computed with plain numbers as the compiled form does: in f32, with i32 indices.
template <class F>
float evaluate_score(const F& mod, float score, std::int32_t b, std::int32_t h, std::int32_t q, std::int32_t kv) {
  NumberDomain domain;
  return host::convert<float>(evaluate(mod_expression(mod), domain, score, b, h, q, kv));
}

/// Whether a mask mod shows kv to q.
template <class F>
bool evaluate_mask(const F& mod, std::int32_t b, std::int32_t h, std::int32_t q, std::int32_t kv) {
  NumberDomain domain;
  return domain.truth(evaluate(mod_expression(mod), domain, 0.0f, b, h, q, kv));
}

}  // namespace flextile
