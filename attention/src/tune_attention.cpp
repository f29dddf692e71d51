#include <flextile/attention/tune_attention.hpp>

#include "argument_checks.hpp"
#include "attention_problem.hpp"
#include "forward_launch.hpp"
#include "suitable_tiles.hpp"
#include "tuned_kernels.hpp"

namespace flextile {
namespace {

/// What a candidate's run needs.
struct Run {
  const attention::AttentionProblem& problem;
  const AttentionOptions& options;
  const Device& device;
  const std::vector<AttentionConfig>& configs;
  attention::ForwardKernel kernel;

  void operator()(std::size_t candidate) {
    kernel.config = configs[candidate];
    attention::launch_forward(problem, options, device, kernel, *attention::untuned_kernel(kernel).family);
  }
};

}  // namespace

AttentionTuning tune_attention(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                               const AttentionOptions& options, const AttentionTuningOptions& tuning) {
  using namespace attention;
  if (sets_schedule(options))
    refuse("tune_flex_attention", "block_m, block_n, num_warps and stages are what tuning chooses: leave them 0");
  if (score && !score->fragment) score = nullptr;
  const Device device = query.device();
  AttentionProblem p = check_problem(query.handle(), key.handle(), value.handle(), score, mask, options);
  p.mask = suitable_mask(p, options, device);
  const ForwardKernel kernel = kernel_of(p, options, device.target());
  const TuningProblem problem = tuning_problem(kernel, p, device.target());
  Run run{p, options, device, problem.configs, kernel};
  CandidateTimes found = time_candidates(problem.candidates, options.stream ? *options.stream : device.stream(), {.problem = problem.text, .afresh = tuning.afresh, .baseline = own_choice},
                                         [](void* context, std::size_t candidate) { (*static_cast<Run*>(context))(candidate); }, &run);
  const AttentionConfig config = problem.configs[fastest(found.times, own_choice)];
  keep_tuned(problem, device, config);
  return {config, std::move(found.times), problem.text, found.kept};
}

std::string to_string(const AttentionTuning& tuning) {
  return tuning.problem + "\n" + to_string(tuning.times) + "taken: " + to_string(tuning.config) + (tuning.kept ? " (kept from an earlier run)\n" : "\n");
}

}  // namespace flextile
