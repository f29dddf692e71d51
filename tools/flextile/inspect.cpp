#include <cstdio>

#include <flextile/attention/catalogue.hpp>
#include <flextile/attention/compile.hpp>

#include "commands.hpp"
#include "emit.hpp"

namespace tool {

namespace {

const std::vector<std::string> kernels = {"flex_attention"};
const std::vector<std::string> elements = {"f32", "f16", "bf16"};

std::vector<Option> inspect_options() {
  std::vector<Option> options = {
      {"--mask", "NAME[:NUMBER]", "", "mask mod of the catalogue; none: every key is visible"},
      {"--score", "NAME[:NUMBER]", "", "score mod of the catalogue"},
      {"--dim", "N", "128", "head dim of query and key, 1 to 256"},
      {"--value-dim", "N", "", "head dim of value, where it differs"},
      {"--element", "TYPE", "bf16", "f32, f16 or bf16"},
      {"--length", "N", "", "positions of query and key: the kernel for calls of so many, which may take a mask in other tiles; else for any number"},
      {"--block", "N", "", "rows and columns of the block mask's tile, 8 to 256; 128 where neither is given"},
      {"--lse", "", "", "the kernel also returns the logarithm of each row's sum"},
  };
  for (Option& option : emit_options()) options.push_back(std::move(option));
  return options;
}

std::string list(const char* title, const std::vector<std::string>& names) {
  std::string text = title;
  for (const std::string& name : names) text += " " + name;
  return text + "\n";
}

flextile::AttentionCompileOptions attention_options(const Options& options) {
  flextile::AttentionCompileOptions attention;
  attention.dim = options.number("--dim", 1);
  if (options.given("--value-dim")) attention.value_dim = options.number("--value-dim", 1);
  if (options.given("--length")) attention.q_len = options.number("--length", 1);
  if (options.given("--block")) attention.q_block = attention.kv_block = options.number("--block", 1);
  attention.return_lse = options.given("--lse");
  const std::string& element = options.choice("--element", elements);
  attention.element = element == "f32" ? flextile::ElementType::f32 : element == "f16" ? flextile::ElementType::f16 : flextile::ElementType::bf16;
  return attention;
}

}  // namespace

std::string inspect_help() {
  return R"(usage: flextile inspect flex_attention [OPTIONS]

Compiles the attention kernel for a mask, a score mod and a target, and prints one stage of it. No device is needed.

options
)" + option_table(inspect_options()) +
         "\n" + list("masks: ", flextile::mask_names()) + list("scores:", flextile::score_names()) + R"(
examples
  flextile inspect flex_attention --mask causal --dim 128 --target sm_80 --emit tile        the program as the compiler reads it
  flextile inspect flex_attention --mask causal --emit passes                               the passes that run
  flextile inspect flex_attention --mask causal --emit tile_after:PASS                      what one of them made
  flextile inspect flex_attention --score alibi --dim 64 --element f16 --emit ptx           what the GPU is given
  flextile inspect flex_attention --mask sliding_window:1024 --emit resources               registers, spills, shared memory
  flextile inspect flex_attention --mask causal --target host --emit llvm                   the host's code
)";
}

int inspect(const std::vector<std::string>& arguments) {
  const Options options("inspect", inspect_options(), arguments);
  if (options.positional().size() != 1)
    throw UsageError{"inspect takes the name of one kernel, " + join(kernels) + ", but got " + std::to_string(options.positional().size()) +
                     "; flextile inspect --help says more"};
  const std::string& kernel = options.positional()[0];
  if (kernel != kernels[0]) {
    const std::string meant = nearest(kernel, kernels);
    throw UsageError{"inspect: unknown kernel '" + kernel + "'; " + (meant.empty() ? "it knows " + join(kernels) : "did you mean " + meant + "?")};
  }
  const flextile::AttentionCompileOptions attention = attention_options(options);
  flextile::ir::Mod mask, score;
  if (options.given("--mask")) mask = flextile::named_mask(options.text("--mask"));
  if (options.given("--score")) score = flextile::named_score(options.text("--score"));
  const flextile::CompiledKernel compiled =
      flextile::compile_attention(score ? &score : nullptr, mask ? &mask : nullptr, attention, target_of(options), {.keep_stages = wants_stages(options), .binary = wants_binary(options)});
  const std::string shown = emitted(compiled, options);
  std::printf("%s%s", shown.c_str(), shown.ends_with("\n") ? "" : "\n");
  return 0;
}

}  // namespace tool
