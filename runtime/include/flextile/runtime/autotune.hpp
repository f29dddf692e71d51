// autotune: which of several kernels is fastest, by running them.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <flextile/runtime/stream.hpp>

namespace flextile {

/// Several kernels that do the same work. They must outlive it: namespace-scope kernels, or locals.
template <class... Kernels>
struct Candidates {
  std::vector<std::variant<const Kernels*...>> kernels;
  std::vector<std::string> names;
};

template <class... Kernels>
Candidates<Kernels...> candidates(const Kernels&... kernels) {
  using Pointer = std::variant<const Kernels*...>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Candidates<Kernels...>{{Pointer(std::in_place_index<I>, &kernels)...}, {std::string(kernels.name())...}};
  }(std::index_sequence_for<Kernels...>());
}

struct CandidateTime {
  std::string name;
  double milliseconds = -1;   // of one run; -1: it failed
  std::string failure;        // why: it does not compile for the device, needs too much shared memory, ...
};

/// Runs `run` once, so that it compiles, then often enough for the stream's clock, and takes the fastest of three rounds.
CandidateTime time_candidate(std::string name, const Stream& stream, void (*run)(void* context), void* context);
/// The index of the shortest time. Throws CompileError that lists the failures where every candidate failed.
std::size_t fastest(const std::vector<CandidateTime>& times);
std::string to_string(const std::vector<CandidateTime>& times);

/// The fastest candidate.
template <class... Kernels>
class Tuned {
 public:
  Tuned(Candidates<Kernels...> candidates, std::vector<CandidateTime> times)
      : candidates_(std::move(candidates)), times_(std::move(times)), index_(fastest(times_)) {}
  std::size_t index() const { return index_; }
  double milliseconds() const { return times_[index_].milliseconds; }
  const std::vector<CandidateTime>& times() const { return times_; }
  /// run(kernel) with the fastest kernel.
  template <class Run>
  void operator()(Run&& run) const {
    std::visit([&](const auto* kernel) { run(*kernel); }, candidates_.kernels[index_]);
  }

 private:
  Candidates<Kernels...> candidates_;
  std::vector<CandidateTime> times_;
  std::size_t index_;
};

/// Times run(kernel) for every candidate; `run` launches it on `stream`. A candidate that fails is passed over.
///
///   auto launch_it = [&](auto& kernel) { launch(stream, kernel, Grid{...}, a, b, c); };
///   auto best = autotune(candidates(matmul<128, 128>, matmul<64, 64>), launch_it);
///   best(launch_it);
template <class... Kernels, class Run>
Tuned<Kernels...> autotune(Candidates<Kernels...> candidates, Run&& run, const Stream& stream = Device::best().stream()) {
  std::vector<CandidateTime> times;
  for (std::size_t i = 0; i < candidates.kernels.size(); ++i) {
    auto once = [&] { std::visit([&](const auto* kernel) { run(*kernel); }, candidates.kernels[i]); };
    times.push_back(time_candidate(candidates.names[i], stream, [](void* context) { (*static_cast<decltype(once)*>(context))(); }, &once));
  }
  return Tuned<Kernels...>(std::move(candidates), std::move(times));
}

}  // namespace flextile
