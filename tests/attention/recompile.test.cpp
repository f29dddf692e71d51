// What compiles a kernel anew, and what does not.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <flextile/flextile.hpp>

using namespace flextile;

namespace {

std::int64_t kernels_loaded() {
  const CacheStatistics statistics = cache_statistics();
  return statistics.compilations + statistics.disk_hits;
}

/// Kernels that `body` had to compile, or to read from disk.
template <class Body> std::int64_t compiled_by(const Body& body) {
  const std::int64_t before = kernels_loaded();
  body();
  return kernels_loaded() - before;
}

void attend_documents(const Device& device, int batch, int heads, int kv_heads, int length, int window_size, float cap) {
  const Tensor<i32> ids = document_ids(device, length, 3, 40);
  const Tensor<i32> window = full<i32>(device, {1}, window_size);
  const auto mask_mod = [ids, window](auto, auto, auto q, auto kv) { return q >= kv && ids[q] == ids[kv] && q - kv < window[0]; };
  const auto score_mod = [cap = dynamic(cap)](auto score, auto, auto, auto, auto) { return cap * tanh(score / cap); };
  const BlockMask mask = create_block_mask(mask_mod, {.q_len = length, .kv_len = length, .q_block = 32, .kv_block = 32, .device = device});
  const auto q = zeros<bf16>(device, {batch, heads, length, 32}), k = zeros<bf16>(device, {batch, kv_heads, length, 32});
  flex_attention(q, k, k, score_mod, mask, {.return_lse = true});
}

}  // namespace

TEST_CASE("captured values, dynamic scalars, lengths, batch and heads compile nothing") {
  std::vector<Target> seen;                 // devices of one target share what was compiled
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const bool first = std::find(seen.begin(), seen.end(), device.target()) == seen.end();
    seen.push_back(device.target());
    const auto compiled = compiled_by([&] { attend_documents(device, 1, 2, 1, 96, 20, 5.0f); });
    CHECK((compiled > 0) == first);
    CHECK(compiled_by([&] {
            attend_documents(device, 1, 2, 1, 96, 21, 6.0f);
            attend_documents(device, 3, 4, 4, 96, 20, 5.0f);
            attend_documents(device, 2, 6, 3, 160, 40, 7.0f);
            attend_documents(device, 1, 1, 1, 33, 9, 5.0f);
            attend_documents(device, 1, 2, 1, 1, 9, 5.0f);
          }) == 0);
  }
}

TEST_CASE("a literal, a dim or an element type makes another kernel") {
  const Device device = Device::host();
  const auto q = zeros<f32>(device, {1, 1, 40, 24});
  auto capped = [&](float cap) { flex_attention(q, q, q, scores::softcap(cap)); };
  CHECK(compiled_by([&] { capped(3.25f); }) == 1);
  CHECK(compiled_by([&] { capped(3.25f); }) == 0);
  CHECK(compiled_by([&] { capped(3.5f); }) == 1);
  const auto wide = zeros<f32>(device, {1, 1, 40, 56});
  CHECK(compiled_by([&] { flex_attention(wide, wide, wide, scores::softcap(3.25f)); }) == 1);
}
