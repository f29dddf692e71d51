#include <doctest/doctest.h>

#include <string>

#include <flextile/backend/target.hpp>
#include <flextile/ir/error.hpp>

using flextile::ArgumentError;
using flextile::Target;

namespace {

std::string message_of(auto&& call) {
  try {
    call();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("targets parse and print as the same name") {
  for (const char* name : {"host", "host:x86-64-v3", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    CHECK(Target::parse(name).name() == name);
    CHECK(Target::parse(Target::parse(name).name()) == Target::parse(name));
  }
  CHECK(Target::parse("sm_90a") == Target::sm_90a());
  CHECK(Target::parse("sm_90") != Target::sm_90a());
  CHECK(Target::parse("sm_80") == Target::sm_80());
  CHECK(Target::parse("host") == Target::host());
  CHECK(!Target::host().is_gpu());
  CHECK(Target::sm_90a().is_gpu());
}

TEST_CASE("a device gets the newest known target that it runs") {
  CHECK(Target::cuda(80).name() == "sm_80");
  CHECK(Target::cuda(87).name() == "sm_86");
  CHECK(Target::cuda(90).name() == "sm_90");
  CHECK(Target::cuda(90, true).name() == "sm_90a");
  CHECK(Target::cuda(103).name() == "sm_100");
  CHECK(Target::cuda(121).name() == "sm_120");
}

TEST_CASE("unknown targets are refused with the list of known ones") {
  for (const char* name : {"", "sm_", "sm_75", "sm_90b", "SM_80", "sm_80 ", "host:", "cuda"}) {
    const std::string message = message_of([&] { Target::parse(name); });
    CHECK(message.find("\"" + std::string(name) + "\" is not a target; known are host, host:<cpu>, sm_80, sm_86") != std::string::npos);
  }
  CHECK(message_of([] { Target::cuda(75); }).find("compute capability 7.5 is too old") != std::string::npos);
  CHECK(message_of([] { Target::cuda(80, true); }).find("sm_80a is not known") != std::string::npos);
}
