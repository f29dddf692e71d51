// What is wrong is said in a sentence: the argument, what it is, what it must be. Nothing runs.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include <flextile/flextile.hpp>

using namespace flextile;

namespace {

/// The message of the ArgumentError that `body` throws; "" where it throws none.
template <class Body> std::string refusal(const Body& body) {
  try {
    body();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (message.find(part) == std::string::npos) {
      MESSAGE(message);
      return false;
    }
  return true;
}

Tensor<bf16> make(const TensorShape& shape) { return zeros<bf16>(Device::host(), shape); }

KvBlocks tables_of(const std::vector<i32>& counts, const std::vector<i32>& indices) {
  KvBlocks tables;
  tables.kv_num_blocks = from_host<i32>(Device::host(), counts, {1, 1, 2});
  tables.kv_indices = from_host<i32>(Device::host(), indices, {1, 1, 2, 2});
  return tables;
}

}  // namespace

TEST_CASE("shapes of query, key and value") {
  const auto q = make({2, 4, 32, 16}), k = make({2, 2, 48, 16}), v = make({2, 2, 48, 8});
  CHECK(refusal([&] { flex_attention(q, k, v); }) == "");
  CHECK(says(refusal([&] { flex_attention(q, make({2, 2, 48, 24}), v); }), {"[flex_attention]", "query has head dim 16", "key has 24"}));
  CHECK(says(refusal([&] { flex_attention(make({4, 32, 16}), k, v); }), {"query is a bf16 tensor of 4x32x16 on the host", "4 axes"}));
  CHECK(says(refusal([&] { flex_attention(q, make({48, 16}), v); }), {"key is a", "4 axes"}));
  CHECK(says(refusal([&] { flex_attention(q, k, make({8})); }), {"value is a", "4 axes"}));
  CHECK(says(refusal([&] { flex_attention(q, make({2, 3, 48, 16}), make({2, 3, 48, 8})); }), {"query has 4 heads", "have 3", "multiple"}));
  CHECK(says(refusal([&] { flex_attention(q, k, make({2, 2, 47, 8})); }), {"value has length 47", "key has 48"}));
  CHECK(says(refusal([&] { flex_attention(q, k, make({1, 2, 48, 8})); }), {"value has batch 1", "key has 2"}));
  CHECK(says(refusal([&] { flex_attention(make({4, 4, 32, 16}), k, v); }), {"batch 2", "query has 4"}));
  CHECK(says(refusal([&] { flex_attention(q, make({2, 2, 0, 16}), make({2, 2, 0, 8})); }), {"key has length 0", "from 1"}));
  CHECK(says(refusal([&] { flex_attention(make({2, 4, 32, 300}), make({2, 2, 48, 300}), v); }), {"head dim 300", "1 to 256"}));
  CHECK(says(refusal([&] { flex_attention(make({2, 4, 32, 0}), make({2, 2, 48, 0}), v); }), {"head dim 0", "1 to 256"}));
  CHECK(says(refusal([&] { flex_attention(q, k, v, {.scale = std::numeric_limits<float>::infinity()}); }), {"scale is", "finite"}));
  CHECK(says(refusal([&] { flex_attention(q, k, v, {.block_m = 5}); }), {"block_m is 5", "16 to 256"}));
  CHECK(says(refusal([&] { flex_attention(q, k, v, {.num_warps = 3}); }), {"num_warps is 3"}));
  CHECK(says(refusal([&] { flex_attention(q, k, v, {.scale = -2e38f}); }), {"scale is", "1e38"}));
  CHECK(says(refusal([&] { create_block_mask(masks::causal, {.q_len = 8, .kv_len = 0x7fffffff, .device = Device::host()}); }), {"kv_len is 2147483647", "2147483136"}));
  CHECK(says(refusal([&] { flex_attention(Tensor<bf16>(), k, v); }), {"query is empty", "default-constructed"}));
  CHECK(says(refusal([&] { flex_attention(q, k, Tensor<bf16>()); }), {"value is empty", "default-constructed"}));
  CHECK(says(refusal([&] { flex_attention(q, k, v).lse.to_host(); }), {"not asked for", ".return_lse = true"}));
}

TEST_CASE("element types") {
  const auto q = zeros<f64>(Device::host(), {1, 1, 8, 8});
  CHECK(says(refusal([&] { flex_attention(q, q, q); }), {"f64", "f32, f16 or bf16"}));
  const TensorRef half = make({1, 1, 8, 8}), full = zeros<f32>(Device::host(), {1, 1, 8, 8});
  CHECK(says(refusal([&] { attend(half, full, half, nullptr, nullptr, {}); }), {"key is an f32 tensor", "query holds bf16", "one element type"}));
}

TEST_CASE("a mask that does not fit") {
  const auto q = make({2, 4, 64, 16}), k = make({2, 2, 64, 16});
  const BlockMask shorter = create_block_mask(masks::causal, {.q_len = 32, .kv_len = 64, .device = Device::host()});
  CHECK(says(refusal([&] { flex_attention(q, k, k, shorter); }), {"made for 32 query and 64 key positions", "64 query and 64 key", "create_block_mask"}));
  const auto by_head = [](auto, auto h, auto q, auto kv) { return q - kv < h; };
  const BlockMask heads = create_block_mask(by_head, {.heads = 3, .q_len = 64, .kv_len = 64, .device = Device::host()});
  CHECK(says(refusal([&] { flex_attention(q, k, k, heads); }), {"made for 3 heads", "query has 4"}));
  const auto by_batch = [](auto b, auto, auto q, auto kv) { return q - kv < b; };
  const BlockMask batch = create_block_mask(by_batch, {.batch = 5, .q_len = 64, .kv_len = 64, .device = Device::host()});
  CHECK(says(refusal([&] { flex_attention(q, k, k, batch); }), {"made for batch 5", "query has 2"}));
  CHECK(says(refusal([&] { flex_attention(q, k, k, BlockMask()); }), {"never built"}));
}

TEST_CASE("a mask made for one head or batch, whose mod reads h or b") {
  const auto q = make({2, 4, 64, 16}), one_head = make({2, 1, 64, 16}), one_batch = make({1, 4, 64, 16});
  const auto by_head = [](auto, auto h, auto q, auto kv) { return q - kv < h; };
  const auto by_batch = [](auto b, auto, auto q, auto kv) { return q - kv < b; };
  const BlockMaskOptions options{.q_len = 64, .kv_len = 64, .device = Device::host()};
  const std::string heads = "[flex_attention] block_mask: its mask_mod reads h, but the mask was made for 1 head and the query has 4: pass .heads = 4 to "
                            "create_block_mask, or tables for 4 heads to from_kv_blocks";
  const std::string batch = "[flex_attention] block_mask: its mask_mod reads b, but the mask was made for 1 batch and the query has 2: pass .batch = 2 to "
                            "create_block_mask, or tables for 2 batches to from_kv_blocks";
  const BlockMask head_mask = create_block_mask(by_head, options), batch_mask = create_block_mask(by_batch, options);
  CHECK(says(refusal([&] { flex_attention(q, q, q, head_mask); }), {heads.c_str()}));
  CHECK(says(refusal([&] { flex_attention(q, q, q, batch_mask); }), {batch.c_str()}));
  const auto identity = [](auto score, auto, auto, auto, auto) { return score; };
  CHECK(says(refusal([&] { flex_attention(q, q, q, identity, head_mask); }), {heads.c_str()}));
  // Nothing is shared where the query has one.
  CHECK(refusal([&] { flex_attention(one_head, one_head, one_head, head_mask); }) == "");
  CHECK(refusal([&] { flex_attention(one_batch, one_batch, one_batch, batch_mask); }) == "");
  // Made for all of them.
  CHECK(refusal([&] { flex_attention(q, q, q, create_block_mask(by_head, {.heads = 4, .q_len = 64, .kv_len = 64, .device = Device::host()})); }) == "");
  CHECK(refusal([&] { flex_attention(q, q, q, create_block_mask(by_batch, {.batch = 2, .q_len = 64, .kv_len = 64, .device = Device::host()})); }) == "");
  CHECK(refusal([&] { flex_attention(q, q, q, create_block_mask(masks::causal, options)); }) == "");
  // Tables of other makers follow the same rule.
  const KvBlocks tables = head_mask.to_kv_blocks();
  CHECK(says(refusal([&] { flex_attention(q, q, q, BlockMask::from_kv_blocks(tables, by_head, options)); }), {heads.c_str()}));
  CHECK(says(refusal([&] { flex_attention(q, q, q, BlockMask::from_kv_blocks(tables, by_batch, options)); }), {batch.c_str()}));
  CHECK(refusal([&] { flex_attention(q, q, q, BlockMask::from_kv_blocks(tables, masks::causal, options)); }) == "");
  CHECK(refusal([&] { flex_attention(q, q, q, BlockMask::from_kv_blocks(tables, options)); }) == "");
}

TEST_CASE("a stale mask") {
  for (const Device& device : Device::all()) {
    const Tensor<i32> window = full<i32>(device, {1}, 16);
    const auto mask_mod = [window](auto, auto, auto q, auto kv) { return q >= kv && q - kv < window[0]; };
    const auto q = zeros<bf16>(device, {1, 1, 64, 16});
    const BlockMask mask = create_block_mask(mask_mod, {.q_len = 64, .kv_len = 64});
    CHECK(refusal([&] { flex_attention(q, q, q, mask); }) == "");
    window.fill(20);
    CHECK(says(refusal([&] { flex_attention(q, q, q, mask); }), {"stale", "captured tensor 0 of its mask_mod, an i32 tensor of 1", "create_block_mask"}));
    const BlockMask rebuilt = create_block_mask(mask_mod, {.q_len = 64, .kv_len = 64});
    CHECK(refusal([&] { flex_attention(q, q, q, rebuilt); }) == "");
  }
}

TEST_CASE("options of create_block_mask") {
  auto build = [](BlockMaskOptions options) {
    options.device = Device::host();
    return refusal([&] { create_block_mask(masks::causal, options); });
  };
  CHECK(says(build({.q_len = 0, .kv_len = 5}), {"[create_block_mask]", "q_len is 0", "from 1"}));
  CHECK(says(build({.q_len = 5, .kv_len = -1}), {"kv_len is -1"}));
  CHECK(says(build({.q_len = 5, .kv_len = 5, .q_block = 7}), {"q_block is 7", "8 to 256"}));
  CHECK(says(build({.q_len = 5, .kv_len = 5, .kv_block = 257}), {"kv_block is 257", "8 to 256"}));
  CHECK(says(build({.q_len = 5, .kv_len = 5, .workspace = 3}), {"workspace is 3", "1024"}));
  CHECK(says(build({.batch = 0, .q_len = 5, .kv_len = 5}), {"batch is 0"}));
}

TEST_CASE("tables that point outside") {
  auto import = [](const KvBlocks& tables) { return refusal([&] { BlockMask::from_kv_blocks(tables); }); };
  CHECK(import(tables_of({1, 2}, {0, 0, 1, 0})) == "");
  CHECK(says(import(tables_of({1, 2}, {0, 0, 1, 2})), {"[from_kv_blocks]", "kv_indices has 2 at row 1, entry 1", "from 0 to 1"}));
  CHECK(says(import(tables_of({1, 1}, {-1, 0, 1, 0})), {"kv_indices has -1"}));
  CHECK(says(import(tables_of({3, 1}, {0, 1, 1, 0})), {"kv_num_blocks has 3 at row 0", "from 0 to 2"}));
  CHECK(says(import(tables_of({1, 2}, {0, 0, 1, 1})), {"kv_indices has 1 at row 1, entry 1", "once"}));
  CHECK(says(import({}), {"kv_num_blocks is empty"}));
  KvBlocks both = tables_of({1, 1}, {0, 0, 1, 0});
  both.full_kv_num_blocks = both.kv_num_blocks;
  CHECK(says(import(both), {"full_kv_indices", "together"}));
  both.full_kv_indices = both.kv_indices;
  CHECK(says(import(both), {"full_kv_indices has 0 at row 0", "once"}));
  both.full_kv_indices = zeros<i32>(Device::host(), {1, 1, 2, 0});
  CHECK(says(import(both), {"full_kv_num_blocks has 1 at row 0", "from 0 to 0"}));
  KvBlocks flat = tables_of({1, 1}, {0, 0, 1, 0});
  flat.kv_indices = flat.kv_indices.reshape({4});
  CHECK(says(import(flat), {"kv_indices is an i32 tensor of 4", "4 axes"}));
  CHECK(says(refusal([&] { BlockMask::from_kv_blocks(tables_of({1, 1}, {0, 0, 1, 0}), {.q_len = 1000, .kv_len = 256}); }), {"1000 query positions", "8 query tiles"}));
}

TEST_CASE("devices that differ") {
  if (Device::count() == 0) {
    MESSAGE("[SKIP] no GPU");
    return;
  }
  const Device gpu = Device::cuda();
  const auto q = zeros<bf16>(gpu, {1, 1, 64, 16});
  const auto k = make({1, 1, 64, 16});
  CHECK(says(refusal([&] { flex_attention(q, k, k); }), {"key is on the host", "query is on CUDA device 0"}));
  const BlockMask mask = create_block_mask(masks::causal, {.q_len = 64, .kv_len = 64, .device = Device::host()});
  CHECK(says(refusal([&] { flex_attention(q, q, q, mask); }), {"block_mask is on the host", "to(device)"}));
  const Tensor<f32> bias = zeros<f32>(Device::host(), {64});
  const auto score = [bias](auto score, auto, auto, auto, auto kv) { return score + bias[kv]; };
  CHECK(says(refusal([&] { flex_attention(q, q, q, score); }), {"captured tensor 0 of score_mod", "on the host"}));
}

TEST_CASE("an index outside of a captured tensor reads 0 in a kernel, with numbers the mod throws") {
  for (const Device& device : Device::all()) {
    const auto q = random_normal<f32>(device, {1, 1, 16, 16});
    const Tensor<f32> bias = full<f32>(device, {16}, 3.0f);
    auto lse = [&](auto score_mod) { return flex_attention(q, q, q, score_mod, {.return_lse = true}).lse.to_host(); };
    const std::vector<f32> plain = flex_attention(q, q, q, {.return_lse = true}).lse.to_host();
    const std::vector<f32> past = lse([bias](auto score, auto, auto, auto, auto kv) { return score + bias[kv + 16]; });
    const std::vector<f32> before = lse([bias](auto score, auto, auto, auto, auto kv) { return score + bias[kv - 16]; });
    const std::vector<f32> clamped = lse([bias](auto score, auto, auto, auto, auto kv) { return score + bias[max(0, min(kv + 16, 15))]; });
    for (std::size_t row = 0; row < plain.size(); ++row) {
      CHECK(past[row] == doctest::Approx(plain[row]));
      CHECK(before[row] == doctest::Approx(plain[row]));
      CHECK(clamped[row] == doctest::Approx(plain[row] + 3));
    }
  }
  const Tensor<f32> bias = full<f32>(Device::host(), {16}, 3.0f);
  const auto past = [bias](auto score, auto, auto, auto, auto kv) { return score + bias[kv + 16]; };
  CHECK(says(refusal([&] { evaluate_score(past, 0.0f, 0, 0, 0, 0); }), {"index (16) is outside the captured tensor"}));
}

TEST_CASE("names of the catalogue") {
  CHECK(named_mask("causal").fragment == named_mask("causal").fragment);
  CHECK(named_mask("sliding_window:5").fragment != named_mask("sliding_window:6").fragment);
  CHECK(says(refusal([] { named_mask("diagonal"); }), {"\"diagonal\"", "causal", "sliding_window:1024"}));
  CHECK(says(refusal([] { named_mask("causal:3"); }), {"takes no number"}));
  CHECK(says(refusal([] { named_score("softcap:x"); }), {"softcap:x", "whole number"}));
  for (const std::string& name : mask_names()) CHECK(named_mask(name).fragment != nullptr);
  for (const std::string& name : score_names()) CHECK(named_score(name).fragment != nullptr);
}
