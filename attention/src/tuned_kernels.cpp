#include "tuned_kernels.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "argument_checks.hpp"
#include "kernel_families.hpp"

namespace flextile::attention {
namespace {

/// Sizes that share a tuning: powers of two that bound the query's and the key's length and the heads of all batches.
using SizeClass = std::array<std::uint8_t, 3>;

std::uint8_t power_above(std::int64_t size) { return static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(size - 1))); }

SizeClass size_class(const AttentionProblem& p) { return {power_above(p.q_len), power_above(p.kv_len), power_above(p.batch * p.heads)}; }

const KernelFamily& family_of(const ForwardKernel& kernel) {
  static auto& families = *new KernelFamilies<ForwardKernel>;      // lives as long as the process: kernels may run until its end
  return families.get(kernel, [&] {
    return KernelFamily("flex_attention", kernel.signature(), [kernel](const std::vector<ir::Parameter>& facts) { return kernel.trace(facts); }, {.note = kernel.describe()});
  });
}

/// What is looked up: who asks for what.
struct Question {
  ForwardKernel kernel;
  SizeClass sizes{};
  int device = 0;
  bool operator==(const Question&) const = default;
  struct Hasher {
    std::size_t operator()(const Question& q) const {
      return static_cast<std::size_t>(Hash().add(q.kernel.hash()).add(q.sizes[0] | q.sizes[1] << 8 | q.sizes[2] << 16).add(static_cast<std::uint64_t>(q.device)).value());
    }
  };
};

struct Choices {
  std::mutex mutex;
  std::unordered_map<Question, std::unique_ptr<const ChosenKernel>, Question::Hasher> answers;
  std::vector<std::unique_ptr<const ChosenKernel>> retired;        // answers that calls may still be using
  std::map<std::pair<int, std::string>, AttentionConfig> tuned;    // by this process: device and problem
  std::atomic<std::uint64_t> epoch{1};                             // changes when answers do
};

Choices& choices() {
  static Choices* const choices = new Choices;
  return *choices;
}

/// With the mutex held.
void forget_answers(Choices& all) {
  for (auto& [question, answer] : all.answers) all.retired.push_back(std::move(answer));
  all.answers.clear();
  all.epoch.fetch_add(1, std::memory_order_release);
}

std::string hexadecimal(std::uint64_t number) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

/// The configuration that was tuned; the kernel's own where none was. With the mutex held.
AttentionConfig tuned_config(const Choices& all, const ForwardKernel& kernel, const AttentionProblem& problem, const Device& device) {
  const TuningProblem asked = tuning_problem(kernel, problem, device.target());
  if (const auto known = all.tuned.find({device.index(), asked.text}); known != all.tuned.end()) return known->second;
  const std::vector<CandidateTime> times = kept_times(asked.candidates, device, asked.text);
  return times.empty() ? kernel.config : asked.configs[fastest(times, own_choice)];
}

}  // namespace

TuningProblem tuning_problem(const ForwardKernel& kernel, const AttentionProblem& p, const Target& target) {
  const AttentionShape& s = kernel.shape;
  const SizeClass sizes = size_class(p);
  const auto bound = [](std::uint8_t power) { return text(std::int64_t{1} << power); };
  TuningProblem problem;
  problem.text = "flex_attention " + std::string(name(s.element)) + ", head dims " + text(s.dim) + "/" + text(s.value_dim);
  problem.text += kernel.listed ? ", mask " + (p.mask->mod() ? hexadecimal(p.mask->mod().key) : "of tables") + " in tiles of " + text(s.q_block) + "x" + text(s.kv_block) : ", no mask";
  problem.text += p.score ? ", score " + hexadecimal(p.score->key) : ", no score mod";
  for (const auto& [is_set, word] : {std::pair{kernel.return_lse, "lse"}, std::pair{kernel.return_max_scores, "max scores"}, std::pair{!kernel.positive_scale, "negative scale"},
                                     std::pair{kernel.tf32, "tf32"}, std::pair{kernel.exact_math, "exact math"}})
    if (is_set) problem.text += std::string(", ") + word;
  problem.text += "; up to " + bound(sizes[0]) + " queries, " + bound(sizes[1]) + " keys, " + bound(sizes[2]) + " heads";
  problem.configs = candidate_configs(s, target, std::int64_t{1} << sizes[0]);
  for (const AttentionConfig& config : problem.configs) problem.candidates.push_back({to_string(config), ""});
  return problem;
}

const ChosenKernel& untuned_kernel(const ForwardKernel& kernel) {
  thread_local ChosenKernel last;
  if (!last.family || !(last.kernel == kernel)) last = {kernel, &family_of(kernel)};
  return last;
}

const ChosenKernel& choose_kernel(const ForwardKernel& kernel, const AttentionProblem& problem, const Device& device) {
  thread_local struct {
    Question question;
    std::uint64_t epoch = 0;
    const ChosenKernel* answer = nullptr;
  } last;
  Choices& all = choices();
  const std::uint64_t epoch = all.epoch.load(std::memory_order_acquire);
  const SizeClass sizes = size_class(problem);
  if (last.epoch == epoch && last.question.sizes == sizes && last.question.device == device.index() && last.question.kernel == kernel) return *last.answer;
  const Question question{kernel, sizes, device.index()};
  const std::lock_guard lock(all.mutex);
  auto& answer = all.answers[question];
  if (!answer) {
    ChosenKernel chosen{kernel, nullptr};
    chosen.kernel.config = tuned_config(all, kernel, problem, device);
    chosen.family = &family_of(chosen.kernel);
    answer = std::make_unique<const ChosenKernel>(chosen);
  }
  last.question = question, last.epoch = epoch, last.answer = answer.get();
  return *last.answer;
}

void keep_tuned(const TuningProblem& problem, const Device& device, const AttentionConfig& config) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  all.tuned[{device.index(), problem.text}] = config;
  forget_answers(all);
}

void forget_tuned() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  all.tuned.clear();
  forget_answers(all);
}

}  // namespace flextile::attention
