// flextile-versus: dense and causal forward attention beside the probes' kernels and cuBLAS, interleaved.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "../vendor.hpp"
#include "probe.hpp"

namespace {

using namespace flextile;

const char help[] = R"(usage: flextile-versus [--probes FOLDER] [--filter TEXT] [--rounds N] [--schedule MxNxWxS]...

Forward attention of bf16 tensors, batch * length = 16384, heads * dim = 2048 (or as near as it goes below), with and without a causal mask, beside the probes'
kernels, score mods, and matrix products beside cuBLAS: one after the other, round after round. A row is the median of all rounds in TFLOP/s:
burst (12 calls after an idle pause) and sustained (calls for 0.25 s). Operations: 4 B H T T D (causal: half), 2 N^3.

  --probes FOLDER      also the kernels that bench/versus/build-probes put there
  --filter TEXT        only groups whose name (D128/T8192/causal) holds TEXT
  --rounds N           rounds (default 3)
  --schedule MxNxWxS   also with tiles of M rows and N columns, W warps, S stages; a causal mask is made for such tiles where
                       its block is not 128x128 (append /128 for that block)
  --quick              bursts only
)";

struct Item {
  std::string name;
  double operations = 0;
  std::function<void()> call;
  std::vector<double> burst = {}, sustained = {};
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void burst(const Device& device, Item& item) {
  const Stream stream = device.stream();
  stream.synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  item.call();
  std::vector<Event> marks;
  for (int i = 0; i < 13; ++i) marks.emplace_back(device);
  marks[0].record(stream);
  for (int i = 1; i < 13; ++i) item.call(), marks[static_cast<std::size_t>(i)].record(stream);
  for (std::size_t i = 1; i < 13; ++i) item.burst.push_back(item.operations / Event::elapsed(marks[i - 1], marks[i]) / 1e9);
}

void sustained(const Device& device, Item& item) {
  const Stream stream = device.stream();
  const double once = item.operations / median(item.burst) / 1e9;
  const int count = std::max(10, static_cast<int>(250 / once));
  Timer timer(stream);
  timer.start();
  for (int i = 0; i < count; ++i) item.call();
  item.sustained.push_back(item.operations * count / timer.stop() / 1e9);
}

struct Schedule {
  std::string text;
  int m = 0, n = 0, warps = 0, stages = 0;
  bool usual_block = false;
};

Schedule parse(const std::string& text) {
  Schedule s{text};
  char tail[8] = "";
  if (std::sscanf(text.c_str(), "%dx%dx%dx%d%7s", &s.m, &s.n, &s.warps, &s.stages, tail) < 4) throw "'" + text + "' is no schedule: give MxNxWxS, as 192x80x12x3";
  s.usual_block = std::string(tail) == "/128";
  return s;
}

struct Options {
  std::string probes, filter;
  int rounds = 3;
  bool quick = false;
  std::vector<Schedule> schedules;
};

/// Largest difference of two outputs, as a check that both computed the same.
double difference(const Tensor<bf16>& a, const Tensor<bf16>& b) {
  const std::vector<bf16> x = a.to_host(), y = b.to_host();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); i += 97) worst = std::max(worst, std::fabs(double(float(x[i])) - double(float(y[i]))));
  return worst;
}

