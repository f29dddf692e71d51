// Forward attention, rows named as the anchors'. Operations: 4 B H L S D for dense rows (causal: half), and 4 B H 128 128 D
// per visible 128x128 tile for the others, also where the kernel takes the tiles that the device likes best.
#include "bench.hpp"

namespace bench {

using namespace flextile;

namespace {

const auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };

template <class T> struct Inputs {
  Tensor<T> q, k, v;
  Inputs(const Run& run, int batch, int heads, int length, int dim)
      : q(random_normal<T>(run.device, {batch, heads, length, dim}, 1)), k(random_normal<T>(run.device, {batch, heads, length, dim}, 2)),
        v(random_normal<T>(run.device, {batch, heads, length, dim}, 3)) {}
};

template <class Mask> BlockMask mask_of(const Run& run, const Mask& mod, int length) {
  return create_block_mask(mod, {.q_len = length, .kv_len = length, .device = run.device});
}

// A row whose operations are counted on the visible tiles of `mask`.
template <class T> void tiles_row(Run& run, const std::string& name, const Inputs<T>& in, const BlockMask& mask, double goal) {
  const double operations = 4.0 * in.q.size(0) * in.q.size(1) * mask.visible_tiles() * 128 * 128 * in.q.size(3);
  measure(run, name, operations, 0, goal, [&] { return [&] { flex_attention(in.q, in.k, in.v, mask); }; });
}

template <class T, class Score>
void scored_row(Run& run, const std::string& name, const Inputs<T>& in, const Score& score, const BlockMask& mask) {
  const double operations = 4.0 * in.q.size(0) * in.q.size(1) * mask.visible_tiles() * 128 * 128 * in.q.size(3);
  measure(run, name, operations, 0, 0, [&] { return [&] { flex_attention(in.q, in.k, in.v, score, mask); }; });
}

template <class T, class Score> void full_row(Run& run, const std::string& name, const Inputs<T>& in, const Score& score) {
  const double length = static_cast<double>(in.q.size(2)), operations = 4.0 * in.q.size(0) * in.q.size(1) * length * length * in.q.size(3);
  measure(run, name, operations, 0, 0, [&] { return [&] { flex_attention(in.q, in.k, in.v, score); }; });
}

// True where one of the names is asked for; sets up nothing otherwise.
bool any(const Run& run, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return run.report.wants(name); });
}

// A failure in the setup of a group (a mask that cannot be built) fails the group, not the run.
template <class Group> void group(Run& run, const std::vector<std::string>& names, Group&& body) {
  if (!any(run, names)) return;
  try {
    body();
  } catch (const Error& error) {
    for (const std::string& name : names) run.report.failed(name, error.what());
  }
}

void host_anchors(Run& run) {
  const int short_length = run.quick ? 512 : 4096, long_length = run.quick ? 1024 : 16384;
  const std::string causal_name = std::string(run.quick ? "cpu/512" : "cpu/4K") + "/H8/D64/causal/flextile/fwd";
  group(run, {causal_name}, [&] { tiles_row(run, causal_name, Inputs<f32>(run, 1, 8, short_length, 64), mask_of(run, causal, short_length), 0); });
  const std::string doc_name = std::string(run.quick ? "cpu/1K" : "cpu/16K") + "/H6/D128/doc/flextile/fwd";
  group(run, {doc_name}, [&] {
    Tensor<i32> docs = document_ids(run.device, long_length);
    tiles_row(run, doc_name, Inputs<f32>(run, 1, 6, long_length, 128), mask_of(run, masks::document(docs), long_length), 0);
  });
}

}  // namespace

void dense_attention(Run& run) {
  if (run.device.is_host()) return host_anchors(run);
  const int length = run.quick ? 512 : 8192;
  for (const int dim : {64, 128, 256}) {
    const int batch = 16384 / 8192, heads = 2048 / dim;
    const std::string tag = "D" + std::to_string(dim) + "/T" + std::to_string(length);
    const std::string full = tag + "/full/flextile/fwd", half = tag + "/causal/flextile/fwd";
    group(run, {full, half}, [&] {
      const Inputs<bf16> in(run, batch, heads, length, dim);
      const double operations = 4.0 * batch * heads * length * length * dim;
      measure(run, full, operations, 0, 0, [&] { return [&] { flex_attention(in.q, in.k, in.v); }; });
      const BlockMask mask = mask_of(run, causal, length);
      measure(run, half, operations / 2, 0, 0, [&] { return [&] { flex_attention(in.q, in.k, in.v, mask); }; });
    });
  }
}

