// Tuning of attention: what is timed, what is kept, and which calls take it.
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "forward_launch.hpp"
#include "support/attention_case.hpp"
#include "support/cache_folder.hpp"
#include "tuned_kernels.hpp"

using namespace flextile;
using namespace flextile::tests;
using test::CacheFolder;

namespace {

/// A cache folder of the test's own, and nothing known of tuning before and behind it.
struct FreshTuning {
  CacheFolder folder;
  FreshTuning() { attention::forget_tuned(); }
  ~FreshTuning() { attention::forget_tuned(); }
  std::vector<test::fs::path> tunings() const {
    std::vector<test::fs::path> found;
    for (const test::fs::path& file : folder.files())
      if (file.extension() == ".tuning") found.push_back(file);
    return found;
  }
};

struct Inputs {
  Tensor<f32> q, k, v;
  explicit Inputs(std::int64_t q_len = 100, std::int64_t kv_len = 120, std::int64_t heads = 2) {
    const Device host = Device::host();
    q = random_normal<f32>(host, {1, heads, q_len, 32}, 1), k = random_normal<f32>(host, {1, heads, kv_len, 32}, 2), v = random_normal<f32>(host, {1, heads, kv_len, 32}, 3);
  }
};

/// What a call asks for, as the library sees it.
struct Call {
  Inputs in;
  ir::Mod score;
  attention::AttentionProblem problem;
  attention::ForwardKernel kernel;
  template <class Score> Call(const Inputs& inputs, const Score& score_mod, const AttentionOptions& options = {})
      : in(inputs), score(erase_score(score_mod)), problem(attention::check_problem(in.q.handle(), in.k.handle(), in.v.handle(), &score, nullptr, options)),
        kernel(attention::kernel_of(problem, options, Target::host())) {}
  Call(const Call&) = delete;
  attention::TuningProblem tuning() const { return attention::tuning_problem(kernel, problem, Target::host()); }
  AttentionConfig config() const { return attention::choose_kernel(kernel, problem, Device::host()).kernel.config; }
  /// Keeps on disk that candidate number `best` is the fastest.
  void keep(std::size_t best) const {
    auto run = [&](std::size_t i) { std::this_thread::sleep_for(std::chrono::microseconds(i == best ? 100 : 6000)); };
    time_candidates(tuning().candidates, Device::host().stream(), {.problem = tuning().text, .afresh = true},
                    [](void* context, std::size_t i) { (*static_cast<decltype(run)*>(context))(i); }, &run);
    attention::forget_tuned();
  }
};

std::int64_t kernels_loaded() { return cache_statistics().compilations + cache_statistics().disk_hits; }

}  // namespace

TEST_CASE("candidates: the library's choice first, each once, all of them cover a block mask's tile without padding") {
  for (const Target& target : {Target::host(), Target::sm_80(), Target::parse("sm_86"), Target::sm_90a()})
    for (const ElementType element : {ElementType::f32, ElementType::bf16})
      for (const int dim : {16, 64, 80, 128, 192, 256})
        for (const MaskBlock& block : {MaskBlock{0, 0}, MaskBlock{128, 128}, MaskBlock{192, 80}, MaskBlock{192, 128}, MaskBlock{64, 32}, MaskBlock{13, 24}}) {
          const AttentionShape shape{element, dim, dim, block.q, block.kv};
          const std::vector<AttentionConfig> configs = candidate_configs(shape, target);
          CAPTURE(to_string(configs[0]));
          CAPTURE(target.name());
          CHECK(configs[0] == choose_config(shape, target));
          CHECK(configs.size() <= 9);
          std::set<std::string> names;
          for (const AttentionConfig& c : configs) {
            CAPTURE(to_string(c));
            CHECK(names.insert(to_string(c)).second);
            if (&c == configs.data()) continue;
            CHECK(c.row_step == c.block_m);
            CHECK(c.column_step == c.block_n);
            if (block.q) CHECK(c.row_parts * c.block_m == block.q);
            if (block.kv) CHECK(c.column_parts * c.block_n == block.kv);
          }
          if (block == MaskBlock{128, 128}) CHECK(configs.size() > 1);
        }
  CHECK(candidate_configs({ElementType::bf16, 128, 128, 0, 0}, Target::sm_90a()).size() >= 6);
}

