// flex_attention over shapes, types, mods and masks, on every device.
#include "support/attention_case.hpp"

using namespace flextile;
using namespace flextile::tests;

namespace {

/// A factory of a mod without captured tensors.
template <class Mod> auto anywhere(const Mod& mod) {
  return [mod](const Device&) { return mod; };
}

template <class Body> void on_every_device(const Body& body) {
  for (const Device& device : Device::all()) body(device);
}

template <class T> void plain_shapes(const Device& device) {
  const AttentionSizes shapes[] = {
      {1, 1, 1, 1, 1, 1, 16, 16},     {1, 1, 2, 1, 3, 1, 8, 8},         {2, 1, 3, 1, 127, 200, 64, 64}, {2, 2, 6, 2, 130, 65, 40, 72},
      {1, 1, 1, 1, 33, 257, 1, 5},    {1, 1, 2, 2, 70, 70, 100, 17},    {1, 1, 2, 1, 96, 160, 128, 256}, {1, 1, 1, 1, 50, 90, 256, 128},
  };
  for (const AttentionSizes& s : shapes) {
    CAPTURE(device.name());
    CAPTURE(describe(s));
    const AttentionInputs<T> in(device, s);
    const auto attended = flex_attention(in.q, in.k, in.v, {.return_lse = true, .return_max_scores = true});
    check_attended(in, attended, 1 / std::sqrt(static_cast<double>(s.dim)), same_score, all_visible, device.target());
  }
}

}  // namespace

TEST_CASE("neither mod, f32") { on_every_device(plain_shapes<f32>); }
TEST_CASE("neither mod, f16") { on_every_device(plain_shapes<f16>); }
TEST_CASE("neither mod, bf16") { on_every_device(plain_shapes<bf16>); }

TEST_CASE("weights round no worse than the unfused computation's") {
  on_every_device([](const Device& device) {
    auto error_ratio = [&]<class T>(T, int dim) {
      const AttentionSizes s{1, 1, 2, 1, 256, 700, dim, dim};
      const AttentionInputs<T> in(device, s);
      const Attended<T> attended = flex_attention(in.q, in.k, in.v, {.return_lse = true});
      const double scale = 1 / std::sqrt(static_cast<double>(dim));
      const std::vector<double> exact = reference_attention(s, in.q_values, in.k_values, in.v_values, scale, same_score, all_visible).out;
      return mean_error(exact, as_doubles(attended.out)) /
             mean_error(exact, baseline_attention<T>(s, in.q_values, in.k_values, in.v_values, scale, same_score, all_visible).out);
    };
    for (const int dim : {64, 128}) {
      CHECK(error_ratio(f16{}, dim) < 1.1);
      CHECK(error_ratio(bf16{}, dim) < 1.1);
    }
  });
}

TEST_CASE("huge scores that grow by less than their spacing leave weights finite") {
  on_every_device([](const Device& device) {
    const Tensor<f16> q = zeros<f16>(device, {1, 1, 16, 16}), v = full<f16>(device, {1, 1, 512, 16}, 1);
    const Tensor<f16> k = zeros<f16>(device, {1, 1, 512, 16});
    const auto late = [](auto, auto, auto, auto, auto kv) { return where(kv < 256, -134209856.0f, -134209848.0f); };   // base 2: 16 apart
    for (const double x : as_doubles(flex_attention(q, k, v, late).out)) CHECK(x == 1);
  });
}

