// One run of flextile-bench: the device, the table, how long to measure, and the limits that rows are compared with.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <flextile/flextile.hpp>

#include "report.hpp"

namespace bench {

struct Run {
  flextile::Device device;
  Report report;
  bool quick = false;              // tiny sizes: does it run at all
  double budget_ms = 300;          // measuring time of a row
  double peak_tflops = 0;          // host: multiply-adds; GPU: cuBLAS's matrix product, 0 where it is not found
  double copy_gbps = 0;
};

/// Median time of `work` on the device's default stream, in milliseconds, after two runs that compile and warm up. The
/// queue is kept full, so that the host's time does not count.
template <class Work>
double median_ms(const Run& run, Work&& work) {
  using flextile::Event;
  const flextile::Stream stream = run.device.stream();
  work();
  flextile::Timer timer(stream);
  timer.start();
  work();
  const double once = timer.stop();
  const int count = run.quick ? 1 : std::clamp(int(run.budget_ms / std::max(once, 1e-3)), 3, 200);
  std::vector<Event> starts, ends;
  for (int i = 0; i < count; ++i) starts.emplace_back(run.device), ends.emplace_back(run.device);
  for (int i = 0; i < count; ++i) starts[i].record(stream), work(), ends[i].record(stream);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(Event::elapsed(starts[i], ends[i]));
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[count / 2];
}

inline double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Measures one row if it is asked for. `make()` allocates and returns the row's work; `operations` and `bytes` count one
/// run of it (0: not counted). An Error becomes a failed row.
template <class Make>
void measure(Run& run, const std::string& name, double operations, double bytes, double goal, Make&& make) {
  if (!run.report.wants(name)) return;
  try {
    auto work = make();
    Row row{.name = name, .ms = median_ms(run, work), .goal = goal};
    if (operations > 0) row.tflops = operations / row.ms / 1e9, row.limit = run.peak_tflops;
    else if (bytes > 0) row.gbps = bytes / row.ms / 1e6, row.limit = run.copy_gbps;
    run.report.add(row);
  } catch (const flextile::Error& error) {
    run.report.failed(name, error.what());
  }
}

// The groups of rows. Each measures what the filter asks for.
void limits(Run& run);                 // fills the limits
void kernels(Run& run);                // matmul, softmax, vector add: tile programs
void dense_attention(Run& run);        // dense and causal rows of the anchors, and the two CPU anchors on the host
void sparse_attention(Run& run);       // 64K masks and score mods
void latency(Run& run);                // cold compile, reload from disk, cached call beside a bare launch

}  // namespace bench
