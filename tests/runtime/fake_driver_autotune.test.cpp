// autotune looks at what the driver says of kernels that it assembled itself. Skipped where the fake driver is not open.
#include <chrono>
#include <thread>

#include <flextile/attention/select_attention.hpp>
#include <flextile/attention/tune_attention.hpp>

#include "fake_driver.hpp"
#include "kernels.hpp"
#include "support/cache_folder.hpp"

using namespace flextile;
using test::AddScaled, test::assembles, test::is_fake;

namespace {

/// A kernel that takes so long, as the fake driver's clock sees it.
struct Slowed {
  AddScaled kernel;
  int milliseconds;
  Slowed(const char* name, int takes) : milliseconds(takes) { kernel.kernel_name = name; }
  const std::string& name() const { return kernel.kernel_name; }
};

struct Launcher {
  Device device = Device::cuda(0);
  Tensor<f32> x = zeros<f32>(device, {8});
  void operator()(const Slowed& slowed) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(slowed.milliseconds));
    launch(device.stream(), slowed.kernel, Grid{1}, x, x, x, 8, 1.0f);
  }
};

constexpr const char* serialised_log = R"(ptxas info    : Compiling entry function 'tuned_serialised' for 'sm_80'
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
)";

}  // namespace

TEST_CASE("fake driver: autotune passes over kernels that spill or are serialised, and names the reason") {
  if (!is_fake()) return;
  assembles("tuned_spilling", 64, "");                     // from the driver's cache there is no log
  assembles("tuned_serialised", 0, serialised_log);
  assembles("tuned_ignored", 0, "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.\n");
  assembles("tuned_fenced", 0, "ptxas info    : (C7519) Potential Performance Loss: wgmma.mma_async, fence inserted\n");
  const Launcher launcher;
  const Slowed spilling("tuned_spilling", 1), serialised("tuned_serialised", 1), ignored("tuned_ignored", 1), fenced("tuned_fenced", 3), clean("tuned_clean", 6);
  const auto best = autotune(candidates(spilling, clean, serialised, ignored, fenced), launcher, launcher.device.stream());
  CHECK(best.index() == 4);                                // a fence more is no reason
  CHECK(best.times()[0].failure == "spills 64 bytes a thread");
  CHECK(best.times()[0].rejected());
  CHECK(best.times()[1].failure == "");
  CHECK(best.times()[2].failure == "C7512: wgmma.mma_async instructions are serialized due to insufficient register resources");
  CHECK(best.times()[3].failure == "C7508: 'setmaxnreg' ignored; unable to determine register count at entry.");
  const auto least_bad = autotune(candidates(serialised, spilling), launcher, launcher.device.stream());
  CHECK(least_bad.times()[least_bad.index()].rejected());
  CHECK(to_string(least_bad.times()).find("every candidate that ran is rejected") != std::string::npos);
}

TEST_CASE("fake driver: of a candidate that launches several kernels each is looked at, also where they were loaded before") {
  if (!is_fake()) return;
  assembles("tuned_second", 16, "");
  const Launcher launcher;
  const Slowed first("tuned_first", 0), second("tuned_second", 0), alone("tuned_alone", 5);
  launcher(second);
  const auto run = [&](const Slowed& slowed) {
    launcher(slowed);
    if (&slowed == &first) launcher(second), launcher(second);
  };
  const auto best = autotune(candidates(first, alone), run, launcher.device.stream());
  CHECK(best.index() == 1);
  CHECK(best.times()[0].failure == "tuned_second spills 16 bytes a thread");
}

TEST_CASE("fake driver: what the driver says of a kernel is in its resources and its explanation") {
  if (!is_fake()) return;
  assembles("told_of", 48, "");
  AddScaled kernel;
  kernel.kernel_name = "told_of";
  const Launcher launcher;
  const CompiledKernel& loaded = select(launcher.device, kernel, launcher.x, launcher.x, launcher.x, 8, 1.0f).compiled();
  CHECK(loaded.resource_usage.registers == 77);
  CHECK(loaded.resource_usage.stack == 48);
  CHECK(performance_faults(loaded.resource_usage) == std::vector<std::string>{"spills 48 bytes a thread"});
  CHECK(loaded.explain().find("48 bytes of stack per thread") != std::string::npos);
}

TEST_CASE("fake driver: tuning attention passes over configurations that spill, but for the library's own, and keeps results per device") {
  if (!is_fake()) return;
  const test::CacheFolder folder;
  const Device device = Device::cuda(0);
  const auto q = zeros<f16>(device, {1, 2, 256, 64});
  const auto tune = [&](const Tensor<f16>& x) { return tune_flex_attention(x, x, x); };
  assembles(".reqntid 256", 32, "");                       // all of eight warps
  const AttentionTuning tuning = tune(q);
  CHECK(tuning.config.num_warps == 4);
  bool rejected = false;
  for (const CandidateTime& time : tuning.times) rejected = rejected || (time.rejected() && time.failure == "spills 32 bytes a thread");
  CHECK(rejected);
  CHECK(tune(q).kept);
  CHECK(!tune(zeros<f16>(Device::cuda(1), {1, 2, 256, 64})).kept);   // by its name another device
  CHECK(select_flex_attention(q, q, q).compiled().resource_usage.threads == 128);
  assembles(".reqntid 256", 0, "");
}
