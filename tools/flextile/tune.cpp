#include <cstdio>

#include <flextile/attention/catalogue.hpp>
#include <flextile/attention/select_attention.hpp>
#include <flextile/attention/tune_attention.hpp>
#include <flextile/runtime/random.hpp>

#include "commands.hpp"
#include "options.hpp"

namespace tool {
namespace {

const std::vector<std::string> half_elements = {"f16", "bf16"};

std::vector<Option> tune_options() {
  return {
      {"--mask", "NAME[:NUMBER]", "", "mask mod of the catalogue; none: every key is visible"},
      {"--score", "NAME[:NUMBER]", "", "score mod of the catalogue"},
      {"--dim", "N", "128", "head dim, 1 to 256"},
      {"--element", "TYPE", "bf16", "f16 or bf16"},
      {"--length", "N", "8192", "positions of query and key"},
      {"--heads", "N", "16", "heads of query and key"},
      {"--batch", "N", "1", "batches"},
      {"--block", "N", "", "rows and columns of the block mask's tile, 8 to 256; the device's best where it is not given"},
      {"--device", "NAME", "", "host, cuda, cuda:1; the first GPU, or the host, where it is not given"},
      {"--afresh", "", "", "time again what was kept on disk"},
  };
}

/// What is printed: the times, and the kernel that was taken.
template <flextile::Element T>
std::string tune_on(const flextile::Device& device, const Options& options, const flextile::ir::Mod* score, const flextile::ir::Mod* mask) {
  const std::int64_t batch = options.number("--batch", 1), heads = options.number("--heads", 1), length = options.number("--length", 1);
  const int dim = options.number("--dim", 1);
  const auto make = [&](std::uint64_t seed) { return flextile::random_normal<T>(device, {batch, heads, length, dim}, seed); };
  const auto q = make(1), k = make(2), v = make(3);
  flextile::BlockMask block_mask;
  if (mask) {
    flextile::BlockMaskOptions tiles{.q_len = length, .kv_len = length, .head_dim = dim, .element = flextile::element_type_of<T>, .device = device};
    if (options.given("--block")) tiles.head_dim = 0, tiles.q_block = tiles.kv_block = options.number("--block", 1);
    if (mask->reads_batch) tiles.batch = batch;
    if (mask->reads_head) tiles.heads = heads;
    block_mask = flextile::build_block_mask(*mask, tiles);
  }
  const flextile::BlockMask* const given = mask ? &block_mask : nullptr;
  const flextile::AttentionTuning tuning = flextile::tune_attention(q, k, v, score, given, {}, {.afresh = options.given("--afresh")});
  return to_string(tuning) + flextile::select_attention(q, k, v, score, given, {}).compiled().explain();
}

}  // namespace

std::string tune_help() {
  return R"(usage: flextile tune flex_attention [OPTIONS]

Times a few configurations of the attention kernel on a device and keeps the fastest in the cache folder: flex_attention takes it from
then on, for this variant and sizes up to the next power of two. Mods that read captured tensors are not tuned here: call tune_flex_attention.

options
)" + option_table(tune_options()) +
         R"(
examples
  flextile tune flex_attention --mask causal --dim 128 --length 8192 --heads 16
  flextile tune flex_attention --score softcap:20 --dim 64 --afresh
)";
}

int tune(const std::vector<std::string>& arguments) {
  const Options options("tune", tune_options(), arguments);
  if (options.positional().size() != 1 || options.positional()[0] != "flex_attention")
    throw UsageError{"tune takes the name of one kernel, flex_attention; flextile tune --help says more"};
  flextile::ir::Mod mask, score;
  if (options.given("--mask")) mask = flextile::named_mask(options.text("--mask"));
  if (options.given("--score")) score = flextile::named_score(options.text("--score"));
  if (!mask.tensors.empty() || !score.tensors.empty()) throw UsageError{"tune: a mod that reads captured tensors is tuned in the program that has them, by tune_flex_attention"};
  const flextile::Device device = options.given("--device") ? flextile::Device::parse(options.text("--device")) : flextile::Device::best();
  const auto run = options.choice("--element", half_elements) == "f16" ? tune_on<flextile::f16> : tune_on<flextile::bf16>;
  const std::string found = run(device, options, score ? &score : nullptr, mask ? &mask : nullptr);
  std::printf("%s: %s", device.properties().name.c_str(), found.c_str());
  return 0;
}

}  // namespace tool
