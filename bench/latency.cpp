// What a call costs before the device works: compiling, reading the cache folder, launching.
#include <functional>

#include "bench.hpp"
#include "vendor.hpp"

namespace bench {

using namespace flextile;

// Median seconds of `work`, each time after `before`.
static double median_seconds(int count, const std::function<void()>& before, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    before();
    const double start = now_seconds();
    work();
    times.push_back(now_seconds() - start);
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[count / 2];
}

static void time_row(Run& run, const std::string& name, double goal_ms, const std::function<double()>& seconds) {
  if (!run.report.wants(name)) return;
  try {
    const double taken = seconds();
    if (taken > 0) run.report.add({.name = name, .ms = 1e3 * taken, .goal = goal_ms, .note = goal_ms > 0 ? "goal: " + std::to_string(goal_ms).substr(0, 6) + " ms" : ""});
  } catch (const Error& error) {
    run.report.failed(name, error.what());
  }
}

void latency(Run& run) {
  const auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  const AttentionCompileOptions options{.dim = 128};
  const ir::Mod mask = erase_mask(causal);
  const Target target = run.device.target();
  const std::string prefix = run.device.is_host() ? "cpu/" : "";

  // A kernel that nobody has compiled before, each time: nvJitLink keeps a cache of its own.
  const auto fresh_kernel = [&](const std::function<void(const ir::Mod&)>& make) {
    int window = static_cast<int>(static_cast<std::int64_t>(now_seconds() * 1e6) % 100'000'000) + 1000;
    return median_seconds(run.quick ? 1 : 3, [&] { ++window; }, [&] {
      const ir::Mod fresh = erase_mask([window](auto, auto, auto q, auto kv) { return q >= kv && q - kv < window; });
      make(fresh);
    });
  };
  time_row(run, prefix + "compile/flex_attention/D128/window", 800, [&] {
    if (run.device.is_host()) return fresh_kernel([&](const ir::Mod& fresh) { compile_attention(nullptr, &fresh, options, target); });
    // Loaded as well: the driver assembles kernels that have roles.
    return fresh_kernel([&](const ir::Mod& fresh) { load(trace_attention(nullptr, &fresh, options, target), run.device); });
  });
  if (!run.device.is_host()) {
    // What any machine without a GPU pays for the same kernel, host code aside.
    time_row(run, "compile/flex_attention/D128/window/host code", 800, [&] {
      return fresh_kernel([&](const ir::Mod& fresh) { compile_attention(nullptr, &fresh, options, Target::host()); });
    });
  }
  time_row(run, prefix + "reload/flex_attention/D128/causal", 5, [&]() -> double {
    const ir::Function function = trace_attention(nullptr, &mask, options, target);
    load(function, run.device);
    const std::int64_t hits = cache_statistics().disk_hits;
    const double seconds = median_seconds(run.quick ? 1 : 7, forget_cached_kernels, [&] { load(function, run.device); });
    if (cache_statistics().disk_hits == hits) throw DriverError("nothing was read from the cache folder '" + cache_folder() + "'");
    return seconds;
  });

  auto per_call = [&](const std::function<void()>& call) {
    call();
    const int calls = run.quick ? 10 : 200;
    double best = 1e30;
    for (int round = 0; round < 20; ++round) {
      run.device.synchronize();
      const double start = now_seconds();
      for (int i = 0; i < calls; ++i) call();
      best = std::min(best, (now_seconds() - start) / calls);
    }
    run.device.synchronize();
    return best;
  };
  double bare = 0;
  if (!run.device.is_host())
    time_row(run, "overhead/host_us_per_call/cuLaunchKernel", 0, [&] { return bare = bare_launch_microseconds(run.device.stream(), 40) / 1e6; });
  time_row(run, prefix + "overhead/host_us_per_call/flextile launch", 0, [&] {
    const auto one = kernel("one", [](Pointer<f32> out) { store(out, 1.0f); });
    const Tensor<f32> out = empty<f32>(run.device, {1});
    return per_call([&] { launch(run.device.stream(), one, Grid{1}, out); });
  });
  time_row(run, prefix + "overhead/host_us_per_call/flextile attention", bare > 0 ? 1e3 * bare + 2e-3 : 0, [&] {
    const Tensor<bf16> q = random_normal<bf16>(run.device, {1, 1, 128, 64}), k = q.clone(), v = q.clone();
    const BlockMask block_mask = create_block_mask(causal, {.q_len = 128, .kv_len = 128, .device = run.device});
    return per_call([&] { flex_attention(q, k, v, block_mask); });
  });
}

}  // namespace bench