TEST_CASE("a row of scores that a mod hides behind a huge negative number is never NaN") {
  on_every_device([](const Device& device) {
    auto check = [&]<class T>(T, float hidden, bool counts) {
      CAPTURE(hidden);
      const Tensor<T> q = random_normal<T>(device, {1, 1, 40, 64}, 1), k = random_normal<T>(device, {1, 1, 300, 64}, 2), v = full<T>(device, {1, 1, 300, 64}, 1);
      const auto result = flex_attention(q, k, v, [hidden](auto s, auto, auto, auto at, auto) { return where(at == 2, hidden, s); }, {.return_lse = true});
      const std::vector<double> out = as_doubles(result.out), lse = as_doubles(result.lse);
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::fabs(out[i] - (i / 64 != 2 || counts ? 1 : 0)) < 0.01);
      CHECK(std::isinf(lse[2]) == !counts);
      CHECK(std::isfinite(lse[3]));
    };
    for (const float hidden : {-1e10f, -1e30f, std::numeric_limits<float>::lowest()}) check(f32{}, hidden, false), check(bf16{}, hidden, false), check(f16{}, hidden, false);
    for (const float hidden : {-1e4f, -1e8f}) check(f32{}, hidden, true), check(bf16{}, hidden, true), check(f16{}, hidden, true);
    check(f32{}, -1e9f, true), check(bf16{}, -1e9f, true), check(f16{}, -1e9f, false);
  });
}

TEST_CASE("lengths around the tile") {
  on_every_device([](const Device& device) {
    for (int length : {1, 3, 127, 128, 129, 300})
      check_both<f16>(device, {1, 1, 2, 1, length, length + length / 2, 32, 32}, anywhere(same_score), anywhere(masks::causal));
  });
}

TEST_CASE("longer lengths, one head") {
  on_every_device([](const Device& device) {
    for (int length : {1023, 2045}) check_both<bf16>(device, {1, 1, 1, 1, length, length, 64, 64}, anywhere(same_score), anywhere(masks::sliding_window(100)));
  });
}

TEST_CASE("masks") {
  on_every_device([](const Device& device) {
    const AttentionSizes s{1, 1, 2, 1, 260, 300, 64, 64};
    check_both<f32>(device, s, anywhere(same_score), anywhere(masks::causal));
    check_both<bf16>(device, s, anywhere(same_score), anywhere(masks::sliding_window(37)));
    check_both<bf16>(device, s, anywhere(same_score), anywhere(masks::dilated_sliding_window(90, 3)));
    check_both<f16>(device, s, anywhere(same_score), anywhere(masks::prefix_lm(70)));
    check_both<f16>(device, s, anywhere(same_score), anywhere(masks::chunked(50)));
    check_both<bf16>(device, {1, 1, 2, 1, 256, 256, 64, 64}, anywhere(same_score), anywhere(masks::neighbourhood(16, 16, 5, 7)));
  });
}

TEST_CASE("captured documents") {
  on_every_device([](const Device& device) {
    const auto documents = [](const Device& where) { return masks::document(document_ids(Device::host(), 513, 5, 60).to(where)); };
    check_both<bf16>(device, {2, 2, 2, 2, 513, 513, 64, 64}, anywhere(same_score), documents);
    check_both<f32>(device, {1, 1, 2, 1, 513, 513, 48, 48}, anywhere(scores::alibi(2)), documents);
  });
}

TEST_CASE("score mods") {
  on_every_device([](const Device& device) {
    const AttentionSizes s{2, 1, 4, 2, 150, 170, 64, 64};
    check_both<f32>(device, s, anywhere(scores::alibi(4)), anywhere(masks::causal));
    check_both<bf16>(device, s, anywhere(scores::softcap(5)), anywhere(masks::causal));
    check_both<f16>(device, s, anywhere(scores::relative), anywhere(masks::causal));
    check_both<bf16>(device, s, anywhere(scores::head_bias), anywhere(masks::sliding_window(20)));
    const auto hides = [](auto score, auto, auto, auto q, auto kv) { return where((q + kv) % 3 == 0, -infinity, score); };
    check_both<f32>(device, s, anywhere(hides), anywhere(masks::causal));
  });
}

TEST_CASE("a captured bias of every position") {
  on_every_device([](const Device& device) {
    const auto bias = [](const Device& where) {
      const Tensor<f32> table = random_normal<f32>(Device::host(), {3, 140, 150}, 3).to(where);
      return [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q, kv); };
    };
    check_both<f32>(device, {1, 1, 3, 1, 140, 150, 32, 32}, bias, anywhere(masks::prefix_lm(20)));
    check_both<bf16>(device, {1, 1, 3, 1, 140, 150, 32, 32}, bias, anywhere(masks::causal));
  });
}

