// What is known of mods before they run: which keys come first, which schedule a score mod gets, and whether a mask lets rows see much.
#include <doctest/doctest.h>

#include <flextile/flextile.hpp>

#include "mod_trend.hpp"
#include "mod_weight.hpp"

using namespace flextile;

namespace {

template <class Mod> attention::Trend trend(const Mod& mod) { return attention::trend_along_keys(*erase_score(mod).fragment); }
template <class Mod> bool rises(const Mod& mod) { return trend(mod) == attention::Trend::rises; }
template <class Mod> bool depends(const Mod& mod) { return trend(mod) == attention::Trend::one_way; }
template <class Mod> ModWeight weight(const Mod& mod) {
  const ir::Mod erased = erase_score(mod);
  return attention::weight_of(&erased);
}

}  // namespace

TEST_CASE("a bias that falls with the distance raises scores towards the last keys") {
  CHECK(rises(scores::alibi(8)));
  CHECK(rises([](auto s, auto, auto, auto q, auto kv) { return s + (kv - q); }));
  CHECK(rises([](auto s, auto, auto, auto q, auto kv) { return s - 0.5f * (q - kv); }));
  CHECK(rises([](auto s, auto, auto, auto q, auto kv) { return 20 * tanh((s + 0.1f * (kv - q)) / 20.0f); }));
  CHECK(rises([](auto s, auto, auto, auto q, auto kv) { return s - log(cast<f32>(q - kv + 1)); }));
  CHECK(rises([](auto s, auto, auto, auto q, auto kv) { return s - 0.25f * max(q - kv, 0); }));
  CHECK(rises([](auto s, auto, auto h, auto q, auto kv) { return where(h < 4, s + 0.1f * (kv - q), s); }));
  const Tensor<f32> slopes = zeros<f32>(Device::host(), {8});
  CHECK(rises([slopes](auto s, auto, auto h, auto q, auto kv) { return s + abs(slopes[h]) * (kv - q); }));
}

TEST_CASE("no order of keys is better where scores fall, stay or nothing is known") {
  const Tensor<f32> slopes = zeros<f32>(Device::host(), {8}), table = zeros<f32>(Device::host(), {100});
  CHECK_FALSE(rises(scores::relative));
  CHECK_FALSE(rises(scores::softcap(20)));
  CHECK_FALSE(rises(scores::head_bias));
  CHECK_FALSE(rises([](auto s, auto, auto, auto q, auto kv) { return s + abs(kv - q); }));
  CHECK_FALSE(rises([](auto s, auto, auto, auto q, auto kv) { return s + (q - 2) * kv; }));
  CHECK_FALSE(rises([](auto s, auto, auto, auto, auto kv) { return s + sin(cast<f32>(kv)); }));
  CHECK_FALSE(rises([](auto s, auto, auto, auto, auto kv) { return s * (kv + 1); }));          // of which sign the score is, nobody knows
  CHECK_FALSE(rises([](auto s, auto, auto, auto, auto kv) { return s + kv % 7; }));
  CHECK_FALSE(rises([](auto s, auto, auto, auto q, auto kv) { return where(kv > q, s, s + kv); }));
  CHECK_FALSE(rises([slopes](auto s, auto, auto h, auto q, auto kv) { return s + slopes[h] * (kv - q); }));
  CHECK_FALSE(depends([slopes](auto s, auto, auto h, auto q, auto kv) { return s + slopes[h] * (kv - q) + slopes[0] * kv; }));   // of two signs
  CHECK_FALSE(depends([table](auto s, auto, auto, auto q, auto kv) { return s + table[kv] * (kv - q); }));
  CHECK_FALSE(rises([table](auto s, auto, auto, auto, auto kv) { return s + table[kv]; }));
}

