// How long each of several candidates takes, and which is the fastest: measured, or kept on disk from an earlier process.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <flextile/runtime/stream.hpp>

namespace flextile {

struct KernelReference;

/// One of several ways to do the same work. Both texts together tell it from all others in every process: no addresses.
struct Candidate {
  std::string name;       // for people
  std::string identity;   // 16 hexadecimal digits of a kernel's IR (identity_of), or any stable text without spaces; "": the name says it all
};

/// The identity of a candidate that is a kernel: a hash of its IR, its options included. A kernel that cannot be traced has the hash
/// of its error.
std::string identity_of(const KernelReference& kernel);

/// What one candidate took.
struct CandidateTime {
  std::string name;
  double milliseconds = -1;   // of one run; -1: it failed
  std::string failure;        // why it failed: it does not compile for the device, ...; or why it is rejected: "spills 64 bytes a thread"

  bool failed() const { return milliseconds < 0; }
  /// It ran, but a kernel that it launched has performance_faults.
  bool rejected() const { return !failed() && !failure.empty(); }
};

/// Runs `run` once, so that it compiles, then often enough for the stream's clock, and takes the fastest of three rounds. Kernels that
/// the calling thread launches in the first run are looked at as they are loaded: where one has performance_faults, the candidate
/// is rejected. Not looked at: kernels that a graph replays or that other threads launch.
CandidateTime time_candidate(std::string name, const Stream& stream, void (*run)(void* context), void* context);

/// The index of the shortest time among candidates that are not rejected; where all that ran are, the shortest of those: it computes
/// what it should, and its `failure` says what is wrong with it. The candidate `baseline` counts as not rejected. Throws CompileError
/// that lists the failures where every candidate failed.
std::size_t fastest(const std::vector<CandidateTime>& times, int baseline = -1);
/// One line per candidate, and one more that says so where all that ran are rejected.
std::string to_string(const std::vector<CandidateTime>& times);

struct TuningOptions {
  std::string problem = {};   // what the candidates work on, "matmul 4096x4096x4096 bf16": results are kept on disk under it; "": they are not
  bool afresh = false;        // time the candidates, whatever is kept; so does FLEXTILE_RETUNE=1
  int baseline = -1;          // the candidate that runs where nothing is tuned: taken in spite of its faults where it is the fastest, so
                              // that tuning makes nothing slower; -1: none
};

/// Times of all candidates, in their order.
struct CandidateTimes {
  std::vector<CandidateTime> times;
  bool kept = false;          // read from disk: nothing ran
};

/// The times that are kept for the device, the problem and these candidates; else times run(context, i) for each of them, on
/// `stream`, and keeps the result. See docs/runtime.md for the file. Thread-safe, and safe among processes.
CandidateTimes time_candidates(const std::vector<Candidate>& candidates, const Stream& stream, const TuningOptions& options,
                               void (*run)(void* context, std::size_t candidate), void* context);
/// What time_candidates would read. Empty where nothing (usable) is kept or FLEXTILE_RETUNE=1.
std::vector<CandidateTime> kept_times(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem);

}  // namespace flextile
