#include "host_limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace bench {

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Runs work(thread) on all threads at once, `rounds` times; the best round's seconds.
template <class Work>
double best_round(int threads, int rounds, Work work) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> ready{0};
    std::vector<double> from(threads), to(threads);
    std::vector<std::thread> pool;
    for (int thread = 0; thread < threads; ++thread)
      pool.emplace_back([&, thread] {
        ++ready;
        while (ready < threads) std::this_thread::yield();
        from[thread] = seconds();
        work(thread);
        to[thread] = seconds();
      });
    for (std::thread& thread : pool) thread.join();
    best = std::min(best, *std::max_element(to.begin(), to.end()) - *std::min_element(from.begin(), from.end()));
  }
  return best;
}

typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));
constexpr int chains = 12;      // more than latency times ports of any core, fewer than its registers

// Twelve independent chains of multiply-adds. The result is returned so that nothing is left out.
template <class Vector>
[[gnu::always_inline]] inline float multiply_adds(int steps) {
  Vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = Vector{} + 1e-3f * i;
  Vector factor = Vector{} + 0.999f, term = Vector{} + 1e-3f;
  asm volatile("" : "+m"(factor), "+m"(term));
  for (int step = 0; step < steps; ++step)
    for (int i = 0; i < chains; ++i) sum[i] = sum[i] * factor + term;
  float total = 0;
  for (int i = 0; i < chains; ++i) total += sum[i][0];
  return total;
}

[[gnu::target("arch=x86-64-v3")]] float with_avx2(int steps) { return multiply_adds<Eight>(steps); }
[[gnu::target("arch=x86-64-v4")]] float with_avx512(int steps) { return multiply_adds<Sixteen>(steps); }
float with_baseline(int steps) { return multiply_adds<Eight>(steps); }

double rate(int threads, float (*run)(int), int lanes) {
  const int steps = 2'000'000;
  std::vector<float> keep(threads);
  const double taken = best_round(threads, 5, [&](int thread) { keep[thread] = run(steps); });
  return 2.0 * chains * lanes * steps * threads / taken / 1e12;
}

}  // namespace

double host_multiply_add_peak(int threads) {
  double best = rate(threads, with_baseline, 8);
  if (__builtin_cpu_supports("fma")) best = std::max(best, rate(threads, with_avx2, 8));
  if (__builtin_cpu_supports("avx512f")) best = std::max(best, rate(threads, with_avx512, 16));
  return best;
}

double host_copy_bandwidth(int threads) {
  const std::size_t bytes = std::size_t(256) << 20, part = bytes / threads;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double taken = best_round(threads, 7, [&](int thread) { std::memcpy(&to[part * thread], &from[part * thread], part); });
  return 2.0 * part * threads / taken / 1e9;
}

}  // namespace bench