TEST_CASE("the sign of a captured slope decides") {
  const Tensor<f32> slopes = zeros<f32>(Device::host(), {8});
  CHECK(depends([slopes](auto s, auto, auto h, auto q, auto kv) { return s + slopes[h] * (kv - q); }));
  CHECK(depends([slopes](auto s, auto, auto h, auto q, auto kv) { return 5 * tanh((s - slopes[h] * max(q - kv, 0)) / 5.0f); }));
  const auto captured = [slopes](auto s, auto, auto h, auto q, auto kv) { return s + slopes[h] * (kv - q); };
  CHECK(compile_flex_attention(captured, masks::causal, {.dim = 128}, Target::sm_90a(), {.binary = false}).explain().find("largest scores first") != std::string::npos);
}

TEST_CASE("masks whose rows see one side of the keys") {
  const Tensor<i32> ids = zeros<i32>(Device::host(), {100});
  const auto sees = [](const auto& mod) { return attention::sees_one_side(*erase_mask(mod).fragment); };
  CHECK(sees(masks::causal));
  CHECK(sees(masks::prefix_lm(100)));
  CHECK(sees([](auto, auto, auto q, auto kv) { return q + 500 > kv; }));
  CHECK(sees([](auto, auto, auto q, auto kv) { return kv - q >= 3; }));
  CHECK(sees([](auto, auto, auto q, auto kv) { return !(kv > q) && kv < 900; }));
  CHECK(sees([](auto, auto, auto q, auto kv) { return q / 64 >= kv / 64; }));
  CHECK(sees([](auto, auto, auto q, auto kv) { return (q >> 6) >= (kv >> 6); }));
  CHECK(sees([](auto, auto h, auto q, auto kv) { return q >= kv || kv < 16 * h; }));
  CHECK_FALSE(sees(masks::sliding_window(100)));
  CHECK_FALSE(sees(masks::document(ids)));
  CHECK_FALSE(sees([](auto, auto, auto q, auto kv) { return abs(q - kv) < 100; }));
  CHECK_FALSE(sees([](auto, auto, auto q, auto kv) { return q >= kv && q / 1024 == kv / 1024; }));
  CHECK_FALSE(sees([](auto, auto, auto q, auto kv) { return q >= kv && (q - kv) % 8 == 0; }));
  CHECK_FALSE(sees([](auto, auto, auto q, auto kv) { return (q ^ kv) >= 0; }));             // of bits nothing is known
  CHECK_FALSE(sees([](auto, auto, auto, auto kv) { return kv < 128; }));                    // the same keys for all rows, perhaps a few
  CHECK_FALSE(sees([](auto, auto h, auto q, auto kv) { return q >= kv && kv / 128 % 8 == h; }));
  CHECK_FALSE(sees([ids](auto, auto, auto q, auto kv) { return q >= kv && ids[kv] == 0; }));
  CHECK_FALSE(sees([](auto, auto h, auto q, auto kv) { return q >= kv && !(h < 4) * (q - kv) <= 256; }));   // windows in some heads
  CHECK_FALSE(sees([](auto, auto, auto q, auto kv) { return (q >= kv) != (kv > 10); }));
}