TEST_CASE("a captured bias of every distance, whatever its type, its direction, and where its rows begin") {
  on_every_device([](const Device& device) {
    const auto down = [](const Device& where) {
      const Tensor<bf16> table = random_normal<bf16>(Device::host(), {3, 304}, 3).to(where);
      return [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + 151); };
    };
    const auto up = [](const Device& where) {
      const Tensor<f32> table = random_normal<f32>(Device::host(), {3, 333}, 4).to(where);      // rows that begin between chunks of 16 bytes
      return [table](auto score, auto, auto h, auto q, auto kv) { return score + table(h, kv - q + 140); };
    };
    const auto shared = [](const Device& where) {
      const Tensor<f16> table = random_normal<f16>(Device::host(), {333}, 5).to(where), part = table.slice(0, 3, 330);
      return [table, part](auto score, auto, auto, auto q, auto kv) { return score * table[q - kv + 160] - part[kv + 145 - q]; };
    };
    for (const int dim : {64, 128, 256}) {
      CAPTURE(dim);
      check_both<bf16>(device, {2, 1, 3, 1, 140, 150, dim, dim}, down, anywhere(masks::causal));
      check_both<bf16>(device, {1, 1, 3, 3, 140, 150, dim, dim}, up, anywhere(masks::prefix_lm(20)));
      check_both<f16>(device, {1, 1, 3, 1, 140, 150, dim, dim}, shared, anywhere(masks::causal), {.q_block = 192, .kv_block = 80});
    }
    check_both<f32>(device, {1, 1, 3, 1, 140, 150, 32, 32}, down, anywhere(masks::causal));
    const auto ready = [](const Device& where) { return scores::distance_bias(random_normal<f32>(Device::host(), {3, 304}, 6).to(where), 151); };
    check_both<bf16>(device, {1, 1, 3, 1, 140, 150, 64, 64}, ready, anywhere(masks::causal));
  });
}

TEST_CASE("a bias of distances that its table does not have is 0") {
  on_every_device([](const Device& device) {
    if (device.is_host()) return;      // where reads outside are reported
    const Tensor<bf16> q = random_normal<bf16>(device, {1, 2, 300, 64}, 1), k = random_normal<bf16>(device, {1, 2, 300, 64}, 2), v = random_normal<bf16>(device, {1, 2, 300, 64}, 3);
    const Tensor<bf16> table = random_normal<bf16>(device, {2, 40}, 4);
    const AttentionOptions same{.block_m = 128, .block_n = 64, .num_warps = 8};      // by themselves, gathers get other tiles, and so other bits
    for (const int shift : {-41, 0, 20, 90}) {
      CAPTURE(shift);
      const auto windows = [table, shift](auto score, auto, auto h, auto q, auto kv) { return score + table(h, q - kv + shift); };
      const auto gathered = [table, shift](auto score, auto, auto h, auto q, auto kv) { return score + table(h, max(q - kv + shift, -1)); };
      CHECK(flex_attention(q, k, v, windows, same).out.to_host() == flex_attention(q, k, v, gathered, same).out.to_host());
    }
  });
}

TEST_CASE("masks of each batch and head") {
  on_every_device([](const Device& device) {
    const auto per_head = [](auto b, auto h, auto q, auto kv) { return q - kv < 20 + 30 * h && kv <= q + 10 * b; };
    check_both<bf16>(device, {3, 1, 4, 2, 140, 140, 32, 32}, anywhere(same_score), anywhere(per_head), {.q_block = 32, .kv_block = 64});
  });
}

