// Attention by plain loops in double, and the unfused computation in the test's own type. Both call the mod's lambda with
// plain numbers; nothing of flextile's kernels is used.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <flextile/flextile.hpp>

namespace flextile::tests {

struct AttentionSizes {
  std::int64_t batch = 1, kv_batch = 1, heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, dim = 16, value_dim = 16;
};

struct AttentionResult {
  std::vector<double> out;   // [batch, heads, q_len, value_dim]
  std::vector<double> lse;   // [batch, heads, q_len]
  std::vector<double> max;
};

/// A mod that changes nothing.
inline constexpr auto same_score = [](auto score, auto, auto, auto, auto) { return score; };
inline constexpr auto all_visible = [](auto, auto, auto, auto) { return true; };

/// A mod's answer to plain numbers: a number, or a node that converts to one.
template <class X> auto plain(const X& x) {
  if constexpr (std::is_arithmetic_v<X>) return x;
  else return node_value(x);
}

/// q, k, v in row-major order. `Number` is the type of scores and sums; `round` what a probability and an output go
/// through before they are used: double and identity for the reference, float and rounding to the test's type for the
/// baseline.
template <class Number, class Score, class Mask, class Round>
AttentionResult attend_by_loops(const AttentionSizes& s, const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v, double scale,
                                const Score& score_mod, const Mask& mask_mod, const Round& round) {
  const Number infinity = std::numeric_limits<Number>::infinity();
  AttentionResult result;
  result.out.assign(s.batch * s.heads * s.q_len * s.value_dim, 0);
  result.lse.assign(s.batch * s.heads * s.q_len, 0);
  result.max.assign(s.batch * s.heads * s.q_len, 0);
  std::vector<Number> keys(k.begin(), k.end()), values(v.begin(), v.end()), row(s.dim), scores(s.kv_len), sums(s.value_dim);
  for (int b = 0; b < s.batch; ++b)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.q_len; ++i) {
        const std::int64_t at = (b * s.heads + h) * s.q_len + i;
        const std::int64_t kv = ((s.kv_batch == 1 ? 0 : b) * s.kv_heads + h / (s.heads / s.kv_heads)) * s.kv_len;
        for (std::int64_t d = 0; d < s.dim; ++d) row[d] = static_cast<Number>(q[at * s.dim + d]);
        Number largest = -infinity;
        bool nan = false;
        for (int j = 0; j < s.kv_len; ++j) {
          scores[j] = -infinity;
          if (!plain(mask_mod(b, h, i, j))) continue;
          const Number* key = keys.data() + (kv + j) * s.dim;
          Number sum = 0;
          for (std::int64_t d = 0; d < s.dim; ++d) sum += row[d] * key[d];
          scores[j] = static_cast<Number>(plain(score_mod(static_cast<Number>(sum * static_cast<Number>(scale)), b, h, i, j)));
          if (scores[j] > largest) largest = scores[j];
          nan = nan || std::isnan(scores[j]);
        }
        result.max[at] = nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(largest);
        const Number shift = largest == -infinity ? Number(0) : largest;
        Number total = 0;
        for (std::int64_t j = 0; j < s.kv_len; ++j) total += scores[j] = std::exp(scores[j] - shift);
        result.lse[at] = static_cast<double>(total == 0 ? -infinity : largest + std::log(total));
        sums.assign(s.value_dim, 0);
        for (std::int64_t j = 0; j < s.kv_len; ++j) {
          const Number weight = static_cast<Number>(round(static_cast<double>(total == 0 ? Number(0) : scores[j] / total)));
          if (weight == 0) continue;
          for (std::int64_t d = 0; d < s.value_dim; ++d) sums[d] += weight * values[(kv + j) * s.value_dim + d];
        }
        for (std::int64_t d = 0; d < s.value_dim; ++d) result.out[at * s.value_dim + d] = round(static_cast<double>(sums[d]));
      }
  return result;
}

template <class Score, class Mask>
AttentionResult reference_attention(const AttentionSizes& s, const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                                    double scale, const Score& score_mod, const Mask& mask_mod) {
  return attend_by_loops<double>(s, q, k, v, scale, score_mod, mask_mod, [](double x) { return x; });
}

/// The unfused computation in element type T: scores and softmax in float, probabilities rounded to T.
template <class T, class Score, class Mask>
AttentionResult baseline_attention(const AttentionSizes& s, const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                                   double scale, const Score& score_mod, const Mask& mask_mod) {
  return attend_by_loops<float>(s, q, k, v, scale, score_mod, mask_mod,
                                [](double x) { return static_cast<double>(static_cast<float>(T(static_cast<float>(x)))); });
}

/// Mean absolute difference; NaN where one is NaN and the other is not.
inline double mean_error(const std::vector<double>& expected, const std::vector<double>& actual) {
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
    sum += std::abs(expected[i] - actual[i]);
  }
  return expected.empty() ? 0 : sum / static_cast<double>(expected.size());
}

}  // namespace flextile::tests
