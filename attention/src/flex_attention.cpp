// Problem → configuration → kernel → launch.
#include <flextile/attention/flex_attention.hpp>

#include <algorithm>
#include <utility>

#include <flextile/attention/compile.hpp>
#include <flextile/attention/select_attention.hpp>
#include <flextile/runtime/launch.hpp>

#include "argument_checks.hpp"
#include "attention_problem.hpp"
#include "forward_kernel.hpp"
#include "forward_launch.hpp"
#include "mask_arguments.hpp"
#include "mod_arguments.hpp"
#include "mod_weight.hpp"
#include "suitable_tiles.hpp"
#include "tuned_kernels.hpp"

namespace flextile {
namespace attention {
namespace {

struct Schedule {
  int block_m, block_n, num_warps, stages;
};

void check_range(const char* option, int value, int lo, int hi) {
  if (value && (value < lo || value > hi))
    refuse("flex_attention", std::string(option) + " is " + text(value) + ": it must be from " + text(lo) + " to " + text(hi) + ", or 0 for the library's choice");
}

AttentionConfig configure(const AttentionShape& shape, std::int64_t q_len, const Target& target, const Schedule& wish) {
  check_range("block_m", wish.block_m, 16, 256);
  check_range("block_n", wish.block_n, 16, 256);
  check_range("stages", wish.stages, 1, 8);
  if (wish.num_warps && wish.num_warps != 1 && wish.num_warps != 2 && wish.num_warps != 4 && wish.num_warps != 8 && wish.num_warps != 12 && wish.num_warps != 16)
    refuse("flex_attention", "num_warps is " + text(wish.num_warps) + ": it must be 1, 2, 4, 8, 12 or 16, or 0 for the library's choice");
  AttentionConfig config = choose_config(shape, target, wish.block_m, wish.block_n, wish.num_warps, q_len);
  if (wish.stages) config.stages = wish.stages;
  return config;
}

}  // namespace

ForwardKernel kernel_of(const AttentionProblem& p, const AttentionOptions& options, const Target& target) {
  ForwardKernel kernel;
  kernel.shape = {p.query.element, static_cast<int>(p.dim), static_cast<int>(p.value_dim), p.mask ? p.mask->q_block() : 0, p.mask ? p.mask->kv_block() : 0};
  kernel.shape.weight = weight_of(p.score);
  kernel.config = configure(kernel.shape, p.q_len, target, {options.block_m, options.block_n, options.num_warps, options.stages});
  kernel.score = p.score ? p.score->fragment : nullptr;
  kernel.mask = p.mask ? p.mask->mod().fragment : nullptr;
  kernel.listed = p.mask != nullptr;
  kernel.return_lse = options.return_lse;
  kernel.return_max_scores = options.return_max_scores;
  kernel.positive_scale = p.scale > 1e-30f;
  kernel.tf32 = options.tf32 && p.query.element == ElementType::f32;
  kernel.exact_math = options.exact_math || p.query.element == ElementType::f32;
  kernel.clamped = !target.is_gpu();
  return kernel;
}

namespace {

/// (batch, heads, length, dim) with the query's order of strides and unit stride along the last axis.
TensorRef output_like(const ir::TensorHandle& query, std::int64_t value_dim) {
  const Device device = TensorRef(query).device();
  if (query.strides[0] >= query.strides[1] && query.strides[1] >= query.strides[2])
    return empty(query.element, device, {query.sizes[0], query.sizes[1], query.sizes[2], value_dim});
  std::vector<int> order = {0, 1, 2};
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return query.strides[a] > query.strides[b]; });
  TensorShape shape;
  std::vector<int> back(4, 3);
  for (int i = 0; i < 3; ++i) shape.push_back(query.sizes[order[i]]), back[order[i]] = i;
  shape.push_back(value_dim);
  return empty(query.element, device, shape).permute(back);
}

/// How many heads (of all batches) share the device at a time. Rows of a block mask differ in work: over some heads the longest
/// of all go first and the shortest fill the gaps, but the keys and values of these heads must stay in the L2 cache, whose two
/// halves both keep what multiprocessors of both sides read: a third of it was best at all lengths. Without a mask all rows are
/// equal, and one head after the other is best for the cache.
std::int64_t heads_at_once(const AttentionProblem& p, const Device& device) {
  if (!p.mask) return 1;
  constexpr std::int64_t usual_cache = 32 << 20;
  const DeviceProperties& properties = device.properties();
  const std::int64_t heads = p.batch * p.heads, cache = properties.l2_cache ? properties.l2_cache : usual_cache;
  const std::int64_t bytes = p.kv_len * (p.dim + p.value_dim) * byte_size(p.query.element) * p.kv_heads / p.heads;
  const std::int64_t most = std::clamp<std::int64_t>(cache / 3 / std::max<std::int64_t>(bytes, 1), 1, heads);
  // Not so that few are left for the end: 32 heads go by fours rather than by fives, of which two would be last and alone.
  constexpr std::int64_t most_tries = 16;   // each call asks
  auto of_the_last = [&](std::int64_t together) { return (heads - 1) % together + 1; };
  std::int64_t best = most;
  for (std::int64_t fewer = most - 1; of_the_last(best) < best && 2 * fewer >= most && most - fewer <= most_tries; --fewer) {
    if (of_the_last(fewer) * best > of_the_last(best) * fewer) best = fewer;
  }
  return best;
}

/// How many blocks of each head wait until all others have begun, so that multiprocessors finish together: an eighth of them, and
/// a quarter where the heads that go together have less than one and a half blocks for each multiprocessor. (Causal masks, simulated
/// and measured from 1K to 64K: up to 10 % of the time was lost at the end without. Of short rows a quarter is too much: keys and
/// values come from memory once more.)
std::int64_t last_blocks(const AttentionProblem& p, std::int64_t heads_at_once, std::int64_t blocks, const Device& device) {
  if (!p.mask) return 0;
  return heads_at_once * blocks * 2 < device.properties().multiprocessors * 3 ? blocks / 4 : blocks / 8;
}

/// Makes the outputs, and calls use(grid, arguments, how many) while they and the arguments live.
template <class Use>
AttendedRef with_arguments(const AttentionProblem& p, const Device& device, const ForwardKernel& kernel, Use&& use) {
  AttendedRef result;
  result.out = output_like(p.query, p.value_dim);
  const TensorShape rows = {p.batch, p.heads, p.q_len};
  if (kernel.return_lse) result.lse = empty(ElementType::f32, device, rows);
  if (kernel.return_max_scores) result.max_scores = empty(ElementType::f32, device, rows);

  std::vector<Argument> arguments;
  arguments.reserve(17);
  for (const ir::TensorHandle* tensor : {&p.query, &p.key, &p.value, &result.out.handle()}) arguments.emplace_back(*tensor);
  if (kernel.return_lse) arguments.emplace_back(result.lse);
  if (kernel.return_max_scores) arguments.emplace_back(result.max_scores);
  if (p.mask) {
    arguments.emplace_back(p.mask->rows().order);
    arguments.emplace_back(p.mask->rows().entries);
  }
  arguments.emplace_back(p.scale);
  const AttentionConfig& c = kernel.config;
  const std::int64_t blocks = p.mask ? p.mask->q_tiles() * c.row_parts : ceil_div(p.q_len, c.block_m), together = heads_at_once(p, device);
  arguments.emplace_back(static_cast<i32>(together));
  arguments.emplace_back(static_cast<i32>(last_blocks(p, together, blocks, device)));
  if (p.score) append_arguments(arguments, *p.score);
  if (p.mask) append_arguments(arguments, p.mask->mod());

  if (blocks * p.heads > 0x7fffffff / p.batch)
    refuse("flex_attention", "batch " + text(p.batch) + ", " + text(p.heads) + " heads and " + text(blocks) + " blocks of rows make more than 2147483647 programs");
  use(Grid{blocks * p.heads * p.batch}, arguments.data(), arguments.size());
  return result;
}

const ChosenKernel& chosen_kernel(const AttentionProblem& p, const AttentionOptions& options, const Device& device) {
  const ForwardKernel wish = kernel_of(p, options, device.target());
  return sets_schedule(options) ? untuned_kernel(wish) : choose_kernel(wish, p, device);
}

/// What is asked for, and the kernel that does it.
struct Call {
  Call(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask, const AttentionOptions& options)
      : device(query.device()), problem(check_problem(query.handle(), key.handle(), value.handle(), score && score->fragment ? score : nullptr, mask, options)) {
    problem.mask = suitable_mask(problem, options, device);
    chosen = &chosen_kernel(problem, options, device);
  }
  Device device;
  AttentionProblem problem;
  const ChosenKernel* chosen = nullptr;
};

}  // namespace