TEST_CASE("candidates of sm_90a compile, each as it was asked for or with fewer stages") {
  for (const int dim : {64, 128, 256})
    for (const AttentionConfig& c : candidate_configs({ElementType::bf16, dim, dim, 0, 0}, Target::sm_90a())) {
      CAPTURE(to_string(c));
      const AttentionCompileOptions options{.dim = dim, .block_m = c.block_m, .block_n = c.block_n, .num_warps = c.num_warps, .stages = c.stages};
      CHECK(compile_attention(nullptr, nullptr, options, Target::sm_90a(), {.binary = false}).ptx().find("wgmma.mma_async") != std::string::npos);
    }
}

TEST_CASE("tuning times every candidate, keeps the fastest on disk, and flex_attention takes it") {
  const FreshTuning fresh;
  const Inputs in;
  const AttentionTuning tuning = tune_flex_attention(in.q, in.k, in.v, scores::softcap(7));
  const std::vector<AttentionConfig> configs = candidate_configs({ElementType::f32, 32, 32, 0, 0}, Target::host(), 128);
  REQUIRE(tuning.times.size() == configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i) {
    CHECK(tuning.times[i].name == to_string(configs[i]));
    CHECK(tuning.times[i].milliseconds > 0);
  }
  CHECK(tuning.config == configs[fastest(tuning.times)]);
  CHECK(!tuning.kept);
  CHECK(fresh.tunings().size() == 1);
  CHECK(Call(in, scores::softcap(7)).config() == tuning.config);
  const std::int64_t before = kernels_loaded();
  flex_attention(in.q, in.k, in.v, scores::softcap(7));
  CHECK(kernels_loaded() == before);               // the fastest candidate's kernel is there
  attention::forget_tuned();                       // as another process
  const AttentionTuning again = tune_flex_attention(in.q, in.k, in.v, scores::softcap(7));
  CHECK(again.kept);
  CHECK(again.config == tuning.config);
  CHECK(to_string(again).find("taken: " + to_string(tuning.config) + " (kept from an earlier run)\n") != std::string::npos);
  CHECK(!tune_flex_attention(in.q, in.k, in.v, scores::softcap(7), {}, {.afresh = true}).kept);
}

TEST_CASE("another process takes what is kept for the variant and the class of sizes, and nothing else") {
  const FreshTuning fresh;
  const Inputs in;
  const auto capped = scores::softcap(7);
  const Call call(in, capped);
  const std::vector<AttentionConfig> configs = call.tuning().configs;
  REQUIRE(configs.size() > 3);
  CHECK(call.config() == configs[0]);
  for (const std::size_t best : {std::size_t{2}, std::size_t{3}, std::size_t{0}}) {
    call.keep(best);
    CHECK(call.config() == configs[best]);
    CHECK(call.config() == configs[best]);         // and again, from the thread's memory
  }
  call.keep(3);
  const Inputs near(65, 128), longer(129, 120), more_keys(100, 129), more_heads(100, 120, 3);
  CHECK(Call(near, capped).config() == configs[3]);
  CHECK(Call(longer, capped).config() == configs[0]);
  CHECK(Call(more_keys, capped).config() == configs[0]);
  CHECK(Call(more_heads, capped).config() == configs[0]);
  CHECK(Call(in, scores::softcap(8)).config() == configs[0]);
  CHECK(Call(in, capped, {.return_lse = true}).config() == configs[0]);
  CHECK(Call(in, capped, {.scale = 0.5f}).config() == configs[3]);                // an argument, no part of the variant
  setenv("FLEXTILE_RETUNE", "1", 1);
  attention::forget_tuned();
  CHECK(call.config() == configs[0]);
  unsetenv("FLEXTILE_RETUNE");
  attention::forget_tuned();
  CHECK(call.config() == configs[3]);
}

TEST_CASE("a tuned call computes what it should, and options of its own come before the tuning") {
  const FreshTuning fresh;
  const AttentionSizes sizes{1, 1, 2, 2, 100, 120, 32, 32};
  const AttentionInputs<f32> in(Device::host(), sizes);
  Inputs same;
  same.q = in.q, same.k = in.k, same.v = in.v;
  const auto capped = scores::softcap(5);
  const Call call(same, capped);
  const double scale = 1 / std::sqrt(32.0);
  for (std::size_t best = 0; best < call.tuning().configs.size(); ++best) {
    CAPTURE(to_string(call.tuning().configs[best]));
    attention::keep_tuned(call.tuning(), Device::host(), call.tuning().configs[best]);
    CHECK(call.config() == call.tuning().configs[best]);
    const std::int64_t before = kernels_loaded();
    const Attended<f32> attended = flex_attention(in.q, in.k, in.v, capped);
    CHECK(kernels_loaded() == before + 1);         // a kernel of its own
    check_attended(in, attended, scale, capped, all_visible, Target::host());
  }
  const std::int64_t before = kernels_loaded();
  flex_attention(in.q, in.k, in.v, capped, {.block_n = 16});
  CHECK(kernels_loaded() == before + 1);
  flex_attention(in.q, in.k, in.v, capped, {.block_n = 16});
  CHECK(kernels_loaded() == before + 1);
}

