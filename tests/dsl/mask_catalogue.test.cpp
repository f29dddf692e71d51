// The masks that people use (flex_semantics.md section 3), each against a plain oracle.
#include "check_mod.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

HostTensor<i32> documents() { return vector_of<i32>({0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3}); }
HostTensor<i32> offsets() { return vector_of<i32>({0, 3, 5, 9, 12}); }
int clamped(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }

}  // namespace

TEST_CASE("masks of positions alone") {
  check_mask(
      "causal", [](auto, auto, auto q, auto kv) { return q >= kv; }, {1, 1, 9, 9}, [](int, int, int q, int k) { return q >= k; });
  int window = 3;
  check_mask(
      "sliding window", [window](auto, auto, auto q, auto kv) { return q - kv <= window && q >= kv; }, {1, 1, 9, 9},
      [](int, int, int q, int k) { return q - k <= 3 && q >= k; });
  check_mask(
      "dilated window", [](auto, auto, auto q, auto kv) { return abs(q - kv) <= 6 && abs(q - kv) % 2 == 0; }, {1, 1, 12, 12},
      [](int, int, int q, int k) { return std::abs(q - k) <= 6 && std::abs(q - k) % 2 == 0; });
  check_mask(
      "prefix", [](auto, auto, auto q, auto kv) { return kv < 4 || q >= kv; }, {1, 1, 9, 9},
      [](int, int, int q, int k) { return k < 4 || q >= k; });
  check_mask(
      "chunked", [](auto, auto, auto q, auto kv) { return q >= kv && q / 4 == kv / 4; }, {1, 1, 9, 9},
      [](int, int, int q, int k) { return q >= k && q / 4 == k / 4; });
  check_mask(
      "per head", [](auto b, auto h, auto q, auto kv) { return q - kv <= h * 2 + b && !(kv > q); }, {2, 3, 8, 8},
      [](int b, int h, int q, int k) { return q - k <= h * 2 + b && k <= q; });
}

TEST_CASE("masks that read captured tensors") {
  auto doc = documents();
  auto off = offsets();
  check_mask(
      "document", [doc](auto, auto, auto q, auto kv) { return doc[q] == doc[kv]; }, {1, 1, 12, 12},
      [&](int, int, int q, int k) { return doc.at(q) == doc.at(k); });
  check_mask(
      "document, causal inside",
      [doc, off](auto, auto, auto q, auto kv) { return doc[q] == doc[kv] && q - off[doc[q]] >= kv - off[doc[kv]]; }, {1, 1, 12, 12},
      [&](int, int, int q, int k) { return doc.at(q) == doc.at(k) && q >= k; });
  check_mask(
      "packed causal document", [doc, off](auto, auto, auto q, auto kv) { return kv >= off[doc[q]] && q >= kv; }, {1, 1, 12, 12},
      [&](int, int, int q, int k) { return k >= off.at(doc.at(q)) && q >= k; });
  auto prefix_doc = vector_of<i32>({0, 0, 2, 2});
  check_mask(
      "shared prefix",
      [=](auto, auto, auto q, auto kv) {
        auto pd = prefix_doc[doc[q]];
        return (kv >= off[doc[q]] && q >= kv) || (doc[q] != pd && off[pd] <= kv && kv < off[pd + 1]);
      },
      {1, 1, 12, 12},
      [&](int, int, int q, int k) {
        int pd = prefix_doc.at(doc.at(q));
        return (k >= off.at(doc.at(q)) && q >= k) || (doc.at(q) != pd && off.at(pd) <= k && k < off.at(pd + 1));
      });
  auto flags = vector_of<bool>({true, false, false, true, false, false, false, false, true});
  auto bytes = vector_of<u8>({255, 0, 0, 1, 0, 0, 0, 0, 2});
  auto words = vector_of<i32>({-1, 0, 0, 1, 0, 0, 0, 0, 2});
  auto longformer = [&](int, int, int q, int k) { return std::abs(q - k) <= 2 || flags.at(q) || flags.at(k); };
  check_mask(
      "longformer, bool", [flags](auto, auto, auto q, auto kv) { return abs(q - kv) <= 2 || flags[q] || flags[kv]; }, {1, 1, 9, 9},
      longformer);
  check_mask(
      "longformer, u8", [bytes](auto, auto, auto q, auto kv) { return abs(q - kv) <= 2 || bytes[q] || bytes[kv]; }, {1, 1, 9, 9},
      longformer);
  check_mask(
      "longformer, i32", [words](auto, auto, auto q, auto kv) { return abs(q - kv) <= 2 || words[q] || words[kv]; }, {1, 1, 9, 9},
      longformer);
  auto window = vector_of<i32>({3});
  check_mask(
      "window in memory", [window](auto, auto, auto q, auto kv) { return q >= kv && q - kv < window[0]; }, {1, 1, 9, 9},
      [](int, int, int q, int k) { return q >= k && q - k < 3; });
  HostTensor<i64> wide({2, 6}, {0, 0, 1, 1, 2, 2, 0, 1, 1, 1, 1, 2});
  check_mask(
      "i64, two axes", [wide](auto b, auto, auto q, auto kv) { return wide(b, q) == wide(b, kv); }, {2, 1, 6, 6},
      [&](int b, int, int q, int k) { return wide.at(b * 6 + q) == wide.at(b * 6 + k); });
  check_mask(
      "indexed axis by axis", [wide](auto b, auto, auto q, auto kv) { return wide[b][q] == wide[b][kv]; }, {2, 1, 6, 6},
      [&](int b, int, int q, int k) { return wide.at(b * 6 + q) == wide.at(b * 6 + k); });
}