AttendedRef launch_forward(const AttentionProblem& p, const AttentionOptions& options, const Device& device, const ForwardKernel& kernel, const KernelFamily& family) {
  return with_arguments(p, device, kernel, [&](const Grid& grid, const Argument* arguments, std::size_t count) {
    launch(options.stream ? *options.stream : device.stream(), family, grid, arguments, count);
  });
}

}  // namespace attention

AttendedRef attend(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                   const AttentionOptions& options) {
  const attention::Call call(query, key, value, score, mask, options);
  return launch_forward(call.problem, options, call.device, call.chosen->kernel, *call.chosen->family);
}

LoadedKernel select_attention(const TensorRef& query, const TensorRef& key, const TensorRef& value, const ir::Mod* score, const BlockMask* mask,
                              const AttentionOptions& options) {
  const attention::Call call(query, key, value, score, mask, options);
  LoadedKernel loaded;
  attention::with_arguments(call.problem, call.device, call.chosen->kernel, [&](const Grid&, const Argument* arguments, std::size_t count) {
    loaded = select(call.device, refer(*call.chosen->family), arguments, count);
  });
  return loaded;
}

namespace attention {
namespace {

/// The kernel that compile_flex_attention looks at.
ForwardKernel requested_kernel(const ir::Mod* score, const ir::Mod* mask, const AttentionCompileOptions& options, const Target& target) {
  auto check = [](const char* option, int value, int lo, int hi) {
    if (value < lo || value > hi) refuse("compile_flex_attention", std::string(option) + " is " + text(value) + ": it must be from " + text(lo) + " to " + text(hi));
  };
  check("dim", options.dim, 1, 256);
  check("value_dim", options.value_dim ? options.value_dim : options.dim, 1, 256);
  if (options.q_block) check("q_block", options.q_block, 8, 256);
  if (options.kv_block) check("kv_block", options.kv_block, 8, 256);
  if (options.q_len < 0 || options.q_len > longest) refuse("compile_flex_attention", "q_len is " + text(options.q_len) + ": it must be from 0 to " + text(longest));
  if (options.element != ElementType::f32 && options.element != ElementType::f16 && options.element != ElementType::bf16)
    refuse("compile_flex_attention", "element is " + std::string(name(options.element)) + ": it must be f32, f16 or bf16");
  ForwardKernel kernel;
  kernel.shape = {.element = options.element, .dim = options.dim, .value_dim = options.value_dim ? options.value_dim : options.dim, .weight = weight_of(score)};
  if (mask) {
    const bool left_open = !options.q_block && !options.kv_block && !sets_schedule(options);
    const MaskBlock tiles = given_block(options, left_open && may_take_other_tiles(*mask) ? suitable_tiles(kernel.shape, target, options.q_len) : MaskBlock{});
    kernel.shape.q_block = tiles.q, kernel.shape.kv_block = tiles.kv;
  }
  kernel.config = configure(kernel.shape, options.q_len, target, {options.block_m, options.block_n, options.num_warps, options.stages});
  kernel.score = score ? score->fragment : nullptr;
  kernel.mask = mask ? mask->fragment : nullptr;
  kernel.listed = mask != nullptr;
  kernel.return_lse = options.return_lse;
  kernel.return_max_scores = options.return_max_scores;
  kernel.tf32 = options.tf32 && options.element == ElementType::f32;
  kernel.exact_math = options.exact_math || options.element == ElementType::f32;
  kernel.clamped = !target.is_gpu();
  return kernel;
}

/// Arguments are aligned, with unit stride; captured tensors are what they are.
ir::Function trace_aligned(const ForwardKernel& kernel, const ir::Mod* score, const ir::Mod* mask) {
  std::vector<ir::Parameter> facts = kernel.signature();
  for (ir::Parameter& parameter : facts) {
    parameter.aligned = parameter.type.is_view() || parameter.type.is_pointer();
    parameter.unit_stride = parameter.type.is_view();
  }
  std::size_t place = facts.size();
  for (const auto& [mod, indices] : {std::pair{mask, mask_indices}, {score, score_indices}}) {
    if (!mod || !mod->fragment) continue;
    place -= mod->fragment->parameters.size() - indices;
    for (std::size_t i = 0; i < mod->tensors.size(); ++i) {
      facts[place + i].aligned = is_aligned(mod->tensors[i]);
      facts[place + i].unit_stride = has_unit_stride(mod->tensors[i]);
    }
  }
  return kernel.trace(facts);
}

}  // namespace
}  // namespace attention

ir::Function trace_attention(const ir::Mod* score, const ir::Mod* mask, const AttentionCompileOptions& options, const Target& target) {
  return attention::trace_aligned(attention::requested_kernel(score, mask, options, target), score, mask);
}

CompiledKernel compile_attention(const ir::Mod* score, const ir::Mod* mask, const AttentionCompileOptions& options, const Target& target,
                                 const CompileOptions& compile_options) {
  const attention::ForwardKernel kernel = attention::requested_kernel(score, mask, options, target);
  CompileOptions noted = compile_options;
  noted.note = kernel.describe();
  return compile(attention::trace_aligned(kernel, score, mask), target, noted);
}

}  // namespace flextile
