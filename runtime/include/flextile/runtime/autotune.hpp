// autotune: which of several kernels is fastest, by running them.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <flextile/runtime/candidate_times.hpp>
#include <flextile/runtime/launch.hpp>

namespace flextile {

/// Several kernels that do the same work. They must outlive it: namespace-scope kernels, or locals.
template <class... Kernels>
struct Candidates {
  std::vector<std::variant<const Kernels*...>> kernels;
  std::vector<Candidate> names;
};

/// Anything with a name() can be a candidate. What is no kernel is known by its name alone where results are kept on disk.
template <class... Kernels>
Candidates<Kernels...> candidates(const Kernels&... kernels) {
  using Pointer = std::variant<const Kernels*...>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return Candidates<Kernels...>{{Pointer(std::in_place_index<I>, &kernels)...}, {Candidate{std::string(kernels.name()), ""}...}};
  }(std::index_sequence_for<Kernels...>());
}

/// The fastest candidate.
template <class... Kernels>
class Tuned {
 public:
  Tuned(Candidates<Kernels...> candidates, CandidateTimes times, int baseline)
      : candidates_(std::move(candidates)), times_(std::move(times)), index_(fastest(times_.times, baseline)) {}
  std::size_t index() const { return index_; }
  double milliseconds() const { return times_.times[index_].milliseconds; }
  /// Of all candidates. That of index() is rejected only where it is the baseline, or where all others are rejected or failed.
  const std::vector<CandidateTime>& times() const { return times_.times; }
  /// The times come from disk: nothing ran.
  bool kept() const { return times_.kept; }
  /// run(kernel) with the fastest kernel.
  template <class Run>
  void operator()(Run&& run) const {
    std::visit([&](const auto* kernel) { run(*kernel); }, candidates_.kernels[index_]);
  }

 private:
  Candidates<Kernels...> candidates_;
  CandidateTimes times_;
  std::size_t index_;
};

/// Times run(kernel) for every candidate; `run` launches it on `stream`. A candidate that fails is passed over, and so is one whose
/// kernels spill registers, have their wgmma serialised or their setmaxnreg ignored, unless no other is left (see fastest). With a
/// problem, the result is kept on disk per device, and a later process takes it without running anything.
///
///   auto launch_it = [&](auto& kernel) { launch(stream, kernel, Grid{...}, a, b, c); };
///   auto best = autotune(candidates(matmul<128, 128>, matmul<64, 64>), launch_it, stream, {.problem = "matmul 4096x4096x4096"});
///   best(launch_it);
template <class... Kernels, class Run>
Tuned<Kernels...> autotune(Candidates<Kernels...> candidates, Run&& run, const Stream& stream = Device::best().stream(), const TuningOptions& options = {}) {
  if (!options.problem.empty()) {
    for (std::size_t i = 0; i < candidates.kernels.size(); ++i) {
      std::visit([&]<class K>(const K* kernel) {
        if constexpr (KernelLike<K>) candidates.names[i].identity = identity_of(refer(*kernel));
      }, candidates.kernels[i]);
    }
  }
  auto once = [&](std::size_t i) { std::visit([&](const auto* kernel) { run(*kernel); }, candidates.kernels[i]); };
  CandidateTimes times = time_candidates(
      candidates.names, stream, options, [](void* context, std::size_t i) { (*static_cast<decltype(once)*>(context))(i); }, &once);
  return Tuned<Kernels...>(std::move(candidates), std::move(times), options.baseline);
}

}  // namespace flextile
