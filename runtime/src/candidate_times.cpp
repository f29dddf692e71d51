#include <flextile/runtime/candidate_times.hpp>

#include <cstdio>
#include <utility>

#include <flextile/ir/error.hpp>

#include "launch_watch.hpp"
#include "tuning_file.hpp"

namespace flextile {
namespace {

/// What is wrong with the kernels that were launched; a kernel is named where there are several.
std::string faults_of(const std::vector<const runtime::KernelRecord*>& kernels) {
  std::string text;
  for (const runtime::KernelRecord* kernel : kernels) {
    for (const std::string& fault : performance_faults(kernel->compiled->resource_usage))
      text += (text.empty() ? "" : "; ") + (kernels.size() > 1 ? kernel->compiled->kernel_name + " " : "") + fault;
  }
  return text;
}

}  // namespace

CandidateTime time_candidate(std::string name, const Stream& stream, void (*run)(void* context), void* context) {
  constexpr double round_milliseconds = 5;
  CandidateTime time{std::move(name), -1, ""};
  try {
    Timer timer(stream);
    std::string faults;
    {
      const runtime::LaunchWatch watch;
      run(context);
      faults = faults_of(watch.kernels());
    }
    stream.synchronize();
    timer.start();
    run(context);
    const double estimate = timer.stop();
    const int runs = estimate > round_milliseconds ? 1 : estimate <= 0 ? 100 : 1 + static_cast<int>(round_milliseconds / estimate);
    double best = -1;
    for (int round = 0; round < 3; ++round) {
      timer.start();
      for (int i = 0; i < runs; ++i) run(context);
      const double each = timer.stop() / runs;
      if (best < 0 || each < best) best = each;
    }
    time.milliseconds = best;
    time.failure = faults;
  } catch (const CompileError& error) {
    time.failure = error.what();
  } catch (const DriverError& error) {
    time.failure = error.what();
  }
  return time;
}

std::size_t fastest(const std::vector<CandidateTime>& times, int baseline) {
  if (times.empty()) throw ArgumentError("flextile: autotune: there is no candidate");
  const std::size_t none = times.size();
  std::size_t best = none;
  auto is_rejected = [&](std::size_t i) { return times[i].rejected() && static_cast<int>(i) != baseline; };
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].failed()) continue;
    const bool other_kind = best != none && is_rejected(i) != is_rejected(best);
    if (best == none || (other_kind ? is_rejected(best) : times[i].milliseconds < times[best].milliseconds)) best = i;
  }
  if (best == none) throw CompileError("flextile: autotune: every candidate failed\n" + to_string(times));
  return best;
}

std::string to_string(const std::vector<CandidateTime>& times) {
  std::string text;
  std::size_t ran = 0, rejected = 0;
  for (const CandidateTime& time : times) {
    ran += !time.failed(), rejected += time.rejected();
    char number[40];
    std::snprintf(number, sizeof number, "%10.4f ms  ", time.milliseconds);
    text += time.failed() ? "    failed     " + time.name + ": " + time.failure : std::string(number) + time.name + (time.rejected() ? ", rejected: " + time.failure : "");
    text += "\n";
  }
  if (ran > 0 && rejected == ran) text += "every candidate that ran is rejected; the fastest of them is taken\n";
  return text;
}

std::vector<CandidateTime> kept_times(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem) {
  return runtime::read_tuning(candidates, device, problem);
}

CandidateTimes time_candidates(const std::vector<Candidate>& candidates, const Stream& stream, const TuningOptions& options,
                               void (*run)(void* context, std::size_t candidate), void* context) {
  const Device device = stream.device();
  CandidateTimes result;
  if (!options.problem.empty() && !options.afresh) result.times = runtime::read_tuning(candidates, device, options.problem);
  result.kept = !result.times.empty();
  if (result.kept) return result;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto once = [&] { run(context, i); };
    result.times.push_back(time_candidate(candidates[i].name, stream, [](void* one) { (*static_cast<decltype(once)*>(one))(); }, &once));
  }
  const std::size_t best = fastest(result.times, options.baseline);   // throws where there is nothing to keep
  if (!options.problem.empty()) runtime::write_tuning(candidates, device, options.problem, result.times, best);
  return result;
}

}  // namespace flextile
