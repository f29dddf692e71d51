// The score mods that people use (flex_semantics.md section 3), each against a plain oracle in double.
#include "check_mod.hpp"

using namespace flextile;
using namespace flextile::test;

TEST_CASE("scores of positions and heads") {
  int heads = 4;
  auto alibi = [heads](auto score, auto, auto h, auto q, auto kv) { return score + exp2(-(h + 1) * 8.0f / heads) * (kv - q); };
  auto softcap = [](auto score, auto, auto, auto, auto) { return 20.0f * tanh(score / 20.0f); };
  auto alibi_oracle = [](double s, int, int h, int q, int k) { return s + std::exp2(-(h + 1) * 8.0 / 4) * (k - q); };
  check_score("alibi", alibi, {1, 4, 7, 7}, alibi_oracle);
  check_score("softcap", softcap, {1, 1, 30, 30, 5}, [](double s, int, int, int, int) { return 20 * std::tanh(s / 20); });
  check_score("compose", compose(alibi, softcap), {1, 4, 7, 7},
              [&](double s, int b, int h, int q, int k) { return 20 * std::tanh(alibi_oracle(s, b, h, q, k) / 20); });
  check_score(
      "relative", [](auto score, auto, auto, auto q, auto kv) { return score + (q - kv); }, {1, 1, 5, 5},
      [](double s, int, int, int q, int k) { return s + q - k; });
  check_score(
      "head bias", [](auto score, auto, auto h, auto, auto) { return score + 2 * h; }, {1, 3, 3, 3},
      [](double s, int, int h, int, int) { return s + 2 * h; });
  check_score(
      "double literals adapt", [](auto score, auto, auto, auto q, auto) { return score * 0.5 + q * 0.25; }, {1, 1, 5, 5},
      [](double s, int, int, int q, int) { return s * 0.5 + q * 0.25; });
  check_score(
      "checkerboard", [](auto score, auto, auto, auto q, auto kv) { return where((q + kv) % 2 == 0, score * 0.5f, score * 2); },
      {1, 1, 5, 5}, [](double s, int, int, int q, int k) { return (q + k) % 2 == 0 ? s * 0.5 : s * 2; });
  check_score(
      "mask as score", [](auto score, auto, auto, auto q, auto kv) { return where(q >= kv, score, -1e9); }, {1, 1, 5, 5},
      [](double s, int, int, int q, int k) { return q >= k ? s : -1e9; });
  check_score(
      "activation", [](auto score, auto, auto, auto, auto) { return log(max(score, 0) + 3.0f); }, {1, 1, 5, 5},
      [](double s, int, int, int, int) { return std::log(std::max(s, 0.0) + 3); });
  check_score(
      "integer result", [](auto, auto, auto, auto q, auto kv) { return q - kv; }, {1, 1, 5, 5},
      [](double, int, int, int q, int k) { return q - k; });
}