void sparse_attention(Run& run) {
  const bool host = run.device.is_host();
  const int length = run.quick ? 2048 : 65536, heads = 6, dim = 128;
  const std::string prefix = host ? "cpu/" : "", size = run.quick ? "2K" : "64K";
  auto name = [&](const char* mask, const char* tiles = "") { return prefix + size + "/H6/D128/" + mask + "/flextile" + tiles + "/fwd"; };
  std::vector<std::string> names;
  for (const char* mask : {"speedrun", "causal", "window128", "window256", "window1024", "chunk1024", "doc"}) {
    names.push_back(name(mask));
    if (host) break;
    names.push_back(name(mask, " best tiles"));
  }
  group(run, names, [&] {
    const Inputs<bf16> in(run, 1, heads, length, dim);
    const Tensor<i32> docs = document_ids(run.device, length), window = full<i32>(run.device, {1}, 1024);
    auto row = [&](const char* mask, const auto& mod, double goal) {
      if (run.report.wants(name(mask))) tiles_row(run, name(mask), in, mask_of(run, mod, length), goal);
      const std::string best = name(mask, " best tiles");
      if (host || !run.report.wants(best)) return;
      const double operations = 4.0 * heads * mask_of(run, mod, length).visible_tiles() * 128 * 128 * dim;
      const BlockMask tiles = create_block_mask(mod, {.q_len = length, .kv_len = length, .head_dim = dim, .device = run.device});
      measure(run, best, operations, 0, 0, [&] { return [&] { flex_attention(in.q, in.k, in.v, tiles); }; });
    };
    row("speedrun", [docs, window](auto, auto, auto q, auto kv) { return q >= kv && docs[q] == docs[kv] && q - kv < window[0]; }, host ? 0.40 : 0);
    if (host) return;
    row("causal", causal, 0);
    row("window128", [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 128; }, 0);      // rows of two tiles
    row("window256", [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 256; }, 0);      // and of three
    row("window1024", [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 1024; }, 0);
    row("chunk1024", [](auto, auto, auto q, auto kv) { return q >= kv && q / 1024 == kv / 1024; }, 0);
    row("doc", masks::document(docs), 0);
  });
  if (host) return;

  const int short_length = run.quick ? 1024 : 8192;
  const std::string tag = std::string("B4/H16/") + (run.quick ? "1K" : "8K") + "/D128/";
  auto scored = [&](const char* mod) { return tag + mod + "/flextile/fwd"; };
  group(run, {scored("alibi+causal"), scored("softcap+causal"), scored("rel+causal"), scored("bias_gather+causal"), scored("alibi_full"), scored("softcap_full"),
              scored("prefix2048"), scored("doc+causal")}, [&] {
    const int heads_here = 16;
    const Inputs<bf16> in(run, 4, heads_here, short_length, 128);
    const BlockMask mask = mask_of(run, causal, short_length);
    const Tensor<bf16> bias = random_normal<bf16>(run.device, {heads_here, 2 * short_length}, 4);
    scored_row(run, scored("alibi+causal"), in, scores::alibi(heads_here), mask);
    scored_row(run, scored("softcap+causal"), in, scores::softcap(20), mask);
    scored_row(run, scored("rel+causal"), in, scores::relative, mask);
    scored_row(run, scored("bias_gather+causal"), in, scores::distance_bias(bias, short_length), mask);
    full_row(run, scored("alibi_full"), in, scores::alibi(heads_here));
    full_row(run, scored("softcap_full"), in, scores::softcap(20));
    tiles_row(run, scored("prefix2048"), in, mask_of(run, masks::prefix_lm(2048), short_length), 0);
    tiles_row(run, scored("doc+causal"), in, mask_of(run, masks::document(document_ids(run.device, short_length, 1, 1024)), short_length), 0);
  });
  const std::string grouped = std::string("B4/H32:8/") + (run.quick ? "1K" : "8K") + "/D128/gqa+causal/flextile/fwd";
  group(run, {grouped}, [&] {
    const Tensor<bf16> q = random_normal<bf16>(run.device, {4, 32, short_length, 128}, 1), k = random_normal<bf16>(run.device, {4, 8, short_length, 128}, 2),
                       v = random_normal<bf16>(run.device, {4, 8, short_length, 128}, 3);
    const BlockMask mask = mask_of(run, causal, short_length);
    measure(run, grouped, 2.0 * 4 * 32 * short_length * short_length * 128, 0, 0, [&] { return [&] { flex_attention(q, k, v, mask); }; });
  });
  for (const char* mask : {"causal", "speedrun"}) {
    const std::string row = "create_block_mask/T" + std::to_string(length) + "/" + mask + "/flextile";
    const Tensor<i32> docs = document_ids(run.device, length), window = full<i32>(run.device, {1}, 1024);
    measure(run, row, 0, 0, 0, [&] {
      return [&run, length, docs, window, mask] {
        if (mask[0] == 'c') mask_of(run, causal, length);
        else mask_of(run, [docs, window](auto, auto, auto q, auto kv) { return q >= kv && docs[q] == docs[kv] && q - kv < window[0]; }, length);
      };
    });
  }
}

}  // namespace bench
