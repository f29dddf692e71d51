// Packed documents: attention that is causal, stays within the token's own document and sees the last `window` tokens, itself included.
// usage: document_mask [tokens]        65,536 where it is not given
#include "sample.hpp"

#include <cmath>
#include <cstdlib>
#include <iostream>
using namespace flextile;

// Compares rows of attended.out with float64 loops over all keys, which ask the same mask, with numbers.
template <class Mask>
static bool check(const Mask& visible, const Tensor<bf16>& q, const Tensor<bf16>& k, const Tensor<bf16>& v, const TensorRef& out) {
  const int heads = int(q.size(1)), T = int(q.size(2)), dim = int(q.size(3));
  const auto query = q.to_host(), key = k.to_host(), value = v.to_host(), result = Tensor<bf16>(out).to_host();
  double worst = 0;
  for (int sample = 0; sample < 48; ++sample) {
    const int row = sample == 0 ? 0 : sample == 1 ? T - 1 : sample < 6 ? std::min(T - 1, 126 + sample) : int(sample * 2654435761ull % T);
    const int head = sample % heads;
    auto at = [&](const std::vector<bf16>& tensor, int position) { return &tensor[(std::size_t(head) * T + position) * dim]; };
    std::vector<double> expected(dim);
    double largest = -INFINITY, total = 0;
    for (int kv = 0; kv < T; ++kv) {
      if (!visible(0, head, row, kv)) continue;
      double score = 0;
      for (int i = 0; i < dim; ++i) score += double(float(at(query, row)[i])) * float(at(key, kv)[i]);
      score /= std::sqrt(double(dim));
      const double rescale = std::exp(largest - std::max(largest, score));
      largest = std::max(largest, score);
      const double weight = std::exp(score - largest);
      total = total * rescale + weight;
      for (int i = 0; i < dim; ++i) expected[i] = expected[i] * rescale + weight * float(at(value, kv)[i]);
    }
    for (int i = 0; i < dim; ++i) {
      const double right = total > 0 ? expected[i] / total : 0;
      worst = std::max(worst, std::fabs(float(at(result, row)[i]) - right) / (1 + std::fabs(right)));
    }
  }
  std::printf("largest error in 48 rows: %.2e\n", worst);
  return worst < 0.015;
}

// Tiles that a mask must touch, from its shape alone: tile rows i = 0, 1, ... see min(i, reach) + 1 tiles.
static long long tiles_within(long long rows, long long reach) {
  long long count = 0;
  for (long long i = 0; i < rows; ++i) count += std::min(i, reach) + 1;
  return count;
}

template <class Mask>
static bool check_count(const char* name, const Mask& mask_mod, int T, long long expected) {
  const BlockMask mask = create_block_mask(mask_mod, {.q_len = T, .kv_len = T});
  const long long count = mask.visible_tiles(), all = mask.q_tiles() * mask.kv_tiles();
  std::printf("%-24s touches %lld of %lld tiles%s\n", name, count, all, count == expected ? "" : "  WRONG");
  return count == expected;
}

int main(int count, char** values) {
  const int T = count > 1 ? std::atoi(values[1]) : 65'536, heads = 6, dim = 128;
  if (T < 1) return std::printf("the number of tokens must be at least 1, not '%s'\n", values[1]), 2;

  Device device = Device::best();                              // a CUDA GPU where there is one, else the host CPU
  Tensor<i32> docs = document_ids(device, T);                  // the document of every position
  Tensor<i32> window = full<i32>(device, {1}, 1024);           // read from memory: changing it recompiles nothing

  auto mask_mod = [docs, window](auto, auto, auto q, auto kv) {   // batch, head, query position, key position
    auto causal = q >= kv;
    auto same_document = docs[q] == docs[kv];
    auto in_window = q - kv < window[0];
    return causal && same_document && in_window;
  };
  BlockMask block_mask = create_block_mask(mask_mod, {.q_len = T, .kv_len = T});
  std::cout << block_mask << '\n';                             // a picture of the tiles, and how many are skipped

  auto q = random_normal<bf16>(device, {1, heads, T, dim});
  auto k = random_normal<bf16>(device, {1, heads, T, dim});
  auto v = random_normal<bf16>(device, {1, heads, T, dim});
  auto attended = flex_attention(q, k, v, block_mask);         // attended.out; attended.lse when asked for

  const double ms = sample::milliseconds(device, [&] { attended = flex_attention(q, k, v, block_mask); }, 3);
  const double operations = 4.0 * heads * block_mask.visible_tiles() * 128 * 128 * dim;
  std::printf("document mask on %s: %d tokens, %d heads, dim %d, %.2f ms, %.3f TFLOP/s on visible tiles\n", device.name().c_str(), T, heads, dim, ms,
              operations / ms / 1e9);

  bool right = check_count("causal", [](auto, auto, auto q, auto kv) { return q >= kv; }, T, tiles_within((T + 127) / 128, T));
  right &= check_count("causal window of 1,024", [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 1024; }, T, tiles_within((T + 127) / 128, 8));
  const int chunks = T / 1024, rest = (T % 1024 + 127) / 128;
  right &= check_count("causal chunks of 1,024", [](auto, auto, auto q, auto kv) { return q >= kv && q / 1024 == kv / 1024; }, T,
                       chunks * tiles_within(8, 8) + tiles_within(rest, 8));

  auto on_host = [docs = docs.to(Device::host()), window = window.to(Device::host())](auto, auto, auto q, auto kv) {
    return q >= kv && docs[q] == docs[kv] && q - kv < window[0];
  };
  right &= check(on_host, q, k, v, attended.out);
  return sample::finish("document_mask", right, "tile counts, and 48 rows against float64 loops that call the same lambda");
}