TEST_CASE("block, tree and modality masks") {
  int n = 4;
  auto inner = [](auto, auto, auto q, auto kv) { return q >= kv; };
  check_mask(
      "batchify", [=](auto b, auto h, auto q, auto kv) { return q / n == kv / n && inner(b, h, q % n, kv % n); }, {1, 1, 12, 12},
      [](int, int, int q, int k) { return q / 4 == k / 4 && q % 4 >= k % 4; });
  int length = 8, block = 2;  // BD3-LM: noised half, then clean half
  check_mask(
      "block diffusion",
      [=](auto, auto, auto q, auto kv) {
        auto q_clean = q >= length;
        auto kv_clean = kv >= length;
        auto q_block = where(q_clean, q - length, q) / block;
        auto kv_block = where(kv_clean, kv - length, kv) / block;
        auto diagonal = q_clean == kv_clean && q_block == kv_block;
        auto offset = kv_clean && !q_clean && q_block > kv_block;
        auto causal = q_clean && kv_clean && q_block >= kv_block;
        return diagonal || offset || causal;
      },
      {1, 1, 16, 16},
      [](int, int, int q, int k) {
        bool qc = q >= 8, kc = k >= 8;
        int qb = (qc ? q - 8 : q) / 2, kb = (kc ? k - 8 : k) / 2;
        return (qc == kc && qb == kb) || (kc && !qc && qb > kb) || (qc && kc && qb >= kb);
      });
  int prefix = 3, nodes = 4;
  HostTensor<bool> ancestor({4, 4},
                            {true, false, false, false, true, true, false, false, true, false, true, false, true, true, false, true});
  check_mask(
      "tree",
      [=](auto, auto, auto q, auto kv) {
        auto in_range = kv >= prefix && kv < prefix + nodes;
        return kv < prefix || (in_range && ancestor(q, min(max(kv - prefix, 0), nodes - 1)));
      },
      {1, 1, 4, 9}, [&](int, int, int q, int k) { return k < 3 || (k < 7 && ancestor.at(q * 4 + k - 3)); });
  check_mask(
      "tree training", [](auto, auto, auto q, auto kv) { return kv < 3 || ((kv - 3) / 4 == q / 4 && (kv - 3) % 4 <= q % 4); },
      {1, 1, 8, 11}, [](int, int, int q, int k) { return k < 3 || ((k - 3) / 4 == q / 4 && (k - 3) % 4 <= q % 4); });
  HostTensor<i32> modality({2, 2, 2}, {2, 3, 7, 2, 0, 4, 6, 1});  // per batch: (offset, length) twice
  check_mask(
      "transfusion",
      [modality](auto b, auto, auto q, auto kv) {
        auto inside = sum_over(2, [=](auto m) {
          auto offset = modality(b, m, 0);
          auto span = modality(b, m, 1);
          return where(q >= offset && kv < offset + span, 1, 0);
        });
        return q >= kv || inside > 0;
      },
      {2, 1, 10, 10},
      [&](int b, int, int q, int k) {
        bool any = q >= k;
        for (int m = 0; m < 2; ++m)
          any = any || (q >= modality.at(b * 4 + m * 2) && k < modality.at(b * 4 + m * 2) + modality.at(b * 4 + m * 2 + 1));
        return any;
      });
  auto image = vector_of<i32>({0, 0, 1, 1, 2, 2});
  HostTensor<i32> intervals({3, 2}, {0, 4, 4, 6, 6, 10});
  check_mask(
      "flamingo", [=](auto, auto, auto q, auto kv) { return intervals(image[kv], 0) <= q && q < intervals(image[kv], 1); }, {1, 1, 10, 6},
      [&](int, int, int q, int k) { return intervals.at(image.at(k) * 2) <= q && q < intervals.at(image.at(k) * 2 + 1); });
}