TEST_CASE("a damaged tuning is no tuning, and a mod is known by its program") {
  const FreshTuning fresh;
  const Inputs in;
  const Call call(in, scores::softcap(7));
  call.keep(2);
  REQUIRE(fresh.tunings().size() == 1);
  char key[20];
  std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(call.score.key));
  CHECK(call.tuning().text == "flex_attention f32, head dims 32/32, no mask, score " + std::string(key) + ", exact math; up to 128 queries, 128 keys, 2 heads");
  CHECK(Call(in, scores::softcap(7)).config() == call.tuning().configs[2]);       // another object of the same program
  std::ofstream(fresh.tunings()[0], std::ios::app) << "x";
  attention::forget_tuned();
  CHECK(call.config() == call.tuning().configs[0]);
  flex_attention(in.q, in.k, in.v, scores::softcap(7));
}

TEST_CASE("tuning with a block mask") {
  const FreshTuning fresh;
  const Inputs in(200, 200);
  const BlockMask mask = create_block_mask(masks::causal, {.q_len = 200, .kv_len = 200, .q_block = 64, .kv_block = 64, .device = Device::host()});
  const AttentionTuning tuning = tune_flex_attention(in.q, in.k, in.v, mask);
  CHECK(tuning.config.row_parts * tuning.config.row_step == 64);
  CHECK(tuning.problem.find("in tiles of 64x64") != std::string::npos);
  CHECK(tune_flex_attention(in.q, in.k, in.v, scores::alibi(2), mask).problem != tuning.problem);
  CHECK(tune_flex_attention(in.q, in.k, in.v).problem.find("no mask, no score mod") != std::string::npos);
  CHECK_THROWS_WITH_AS(tune_flex_attention(in.q, in.k, in.v, mask, {.block_m = 32}), "flextile: [tune_flex_attention] block_m, block_n, num_warps and stages are what tuning chooses: leave them 0",
                       ArgumentError);
}

TEST_CASE("the kernel that a call would launch can be looked at, the tuned one too") {
  const FreshTuning fresh;
  const Inputs in;
  const auto capped = scores::softcap(7);
  const Call call(in, capped);
  const std::string before = select_flex_attention(in.q, in.k, in.v, capped).compiled().tile_ir();
  CHECK(select_flex_attention(in.q, in.k, in.v, capped).compiled().explain().starts_with("[flex_attention] block "));
  CHECK(select_flex_attention(in.q, in.k, in.v, capped, {.block_n = 16}).compiled().explain().starts_with("[flex_attention] block "));
  CHECK(before.find("tanh") != std::string::npos);
  attention::keep_tuned(call.tuning(), Device::host(), call.tuning().configs[3]);
  const std::int64_t loaded = kernels_loaded();
  const CompiledKernel& after = select_flex_attention(in.q, in.k, in.v, capped).compiled();
  CHECK(after.tile_ir() != before);
  CHECK(kernels_loaded() == loaded + 1);
  flex_attention(in.q, in.k, in.v, capped);
  CHECK(kernels_loaded() == loaded + 1);                                          // it is the one that is launched
  CHECK(select_flex_attention(in.q, in.k, in.v, capped, {.block_n = 16}).compiled().tile_ir() != after.tile_ir());
  CHECK_THROWS_AS(select_flex_attention(in.q, in.k, Inputs(10, 10).v), ArgumentError);
}

TEST_CASE("threads that call while another tunes") {
  const FreshTuning fresh;
  const Inputs in;
  const Call call(in, scores::softcap(7));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) call.config();
    });
  for (int i = 0; i < 50; ++i) attention::keep_tuned(call.tuning(), Device::host(), call.tuning().configs[static_cast<std::size_t>(i) % 3]);
  for (std::thread& thread : threads) thread.join();
  CHECK(call.config() == call.tuning().configs[49 % 3]);
}