TEST_CASE("what a score mod reads decides its schedule") {
  const Tensor<f32> table = zeros<f32>(Device::host(), {8, 100}), wide = zeros<f32>(Device::host(), {64, 64});
  const Tensor<f64> doubles = zeros<f64>(Device::host(), {64});
  const Tensor<bf16> matrix = zeros<bf16>(Device::host(), {64, 64}), matrices = zeros<bf16>(Device::host(), {8, 64, 64});
  CHECK(attention::weight_of(nullptr) == ModWeight::light);
  CHECK(weight(scores::alibi(8)) == ModWeight::light);
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, q) * table(h, kv); }) == ModWeight::light);   // once a row, once a column
  CHECK(weight([matrix](auto s, auto, auto, auto q, auto kv) { return s + matrix(q, kv); }) == ModWeight::matrix);
  CHECK(weight([matrices](auto s, auto, auto h, auto q, auto kv) { return s + matrices(h, q, kv + 3); }) == ModWeight::matrix);
  CHECK(weight([matrix](auto s, auto, auto, auto q, auto kv) { return s + matrix(kv, q); }) == ModWeight::reads);
  CHECK(weight([matrix](auto s, auto, auto, auto q, auto kv) { return s + matrix(q, kv / 2); }) == ModWeight::reads);
  CHECK(weight([wide](auto s, auto, auto, auto q, auto kv) { return s + wide(q, kv); }) == ModWeight::reads);                     // f32 is not fetched in tiles
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, q - kv + 50); }) == ModWeight::light);        // a window of it
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, 7 - (q - 3) + kv); }) == ModWeight::light);
  CHECK(weight([table, matrix](auto s, auto, auto h, auto q, auto kv) { return s + matrix(q, kv) + table(h, q - kv); }) == ModWeight::matrix);
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, max(q - kv, 0)); }) == ModWeight::reads);
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, 2 * q - kv); }) == ModWeight::reads);
  CHECK(weight([table](auto s, auto, auto, auto q, auto kv) { return s + table(q, q - kv); }) == ModWeight::reads);               // another row of it for each query
  const Tensor<f32> odd = zeros<f32>(Device::host(), {8, 101}), line = zeros<f32>(Device::host(), {101}), part = line.slice(0, 1, 101);
  CHECK(weight([odd](auto s, auto, auto h, auto q, auto kv) { return s + odd(h, q - kv + 50); }) == ModWeight::reads);            // rows that begin anywhere
  CHECK(weight([line](auto s, auto, auto, auto q, auto kv) { return s + line[q - kv + 50]; }) == ModWeight::light);
  CHECK(weight([part](auto s, auto, auto, auto q, auto kv) { return s + part[q - kv + 50]; }) == ModWeight::reads);
  const Tensor<f32> axes = zeros<f32>(Device::host(), {1, 1, 1, 1, 8, 100});
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table(h, q - kv) + table(h, kv - q); }) == ModWeight::reads);   // of two, the values take registers too
  CHECK(weight([table](auto, auto, auto h, auto q, auto kv) { return table(h, q - kv); }) == ModWeight::reads);
  CHECK(weight([axes](auto s, auto, auto h, auto q, auto kv) { return s + axes(0, 0, 0, 0, h, q - kv); }) == ModWeight::reads);
  CHECK(weight([table](auto s, auto, auto h, auto q, auto kv) { return s + table.transpose(0, 1)(q - kv, h); }) == ModWeight::reads);
  CHECK(weight([doubles](auto s, auto, auto, auto q, auto kv) { return s + doubles[q - kv]; }) == ModWeight::reads);
}

TEST_CASE("a mod with reads of its own gets a schedule with more registers for it") {
  auto config = [](int dim, ModWeight weight, int q_block, int kv_block) {
    return choose_config({.element = ElementType::bf16, .dim = dim, .value_dim = dim, .q_block = q_block, .kv_block = kv_block, .weight = weight}, Target::sm_90a());
  };
  CHECK(config(64, ModWeight::light, 0, 0).block_n == 128);
  CHECK(config(64, ModWeight::reads, 0, 0).block_n == 96);
  CHECK(config(64, ModWeight::reads, 192, 80).block_n == 80);
  CHECK(config(128, ModWeight::reads, 0, 0).num_warps == 8);
  CHECK(config(128, ModWeight::matrix, 0, 0).block_n == 64);
  for (const int dim : {16, 64, 80, 96, 128, 192, 256})            // the table has a row for each
    for (const ModWeight weight : {ModWeight::light, ModWeight::matrix, ModWeight::reads})
      for (const int rows : {0, 128, 192}) CHECK(config(dim, weight, rows, rows).num_warps >= (dim > 128 && rows == 192 ? 4 : 8));
}