TEST_CASE("neighbourhoods on grids") {
  const int width = 6, height = 5, kw = 3, kh = 3;
  auto natten_oracle = [=](int, int, int q, int k) {
    int x = clamped(q % width, kw / 2, width - 1 - kw / 2), y = clamped(q / width, kh / 2, height - 1 - kh / 2);
    return std::abs(x - k % width) <= kw / 2 && std::abs(y - k / width) <= kh / 2;
  };
  auto natten = [=](auto, auto, auto q, auto kv) {
    auto x = min(max(q % width, kw / 2), width - 1 - kw / 2);
    auto y = min(max(q / width, kh / 2), height - 1 - kh / 2);
    return abs(x - kv % width) <= kw / 2 && abs(y - kv / width) <= kh / 2;
  };
  check_mask("natten", natten, {1, 1, width * height, width * height}, natten_oracle);

  auto even_bits = [](auto code) {  // de-interleave a Z-order code
    auto x1 = code & 0x55555555;
    auto x2 = (x1 | (x1 >> 1)) & 0x33333333;
    auto x3 = (x2 | (x2 >> 2)) & 0x0f0f0f0f;
    return (x3 | (x3 >> 4)) & 0x00ff00ff;
  };
  auto plain_bits = [](int code) {
    int value = 0;
    for (int bit = 0; bit < 8; ++bit) value |= ((code >> (2 * bit)) & 1) << bit;
    return value;
  };
  auto folded_bits = [](auto code) { return fold(0, 8, [=](auto bits, auto i) { return bits | ((code >> (2 * i)) & 1) << i; }); };
  auto morton_oracle = [=](int, int, int q, int k) {
    return std::abs(plain_bits(q) - plain_bits(k)) <= 1 && std::abs(plain_bits(q >> 1) - plain_bits(k >> 1)) <= 1;
  };
  check_mask(
      "morton",
      [=](auto, auto, auto q, auto kv) {
        return abs(even_bits(q) - even_bits(kv)) <= 1 && abs(even_bits(q >> 1) - even_bits(kv >> 1)) <= 1;
      },
      {1, 1, 64, 64}, morton_oracle);
  check_mask(
      "morton with fold",
      [=](auto, auto, auto q, auto kv) {
        return abs(folded_bits(q) - folded_bits(kv)) <= 1 && abs(folded_bits(q >> 1) - folded_bits(kv >> 1)) <= 1;
      },
      {1, 1, 64, 64, 3}, morton_oracle);
  HostTensor<bool> selected(
      {1, 2, 3, 3}, {true, false, true, false, true, false, true, true, false, false, true, true, true, false, false, false, false, true});
  check_mask(
      "selected tiles", [selected](auto b, auto h, auto q, auto kv) { return selected(b, h, q / 4, kv / 4); }, {1, 2, 12, 12},
      [&](int, int h, int q, int k) { return selected.at(h * 9 + q / 4 * 3 + k / 4); });
  check_mask(
      "svg spatial", [](auto, auto, auto q, auto kv) { return q < 2 || kv < 2 + 3 || abs(q - kv) < 4; }, {1, 1, 12, 12},
      [](int, int, int q, int k) { return q < 2 || k < 5 || std::abs(q - k) < 4; });
  check_mask(
      "svg temporal", [](auto, auto, auto q, auto kv) { return q < 2 || kv < 2 || abs((q - 2) % 5 - (kv - 2) % 5) < 2; }, {1, 1, 12, 12},
      [](int, int, int q, int k) { return q < 2 || k < 2 || std::abs((q - 2) % 5 - (k - 2) % 5) < 2; });
}

TEST_CASE("masks combine") {
  auto doc = documents();
  auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  auto same = [doc](auto, auto, auto q, auto kv) { return doc[q] == doc[kv]; };
  check_mask("and", and_masks(causal, same), {1, 1, 12, 12}, [&](int, int, int q, int k) { return q >= k && doc.at(q) == doc.at(k); });
  check_mask("or", or_masks(causal, same), {1, 1, 12, 12}, [&](int, int, int q, int k) { return q >= k || doc.at(q) == doc.at(k); });
  check_mask("noop", noop_mask, {}, [](int, int, int, int) { return true; });
  check_mask("and of none", and_masks(), {}, [](int, int, int, int) { return true; });
  check_mask("or of none", or_masks(), {}, [](int, int, int, int) { return false; });
  check_mask("and with noop", and_masks(noop_mask, causal), {1, 1, 5, 5}, [](int, int, int q, int k) { return q >= k; });
}
