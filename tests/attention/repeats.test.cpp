// The same call gives the same bits, whatever warps and copies did first: random lengths, head dims, masks and tables of distances. FLEXTILE_TEST_CALLS=N
// makes N different calls on each device, of five runs each.
#include <cstdlib>
#include <cstring>
#include <random>

#include <doctest/doctest.h>
#include <flextile/flextile.hpp>

using namespace flextile;

TEST_CASE("a repeated call gives the same bits, without NaN") {
  const auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    std::mt19937 random(7);
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    const char* wanted = std::getenv("FLEXTILE_TEST_CALLS");
    const int calls = wanted ? std::atoi(wanted) : device.is_host() ? 8 : 400, most = device.is_host() ? 200 : 1500;
    constexpr int dims[] = {64, 80, 96, 128, 192, 256};
    for (int call = 0; call < calls; ++call) {
      const int dim = dims[below(6)], heads = 1 + below(4), q_len = 1 + below(most), kv_len = 1 + below(most), kind = below(5);
      CAPTURE(dim);
      CAPTURE(q_len);
      CAPTURE(kv_len);
      CAPTURE(kind);
      const auto make = [&](int length) { return random_normal<bf16>(device, {1, heads, length, dim}, random()); };
      const Tensor<bf16> q = make(q_len), k = make(kv_len), v = make(kv_len);
      const Tensor<i32> ids = zeros<i32>(device, {std::max(q_len, kv_len)});
      const BlockMaskOptions sizes{.q_len = q_len, .kv_len = kv_len, .device = device};
      BlockMask mask;
      if (kind == 1) mask = create_block_mask(causal, sizes);
      if (kind == 2) mask = create_block_mask([ids](auto, auto, auto a, auto b) { return ids[a] == ids[b] && a - b < 300; }, sizes);
      if (kind == 3) mask = create_block_mask(causal, {.q_len = q_len, .kv_len = kv_len, .q_block = 192, .kv_block = 64, .device = device});
      const MaskBlock best = best_mask_block(ElementType::bf16, dim, device.target(), call % 2 ? 2048 : 0);
      if (kind == 4) mask = create_block_mask(causal, {.q_len = q_len, .kv_len = kv_len, .q_block = best.q, .kv_block = best.kv, .device = device});
      // Half of the calls have no score mod, the others a table of distances, in rows that can be fetched and in rows that cannot.
      const int biased = below(4);
      const Tensor<bf16> table = random_normal<bf16>(device, {heads, (q_len + kv_len + 7) / 8 * 8 + biased % 2}, random());
      const auto by_distance = [table, kv_len](auto score, auto, auto h, auto a, auto b) { return score + table(h, a - b + kv_len); };
      const auto run = [&] {
        if (biased > 1) return (kind == 0 ? flex_attention(q, k, v, by_distance) : flex_attention(q, k, v, by_distance, mask)).out.to_host();
        return (kind == 0 ? flex_attention(q, k, v) : flex_attention(q, k, v, mask)).out.to_host();
      };
      const std::vector<bf16> first = run();
      bool numbers = true;
      for (const bf16 x : first) numbers = numbers && static_cast<float>(x) == static_cast<float>(x);
      CHECK(numbers);
      for (int again = 0; again < 4; ++again) {
        const std::vector<bf16> repeated = run();
        const bool same = std::memcmp(repeated.data(), first.data(), first.size() * sizeof(bf16)) == 0;
        REQUIRE(same);
      }
    }
  }
}

TEST_CASE("calls that follow each other at once give what they give one by one") {
  const auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    for (const int dim : {64, 128, 256}) {
      CAPTURE(dim);
      const int length = device.is_host() ? 100 : 1000, calls = device.is_host() ? 4 : 60;
      const Tensor<bf16> first = random_normal<bf16>(device, {1, 3, length, dim}, 5), k = random_normal<bf16>(device, {1, 3, length, dim}, 6);
      const BlockMask mask = create_block_mask(causal, {.q_len = length, .kv_len = length, .device = device});
      // Each call's result is the next one's query or values; other kernels, of other sizes, come between.
      const auto chain = [&](bool one_by_one) {
        Tensor<bf16> x = first;
        for (int i = 0; i < calls; ++i) {
          x = i % 3 == 0 ? flex_attention(x, k, first, mask).out : i % 3 == 1 ? flex_attention(first, k, x).out : flex_attention(x, x, x, scores::softcap(20), mask).out;
          if (i % 5 == 4) x = x.clone();
          if (one_by_one) device.synchronize();
        }
        return x.to_host();
      };
      const std::vector<bf16> expected = chain(true);
      for (int again = 0; again < 5; ++again) {
        const std::vector<bf16> result = chain(false);
        CHECK(std::memcmp(result.data(), expected.data(), expected.size() * sizeof(bf16)) == 0);
      }
    }
  }
}
