// Which configuration a call gets: the one that tuning kept for its variant, class of sizes and device, else the library's own.
#pragma once
#include <string>
#include <vector>

#include <flextile/runtime/candidate_times.hpp>
#include <flextile/runtime/kernel_family.hpp>

#include "attention_problem.hpp"
#include "forward_kernel.hpp"

namespace flextile::attention {

/// Lives until the process ends.
struct ChosenKernel {
  ForwardKernel kernel;
  const KernelFamily* family = nullptr;
};

/// The candidate that is the library's own choice: never slower for being tuned.
inline constexpr int own_choice = 0;

/// What tuning is for: the variant (all of `kernel` but its configuration) and the class of sizes.
struct TuningProblem {
  std::string text;                          // in words, the same in every process
  std::vector<AttentionConfig> configs;      // candidate_configs of the class
  std::vector<Candidate> candidates;         // the same, for the runtime
};
TuningProblem tuning_problem(const ForwardKernel& kernel, const AttentionProblem& problem, const Target& target);

/// The kernel as it is.
const ChosenKernel& untuned_kernel(const ForwardKernel& kernel);
/// The kernel, or the same with the configuration that was tuned: by this process (keep_tuned), or read from disk when its variant and
/// class of sizes are first seen. A call that repeats its thread's last one locks and hashes nothing. Thread-safe.
const ChosenKernel& choose_kernel(const ForwardKernel& kernel, const AttentionProblem& problem, const Device& device);
/// From now on, choose_kernel gives this configuration for the problem.
void keep_tuned(const TuningProblem& problem, const Device& device, const AttentionConfig& config);
/// Forgets what this process knows of tuning, so that choose_kernel looks at the disk again. For tests.
void forget_tuned();

}  // namespace flextile::attention