TEST_CASE("any tile of the block mask") {
  on_every_device([](const Device& device) {
    const int tiles[][2] = {{8, 8}, {16, 64}, {64, 16}, {96, 96}, {100, 36}, {200, 250}, {256, 256}, {13, 128}, {128, 17}};
    for (const auto& [q_block, kv_block] : tiles) {
      CAPTURE(q_block);
      CAPTURE(kv_block);
      check_both<bf16>(device, {1, 1, 2, 1, 270, 290, 32, 32}, anywhere(same_score), anywhere(masks::sliding_window(60)),
                       {.q_block = q_block, .kv_block = kv_block});
    }
  });
}

TEST_CASE("a mask of long rows gives what it gives in the tiles that suit the head dim") {
  on_every_device([](const Device& device) {
    if (device.is_host()) return;      // whose kernels take every mask in its own tiles
    const struct { int dim, heads, length; } cases[] = {{64, 48, 2050}, {64, 13, 5000}, {80, 24, 3000}, {128, 16, 4500}, {192, 10, 4200}};
    for (const auto& [dim, heads, length] : cases) {
      CAPTURE(dim);
      CAPTURE(length);
      const auto make = [&, dim = dim, heads = heads, length = length](std::uint64_t seed) { return random_normal<bf16>(device, {1, heads, length, dim}, seed); };
      const Tensor<bf16> q = make(1), k = make(2), v = make(3);
      const BlockMaskOptions usual{.q_len = length, .kv_len = length, .device = device};
      BlockMaskOptions suited = usual;
      suited.head_dim = dim;
      const BlockMask mask = create_block_mask(masks::prefix_lm(100), usual), best = create_block_mask(masks::prefix_lm(100), suited);
      const Stream stream = Stream::create(device);
      device.synchronize();
      const auto elsewhere = flex_attention(q, k, v, scores::alibi(heads), mask, {.return_lse = true, .stream = &stream});
      stream.synchronize();
      const auto here = flex_attention(q, k, v, scores::alibi(heads), mask, {.return_lse = true}), expected = flex_attention(q, k, v, scores::alibi(heads), best, {.return_lse = true});
      CHECK(elsewhere.out.to_host() == expected.out.to_host());
      CHECK(here.out.to_host() == expected.out.to_host());
      CHECK(here.lse.to_host() == expected.lse.to_host());
      // Recorded: the lists that are there, or 128x128.
      const auto recorded = [&](const BlockMask& by) {
        Attended<bf16> attended;
        const Graph graph = Graph::capture(stream, [&] { attended = flex_attention(q, k, v, scores::alibi(heads), by, {.stream = &stream}); });
        graph.launch(stream);
        stream.synchronize();
        return attended.out.to_host();
      };
      BlockMaskOptions given = usual;
      given.q_block = given.kv_block = 128;
      CHECK(recorded(create_block_mask(masks::prefix_lm(100), usual)) == flex_attention(q, k, v, scores::alibi(heads), create_block_mask(masks::prefix_lm(100), given)).out.to_host());
      const BlockMask fresh = create_block_mask(masks::prefix_lm(100), usual);
      device.synchronize();
      flex_attention(q, k, v, scores::alibi(heads), fresh);
      CHECK(recorded(fresh) == expected.out.to_host());
    }
  });
}

TEST_CASE("rows that see nothing give 0 and -inf") {
  on_every_device([](const Device& device) {
    const auto late = [](auto, auto, auto q, auto kv) { return q >= kv + 40 && q % 7 != 3; };
    check_both<f32>(device, {1, 1, 2, 2, 200, 200, 32, 32}, anywhere(same_score), anywhere(late));
    check_both<f16>(device, {1, 1, 2, 2, 200, 200, 32, 32}, anywhere(scores::softcap(4)), anywhere(late));
  });
}

TEST_CASE("strides other than row-major") {
  on_every_device([](const Device& device) {
    check_both<bf16>(device, {2, 2, 4, 2, 100, 130, 64, 32}, anywhere(same_score), anywhere(masks::causal), {}, true);
    check_both<f32>(device, {2, 1, 4, 2, 100, 130, 20, 32}, anywhere(scores::alibi(4)), anywhere(masks::causal), {}, true);
  });
}

