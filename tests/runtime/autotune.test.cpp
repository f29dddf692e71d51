#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "kernel_file.hpp"
#include "kernels.hpp"
#include "support/cache_folder.hpp"
#include "tuning_file.hpp"

using namespace flextile;
using test::AddScaled, test::CacheFolder, test::in_processes;

namespace {

/// A kernel for autotune is anything with a name.
struct Sleeper {
  std::string label;
  int milliseconds;
  const std::string& name() const { return label; }
};
struct Broken {
  std::string_view name() const { return "broken"; }
};

/// Sleeps as long as the candidate says, and counts.
struct Runs {
  int* count;
  void operator()(const Sleeper& kernel) const {
    ++*count;
    std::this_thread::sleep_for(std::chrono::milliseconds(kernel.milliseconds));
  }
};

std::string text_of(const test::fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// The best of two sleepers for a problem, and how often they ran.
struct Tuning {
  explicit Tuning(const std::string& problem, bool afresh = false, int slow_takes = 4) {
    const Sleeper slow{"slow", slow_takes}, quick{"quick", 1};
    const auto best = autotune(candidates(slow, quick), Runs{&runs}, Device::host().stream(), {.problem = problem, .afresh = afresh});
    index = best.index(), kept = best.kept(), times = best.times();
  }
  int runs = 0;
  std::size_t index = 0;
  bool kept = false;
  std::vector<CandidateTime> times;
};

}  // namespace

TEST_CASE("autotune picks the fastest candidate and passes over those that fail") {
  const Sleeper slow{"slow", 20}, quick{"quick", 1};
  const Broken broken;
  const auto run = [](const auto& kernel) {
    if constexpr (requires { kernel.milliseconds; })
      std::this_thread::sleep_for(std::chrono::milliseconds(kernel.milliseconds));
    else
      throw CompileError("it does not compile");
  };
  const auto best = autotune(candidates(slow, broken, quick), run, Device::host().stream());
  CHECK(best.index() == 2);
  CHECK((best.milliseconds() >= 1 && best.milliseconds() < 20));
  CHECK(best.times()[1].failure == "it does not compile");
  CHECK(to_string(best.times()).find("failed     broken: it does not compile") != std::string::npos);
  int ran = 0;
  best([&](const auto& kernel) { ran += kernel.name() == "quick"; });
  CHECK(ran == 1);
  CHECK_SENTENCE(CompileError, "every candidate failed", autotune(candidates(broken), run, Device::host().stream()));
  CHECK_THROWS_AS(autotune(candidates(quick), [](const auto&) { throw ArgumentError("wrong"); }, Device::host().stream()), ArgumentError);
}

TEST_CASE("candidates that are rejected come last, and are taken where no other ran") {
  const CandidateTime spills{"spills", 1, "spills 8 bytes a thread"}, clean{"clean", 5, ""}, slower{"slower", 7, ""}, failed{"failed", -1, "no"};
  const CandidateTime serialised{"serialised", 0.5, "C7512: wgmma"};
  CHECK(fastest({spills, clean, slower, failed}) == 1);
  CHECK(fastest({slower, serialised, clean}) == 2);
  CHECK(fastest({failed, spills, serialised}) == 2);
  CHECK_THROWS_AS(fastest({failed}), CompileError);
  CHECK(fastest({spills, clean}, 0) == 0);        // what would run anyway, and is faster
  CHECK(fastest({clean, spills}, 0) == 0);
  CHECK(fastest({serialised, spills, clean}, 1) == 1);
  CHECK(fastest({CandidateTime{"spills", 6, "spills 8 bytes a thread"}, clean, slower}, 0) == 1);
  CHECK(to_string({spills, clean}).find("    1.0000 ms  spills, rejected: spills 8 bytes a thread\n") != std::string::npos);
  CHECK(to_string({spills, clean}).find("every candidate") == std::string::npos);
  CHECK(to_string({failed, spills}).find("every candidate that ran is rejected; the fastest of them is taken") != std::string::npos);
}

TEST_CASE("a baseline is taken in spite of its faults, and marked so in the file") {
  const CacheFolder folder;
  std::vector<CandidateTime> given = {{"own", 1, "spills 8 bytes a thread"}, {"other", 2, ""}};
  const std::vector<Candidate> names = {{"own", ""}, {"other", ""}};
  for (const int baseline : {-1, 0}) {
    runtime::write_tuning(names, Device::host(), "p", given, fastest(given, baseline));
    const std::string text = text_of(folder.files().at(0));
    CHECK(text.find(baseline == 0 ? "\n> 1.000000 ms - own: spills 8 bytes a thread\n- 2.0" : "\n- 1.000000 ms - own: spills 8 bytes a thread\n> 2.0") != std::string::npos);
    CHECK(fastest(kept_times(names, Device::host(), "p"), baseline) == (baseline == 0 ? 0 : 1));
  }
}

TEST_CASE("what autotune found is kept on disk under its problem, and taken without running anything") {
  const CacheFolder folder;
  const Tuning first("squares of 4");
  CHECK(!first.kept);
  CHECK(first.runs > 2);
  CHECK(first.index == 1);
  REQUIRE(folder.files().size() == 1);
  CHECK(folder.files()[0].extension() == ".tuning");
  const Tuning again("squares of 4");
  CHECK(again.kept);
  CHECK(again.runs == 0);
  CHECK(again.index == 1);
  REQUIRE(again.times.size() == 2);
  CHECK(again.times[0].name == "slow");
  CHECK(again.times[0].milliseconds == doctest::Approx(first.times[0].milliseconds).epsilon(0.01));
  CHECK(!Tuning("squares of 8").kept);
  CHECK(folder.files().size() == 2);
  CHECK(!Tuning("", false).kept);           // without a problem nothing is kept
  CHECK(folder.files().size() == 2);
}

TEST_CASE("kept results are readable: one line per candidate, the fastest marked") {
  const CacheFolder folder;
  const Sleeper slow{"slow", 3}, quick{"quick\nof two lines", 1};
  const Broken broken;
  const auto run = [](const auto& kernel) {
    if constexpr (requires { kernel.milliseconds; }) std::this_thread::sleep_for(std::chrono::milliseconds(kernel.milliseconds));
    else throw CompileError("it does not\ncompile: \\");
  };
  autotune(candidates(slow, broken, quick), run, Device::host().stream(), {.problem = "three"});
  REQUIRE(folder.files().size() == 1);
  const std::string text = text_of(folder.files()[0]);
  CAPTURE(text);
  CHECK(text.starts_with("flextile tuning 1\ndevice " + Device::host().properties().name + ", host, " + std::to_string(host_threads()) + " threads\ndriver 0\nlibrary "));
  CHECK(text.find("\nproblem three\n") != std::string::npos);
  CHECK(text.find(" ms - slow\n") != std::string::npos);
  CHECK(text.find("\n- failed - broken: it does not\\ncompile: \\\\\n") != std::string::npos);
  CHECK(text.find("\n> ") < text.find(" ms - quick\\nof two lines\nchecksum "));
  const auto again = autotune(candidates(slow, broken, quick), run, Device::host().stream(), {.problem = "three"});
  CHECK(again.kept());
  CHECK(again.times()[1].failure == "it does not\ncompile: \\");
  CHECK(again.times()[2].name == quick.label);
}

TEST_CASE("a tuning that is damaged, of another version or of other candidates is made again") {
  const CacheFolder folder;
  Tuning("squares");
  REQUIRE(folder.files().size() == 1);
  const test::fs::path file = folder.files()[0];
  const std::string good = text_of(file);
  const auto checks = [&](const std::string& text) {
    CAPTURE(text);
    std::ofstream(file) << text;
    const Tuning again("squares");
    CHECK(!again.kept);
    CHECK(again.runs > 2);
    CHECK(again.index == 1);
    CHECK(Tuning("squares").kept);          // replaced
  };
  checks("");
  checks(good.substr(0, good.size() / 2));
  checks(good.substr(0, good.size() - 2));
  for (const char* part : {"squares", "> ", "library ", "slow", " ms "}) {   // one letter elsewhere
    std::string changed = good;
    changed[changed.find(part)] ^= 1;
    checks(changed);
  }
  checks(good + good);
  const Sleeper slow{"slow", 4}, other{"other", 1};
  int runs = 0;
  CHECK(!autotune(candidates(slow, other), Runs{&runs}, Device::host().stream(), {.problem = "squares"}).kept());
  CHECK(folder.files().size() == 2);        // both lists of candidates have a file
  CHECK(Tuning("squares").kept);
}

TEST_CASE("a tuning by another library is stale, whatever its checksum") {
  const CacheFolder folder;
  Tuning("squares");
  const test::fs::path file = folder.files().at(0);
  std::string text = text_of(file);
  text.replace(text.find("flextile 0"), 10, "flextile 9");
  text = text.substr(0, text.rfind("checksum "));
  char sum[40];
  std::snprintf(sum, sizeof sum, "checksum %016llx\n", static_cast<unsigned long long>(runtime::hash_bytes(text, 5)));
  std::ofstream(file) << text << sum;
  CHECK(!Tuning("squares").kept);
  CHECK(Tuning("squares").kept);
}

TEST_CASE("tuning afresh: by option, by FLEXTILE_RETUNE, and where nothing is kept on disk") {
  const CacheFolder folder;
  Tuning("squares");
  CHECK(!Tuning("squares", true).kept);
  setenv("FLEXTILE_RETUNE", "1", 1);
  CHECK(!Tuning("squares").kept);
  setenv("FLEXTILE_RETUNE", "yes", 1);
  CHECK_SENTENCE(ArgumentError, "FLEXTILE_RETUNE is \"yes\" and must be 0", Tuning("squares"));
  unsetenv("FLEXTILE_RETUNE");
  CHECK(Tuning("squares").kept);
  setenv("FLEXTILE_CACHE", "0", 1);
  CHECK(!Tuning("squares").kept);
  unsetenv("FLEXTILE_CACHE");
}

TEST_CASE("results of tuning count as files of the cache folder") {
  const CacheFolder folder;
  Tuning("squares");
  setenv("FLEXTILE_CACHE_LIMIT", "0", 1);
  Tuning("circles");                        // what is written beyond the limit goes, and what is older too
  unsetenv("FLEXTILE_CACHE_LIMIT");
  CHECK(folder.files().empty());
}

TEST_CASE("a host with another number of threads is another device") {
  const CacheFolder folder;
  const int threads = host_threads();
  Tuning("squares");
  set_host_threads(threads + 1);
  CHECK(!Tuning("squares").kept);
  set_host_threads(threads);
  CHECK(Tuning("squares").kept);
}

TEST_CASE("many processes tune one problem at once") {
  const CacheFolder folder;
  in_processes(4, [](int) {
    for (int i = 0; i < 3; ++i)
      if (Tuning("squares", true).index != 1) return false;
    return Tuning("squares").kept;
  });
  CHECK(folder.files().size() == 1);        // and no temporary file
  CHECK(Tuning("squares").kept);
}

TEST_CASE("a kernel is known by its IR: one that was changed under its name is another candidate") {
  const CacheFolder folder;
  const Device host = Device::host();
  const Tensor<f32> x = full<f32>(host, {8}, 2), out = zeros<f32>(host, {8});
  const auto launch_it = [&](const auto& kernel) { launch(host.stream(), kernel, Grid{1}, x, x, out, 8, 3.0f); };
  const auto tune = [&](const AddScaled& a, const AddScaled& b) { return autotune(candidates(a, b), launch_it, host.stream(), {.problem = "eight"}).kept(); };
  AddScaled one, two, same, changed;
  two.kernel_name = "two";
  changed.parameters[3].name = "count";     // another text
  CHECK(!tune(one, two));
  CHECK(tune(one, two));
  CHECK(tune(same, two));                   // an object of its own, the same IR
  CHECK(!tune(changed, two));
}
