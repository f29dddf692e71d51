// Results of tuning as text, in the cache folder: <32 hexadecimal digits>.tuning.
//
//   flextile tuning 1
//   device NVIDIA H200, sm_90a, 132 multiprocessors
//   driver 13000
//   library flextile 0.1.0, LLVM 22.1.8, nvJitLink 13.0 (...)
//   problem matmul 4096x4096x4096
//   > 0.171234 ms 5d1c0f6e8a7b9c01 matmul                              taken
//   - 0.201000 ms 01c0f6e8a7b9c5d1 matmul
//   - 0.160000 ms 77c0f6e8a7b9c5d1 matmul: spills 64 bytes a thread     rejected
//   - failed 88c0f6e8a7b9c5d1 matmul: flextile: compile error ...       line breaks as \n
//   checksum 0123456789abcdef                                           of all lines above
//
// The name is a hash of device, problem and candidates. What does not read as written, or was written by another driver or library, is
// no result.
#pragma once
#include <string_view>
#include <vector>

#include <flextile/runtime/candidate_times.hpp>

namespace flextile::runtime {

/// Empty where nothing usable is kept, or FLEXTILE_RETUNE=1.
std::vector<CandidateTime> read_tuning(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem);
/// `best` is marked. Failures of the file system only cost the file.
void write_tuning(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem, const std::vector<CandidateTime>& times,
                  std::size_t best);

}  // namespace flextile::runtime
