#include <chrono>
#include <thread>

#include "kernels.hpp"

using namespace flextile;

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