TEST_CASE("scores that read tables") {
  HostTensor<i32> distance({1, 4, 4}, {0, 1, 2, 3, 1, 0, 1, 2, 2, 1, 0, 1, 3, 2, 1, 0});
  HostTensor<f32> table({2, 4}, {0.5f, 0.25f, -1, 2, 3, -0.125f, 1, 7});
  check_score(
      "graphormer spatial",
      [=, table = learnable(table)](auto score, auto b, auto h, auto q, auto kv) { return score + table(h, distance(b, q, kv)); },
      {1, 2, 4, 4}, [&](double s, int, int h, int q, int k) { return s + table.at(h * 4 + distance.at(q * 4 + k)); });
  HostTensor<i32> types({1, 3, 3, 2}, {0, 1, 2, 3, 1, 0, 3, 1, 2, 0, 1, 1, 0, 0, 2, 2, 3, 3});
  check_score(
      "graphormer edge",
      [=](auto score, auto b, auto h, auto q, auto kv) {
        return score + sum_over(2, [=](auto n) { return table(h, types(b, q, kv, n)); }) / 2;
      },
      {1, 2, 3, 3},
      [&](double s, int, int h, int q, int k) {
        double sum = 0;
        for (int n = 0; n < 2; ++n) sum += table.at(h * 4 + types.at((q * 3 + k) * 2 + n));
        return s + sum / 2;
      });
  const int T = 4;
  std::vector<f32> waves(2 * T);
  for (int i = 0; i < 2 * T; ++i) waves[i] = static_cast<float>(std::cos(i * 0.3) + std::cos(i * 0.03));
  auto sandwich_table = vector_of<f32>(waves);
  check_score(
      "sandwich", [=](auto score, auto, auto h, auto q, auto kv) { return score + sandwich_table[q - kv + T] * 4.0f / (8 * (h + 1)); },
      {1, 3, T, T}, [&](double s, int, int h, int q, int k) { return s + waves[q - k + T] * 4.0 / (8 * (h + 1)); });
  HostTensor<bf16> half({2, 3}, {bf16(0.5f), bf16(-2.0f), bf16(1.25f), bf16(3.0f), bf16(0.0f), bf16(-0.75f)});
  check_score(
      "bf16 table", [half](auto score, auto, auto h, auto q, auto) { return score * half(h, q) + 1; }, {1, 2, 3, 3},
      [&](double s, int, int h, int q, int) { return s * static_cast<float>(half.at(h * 3 + q)) + 1; });
}

TEST_CASE("a dot product of captured rows: short and long sums") {
  for (int dim : {8, 40}) {  // unrolled, and a loop in the IR
    std::vector<f32> qr(3 * dim), kr(3 * dim);
    for (int i = 0; i < 3 * dim; ++i) qr[i] = static_cast<float>(i % 7) * 0.25f, kr[i] = static_cast<float>(i % 5) - 2;
    HostTensor<f32> queries({3, dim}, qr), keys({3, dim}, kr);
    auto rope = [=](auto score, auto, auto, auto q, auto kv) {
      return score + 0.125f * sum_over(dim, [=](auto i) { return queries(q, i) * keys(kv, i); });
    };
    check_score("rope", rope, {1, 1, 3, 3}, [&](double s, int, int, int q, int k) {
      double sum = 0;
      for (int i = 0; i < dim; ++i) sum += qr[q * dim + i] * kr[k * dim + i];
      return s + 0.125 * sum;
    });
  }
  check_score(
      "nested sums",
      [](auto score, auto, auto, auto q, auto kv) {
        return score + sum_over(3, [=](auto i) { return sum_over(2, [=](auto j) { return (q + i) * (kv + j); }); });
      },
      {1, 1, 3, 3},
      [](double s, int, int, int q, int k) {
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 2; ++j) s += (q + i) * (k + j);
        return s;
      });
  check_score(
      "every function",
      [](auto score, auto, auto, auto q, auto kv) {
        auto x = abs(score) + 1.0f;
        auto y = exp(-x) + log(x) + log2(x) + sin(x) * cos(x) + erf(x) + sqrt(x) + rsqrt(x) + pow(x, 1.5f) + fma(x, x, score);
        return y + floor(score) + ceil(score) + round(score) + trunc(score) + cast<f32>(cast<i32>(score) & 3) + (q ^ kv) + (~q | 1) +
               (1 << kv) + exp2(q) + min(q, kv);
      },
      {1, 1, 5, 5},
      [](double s, int, int, int q, int k) {
        double x = std::fabs(s) + 1;
        double y = std::exp(-x) + std::log(x) + std::log2(x) + std::sin(x) * std::cos(x) + std::erf(x) + std::sqrt(x) + 1 / std::sqrt(x) +
                   std::pow(x, 1.5) + x * x + s;
        return y + std::floor(s) + std::ceil(s) + std::rint(s) + std::trunc(s) + (static_cast<int>(s) & 3) + (q ^ k) + (~q | 1) + (1 << k) +
               std::exp2(q) + std::min(q, k);
      });
}