TEST_CASE("scales: given, negative, zero") {
  on_every_device([](const Device& device) {
    const AttentionInputs<f32> in(device, {1, 1, 2, 1, 90, 80, 32, 32});
    for (float scale : {0.7f, -0.2f, 0.0f}) {
      CAPTURE(scale);
      const auto attended = flex_attention(in.q, in.k, in.v, {.scale = scale, .return_lse = true, .return_max_scores = true});
      check_attended(in, attended, scale, same_score, all_visible, device.target());
      const auto capped = flex_attention(in.q, in.k, in.v, scores::softcap(3), {.scale = scale});
      check_attended(in, capped, scale, scores::softcap(3), all_visible, device.target());
    }
  });
}

TEST_CASE("NaN in a query row stays in that row") {
  on_every_device([](const Device& device) {
    AttentionInputs<f32> in(device, {1, 1, 1, 1, 70, 70, 16, 16});
    const std::vector<double> before = as_doubles(flex_attention(in.q, in.k, in.v).out);
    in.q.slice(2, 5, 6).fill(std::numeric_limits<float>::quiet_NaN());
    const auto attended = flex_attention(in.q, in.k, in.v, {.return_lse = true, .return_max_scores = true});
    const std::vector<double> after = as_doubles(attended.out), lse = as_doubles(attended.lse), largest = as_doubles(attended.max_scores);
    for (int row = 0; row < 70; ++row) {
      CHECK(std::isnan(lse[row]) == (row == 5));
      CHECK(std::isnan(largest[row]) == (row == 5));
      for (int d = 0; d < 16; ++d) {
        if (row == 5) CHECK(std::isnan(after[row * 16 + d]));
        else CHECK(after[row * 16 + d] == before[row * 16 + d]);
      }
    }
  });
}

TEST_CASE("the largest score of a row is +inf where a score is") {
  on_every_device([](const Device& device) {
    const AttentionInputs<f32> in(device, {1, 1, 1, 1, 70, 70, 16, 16});
    const auto infinite = [](auto score, auto, auto, auto q, auto kv) { return where(q == 5 && kv == 30, std::numeric_limits<float>::infinity(), score); };
    const std::vector<double> largest = as_doubles(flex_attention(in.q, in.k, in.v, infinite, {.return_max_scores = true}).max_scores);
    for (int row = 0; row < 70; ++row) CHECK((row == 5 ? largest[row] == std::numeric_limits<double>::infinity() : std::isfinite(largest[row])));
  });
}

TEST_CASE("result bits do not depend on which tiles are listed as full") {
  on_every_device([](const Device& device) {
    const AttentionInputs<bf16> in(device, {1, 1, 2, 1, 300, 300, 64, 64});
    const BlockMask mask = create_block_mask(masks::causal, {.q_len = 300, .kv_len = 300, .q_block = 64, .kv_block = 64, .device = device});
    KvBlocks tables = mask.to_kv_blocks();
    // The same tiles, all of them partial.
    std::vector<i32> counts, indices;
    for (int row = 0; row < 5; ++row) {
      counts.push_back(row + 1);
      for (int column = 0; column < 5; ++column) indices.push_back(column);
    }
    KvBlocks all_partial;
    all_partial.kv_num_blocks = from_host<i32>(device, counts, {1, 1, 5});
    all_partial.kv_indices = from_host<i32>(device, indices, {1, 1, 5, 5});
    const BlockMaskOptions options{.q_len = 300, .kv_len = 300, .q_block = 64, .kv_block = 64, .device = device};
    const BlockMask other = BlockMask::from_kv_blocks(all_partial, masks::causal, options);
    CHECK(as_doubles(flex_attention(in.q, in.k, in.v, mask).out) == as_doubles(flex_attention(in.q, in.k, in.v, other).out));
    const BlockMask again = BlockMask::from_kv_blocks(tables, masks::causal, options);
    CHECK(as_doubles(flex_attention(in.q, in.k, in.v, mask).out) == as_doubles(flex_attention(in.q, in.k, in.v, again).out));
  });
}