void compare(const Device& device, const Options& options, const std::string& name, std::vector<Item>& items, const std::string& with) {
  for (int round = 0; round < options.rounds; ++round) {
    for (Item& item : items) burst(device, item);
    if (options.quick) continue;
    for (Item& item : items) sustained(device, item);
  }
  double best[2] = {0, 0};
  for (const Item& item : items) {
    if (item.name.rfind(with, 0) == 0) best[0] = std::max(best[0], median(item.burst)), best[1] = std::max(best[1], median(item.sustained));
  }
  for (const Item& item : items) {
    std::printf("%-20s %-28s %7.1f %7.1f", name.c_str(), item.name.c_str(), median(item.burst), median(item.sustained));
    if (best[0] > 0) std::printf("   %.3f %.3f of %s", median(item.burst) / best[0], best[1] > 0 ? median(item.sustained) / best[1] : 0.0, with.c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

const auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };

void group(const Device& device, const Options& options, const std::vector<versus::Probe>& probes, int dim, int length, bool masked) {
  const std::string name = "D" + std::to_string(dim) + "/T" + std::to_string(length) + (masked ? "/causal" : "/full");
  if (name.find(options.filter) == std::string::npos) return;
  const int batch = 16384 / length, heads = 2048 / dim;
  const double operations = 4.0 * batch * heads * length * length * dim / (masked ? 2 : 1);
  const Tensor<bf16> q = random_normal<bf16>(device, {batch, heads, length, dim}, 1), k = random_normal<bf16>(device, {batch, heads, length, dim}, 2),
                     v = random_normal<bf16>(device, {batch, heads, length, dim}, 3);
  auto mask_of = [&](int rows, int columns) { return create_block_mask(causal, {.q_len = length, .kv_len = length, .q_block = rows, .kv_block = columns, .device = device}); };
  const BlockMask usual = masked ? mask_of(128, 128) : BlockMask(), open = masked ? mask_of(0, 0) : BlockMask();
  const Tensor<bf16> expected = (masked ? flex_attention(q, k, v, usual) : flex_attention(q, k, v)).out;

  std::vector<Item> items;
  items.push_back({"flextile", operations, [=] { masked ? flex_attention(q, k, v, open) : flex_attention(q, k, v); }});
  if (masked) {
    items.push_back({"flextile, tiles of 128x128", operations, [=] { flex_attention(q, k, v, usual); }});   // those of the first may be others
  }
  for (const Schedule& s : options.schedules) {
    AttentionOptions o{.block_m = s.m, .block_n = s.n, .num_warps = s.warps, .stages = s.stages};
    const BlockMask mask = !masked ? BlockMask() : s.usual_block ? usual : mask_of(s.m, s.n);
    Item item{"flextile " + s.text, operations, [=] { masked ? flex_attention(q, k, v, mask, o) : flex_attention(q, k, v, o); }};
    try {
      const double far = difference((masked ? flex_attention(q, k, v, mask, o) : flex_attention(q, k, v, o)).out, expected);
      if (!(far < 0.02)) std::printf("%-20s %-28s WRONG by %g\n", name.c_str(), item.name.c_str(), far);
    } catch (const Error& error) {
      std::printf("%-20s %-28s %s\n", name.c_str(), item.name.c_str(), error.what());
      continue;
    }
    items.push_back(item);
  }
  const Tensor<bf16> flat[] = {q.reshape({batch * heads, length, dim}), k.reshape({batch * heads, length, dim}), v.reshape({batch * heads, length, dim})};
  for (const versus::Probe& probe : probes) {
    if (probe.dim != dim || probe.causal != masked || length < probe.shortest || length > probe.longest) continue;
    const Tensor<bf16> out = empty<bf16>(device, {batch * heads, length, dim});
    const auto run = std::make_shared<versus::ProbeRun>(options.probes, probe, flat[0], flat[1], flat[2], out);
    const Stream stream = device.stream();
    run->launch(stream);
    const double far = difference(out.reshape({batch, heads, length, dim}), expected);
    if (!(far < 0.02)) std::printf("%-20s probe %-22s differs by %g\n", name.c_str(), probe.name.c_str(), far);
    items.push_back({"probe " + probe.name, operations, [=] { run->launch(stream); }});
  }
  compare(device, options, name, items, "probe");
}

/// Score mods over all keys, beside the kernel without one.
void mods(const Device& device, const Options& options) {
  const std::string name = "mods/D128/T8192";
  if (name.find(options.filter) == std::string::npos) return;
  const int batch = 2, heads = 16, length = 8192, dim = 128;
  const Tensor<bf16> q = random_normal<bf16>(device, {batch, heads, length, dim}, 1), k = random_normal<bf16>(device, {batch, heads, length, dim}, 2),
                     v = random_normal<bf16>(device, {batch, heads, length, dim}, 3), bias = random_normal<bf16>(device, {length, length}, 4),
                     distances = random_normal<bf16>(device, {heads, 2 * length}, 5);
  std::vector<Item> items;
  const double operations = 4.0 * batch * heads * length * length * dim;
  items.push_back({"plain", operations, [=] { flex_attention(q, k, v); }});
  auto add = [&](const char* title, const auto& mod) { items.push_back({title, operations, [=] { flex_attention(q, k, v, mod); }}); };
  add("alibi", scores::alibi(heads));
  add("relative", scores::relative);
  add("softcap", scores::softcap(20));
  add("bias of every position", [bias](auto score, auto, auto, auto at, auto kv) { return score + bias(at, kv); });
  add("bias of every distance", scores::distance_bias(distances, length));
  compare(device, options, name, items, "plain");
}

/// Head dims of which keys have more than values, beside equal ones.
void unequal_dims(const Device& device, const Options& options) {
  const std::string name = "D192:128/T8192";
  if (name.find(options.filter) == std::string::npos) return;
  const int batch = 2, length = 8192;
  std::vector<Item> items;
  for (const auto& [dim, value_dim] : {std::pair{256, 256}, {192, 192}, {192, 128}, {128, 128}}) {
    const int heads = 2048 / dim;
    const Tensor<bf16> q = random_normal<bf16>(device, {batch, heads, length, dim}, 1), k = random_normal<bf16>(device, {batch, heads, length, dim}, 2),
                       v = random_normal<bf16>(device, {batch, heads, length, value_dim}, 3);
    const double operations = 2.0 * batch * heads * length * length * (dim + value_dim);
    items.push_back({"full D" + std::to_string(dim) + ":" + std::to_string(value_dim), operations, [=] { flex_attention(q, k, v); }});
  }
  compare(device, options, name, items, "full D256");
}

template <int BM, int BN, int Stages, int Warps>
inline const auto matmul = kernel("matmul", [](TensorView<const bf16, 2> a, TensorView<const bf16, 2> b, TensorView<bf16, 2> c) {
  Scalar m = program_id(0) * BM;
  Scalar n = program_id(1) * BN;
  Var acc = zeros<f32, BM, BN>();
  for (auto k : range(0, a.size(1), 64, {.stages = Stages})) acc = dot(load<BM, 64>(a, m, k), load<64, BN>(b, k, n), acc);
  store(c, cast<bf16>(acc), m, n);
}, {.num_warps = Warps});

void products(const Device& device, const Options& options, int size) {
  const std::string name = "gemm" + std::to_string(size);
  if (name.find(options.filter) == std::string::npos) return;
  const double operations = 2.0 * size * size * size;
  const Tensor<bf16> a = random_normal<bf16>(device, {size, size}), b = random_normal<bf16>(device, {size, size}), c = empty<bf16>(device, {size, size});
  std::vector<Item> items;
  if (const auto multiply = bench::cublas_matmul(device, size)) items.push_back({"cuBLAS", operations, multiply});
  auto add = [&](const char* tiles, const auto& kernel, int block_m, int block_n) {
    items.push_back({std::string("flextile ") + tiles, operations, [=, &kernel] { launch(device.stream(), kernel, Grid{ceil_div(size, block_m), ceil_div(size, block_n)}, a, b, c); }});
  };
  add("128x256x64", matmul<128, 256, 4, 8>, 128, 256);
  add("192x192x64", matmul<192, 192, 4, 12>, 192, 192);
  add("256x192x64", matmul<256, 192, 4, 8>, 256, 192);
  compare(device, options, name, items, "cuBLAS");
}

int run(int count, char** values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string option = values[i];
    if (option == "--help" || option == "-h") return std::fputs(help, stdout), 0;
    if (option == "--quick") {
      options.quick = true;
      continue;
    }
    if (i + 1 == count) throw option + " needs a value, or is unknown; see --help";
    const std::string value = values[++i];
    if (option == "--probes") options.probes = value;
    else if (option == "--filter") options.filter = value;
    else if (option == "--rounds") options.rounds = std::max(1, std::atoi(value.c_str()));
    else if (option == "--schedule") options.schedules.push_back(parse(value));
    else throw "unknown option '" + option + "'; see --help";
  }
  const Device device = Device::best();
  if (device.is_host()) throw std::string("there is no GPU here");
  const std::vector<versus::Probe> probes = options.probes.empty() ? std::vector<versus::Probe>() : versus::probes_in(options.probes);
  std::printf("%s\n%-20s %-28s %7s %7s\n", device.properties().name.c_str(), "group", "kernel", "burst", "sustained");
  for (const int size : {4096, 8192}) products(device, options, size);
  mods(device, options);
  unequal_dims(device, options);
  for (const int dim : {64, 80, 96, 128, 192, 256}) {
    for (const int length : {1024, 2048, 4096, 8192, 16384}) {
      for (const bool masked : {false, true}) group(device, options, probes, dim, length, masked);
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run(count, values);
  } catch (const std::string& sentence) {
    return std::fprintf(stderr, "flextile-versus: %s\n", sentence.c_str()), 2;
  } catch (const flextile::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
