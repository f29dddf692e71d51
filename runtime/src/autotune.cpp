#include <flextile/runtime/autotune.hpp>

#include <cstdio>

#include <flextile/ir/error.hpp>

namespace flextile {

CandidateTime time_candidate(std::string name, const Stream& stream, void (*run)(void* context), void* context) {
  constexpr double round_milliseconds = 5;
  CandidateTime time{std::move(name), -1, ""};
  try {
    Timer timer(stream);
    run(context);
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
  } catch (const CompileError& error) {
    time.failure = error.what();
  } catch (const DriverError& error) {
    time.failure = error.what();
  }
  return time;
}

std::size_t fastest(const std::vector<CandidateTime>& times) {
  if (times.empty()) throw ArgumentError("flextile: autotune: there is no candidate");
  std::size_t best = times.size();
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i].milliseconds >= 0 && (best == times.size() || times[i].milliseconds < times[best].milliseconds)) best = i;
  if (best == times.size()) throw CompileError("flextile: autotune: every candidate failed\n" + to_string(times));
  return best;
}

std::string to_string(const std::vector<CandidateTime>& times) {
  std::string text;
  for (const CandidateTime& time : times) {
    char number[40];
    std::snprintf(number, sizeof number, "%10.4f ms  ", time.milliseconds);
    text += (time.milliseconds >= 0 ? std::string(number) + time.name : "    failed     " + time.name + ": " + time.failure) + "\n";
  }
  return text;
}

}  // namespace flextile
