// A variable with a value that it may not have: the sentence names it, its value and what it may be.
#include "kernels.hpp"

using namespace flextile;

namespace {

/// Sets a variable for one test.
struct Setting {
  std::string variable, before;
  bool was_set;
  Setting(const char* name, const char* value) : variable(name), was_set(std::getenv(name)) {
    if (was_set) before = std::getenv(name);
    setenv(name, value, 1);
  }
  ~Setting() {
    if (was_set)
      setenv(variable.c_str(), before.c_str(), 1);
    else
      unsetenv(variable.c_str());
  }
};

ir::Function some_function(const char* name) {
  test::AddScaled kernel;
  kernel.kernel_name = name;
  return kernel.trace(kernel.signature());
}

}  // namespace

TEST_CASE("FLEXTILE_DEVICE") {
  for (const char* name : {"moon", "cuda:x", "cuda:63", "CUDA"}) {
    const Setting setting("FLEXTILE_DEVICE", name);
    CHECK_SENTENCE(ArgumentError, "flextile: FLEXTILE_DEVICE is \"" + std::string(name) + "\" and must be " + (Device::count() ? "host, cuda or cuda:N, and" : "host:") + " this machine has",
                   Device::best());
  }
  if (Device::count() == 0) {
    const Setting setting("FLEXTILE_DEVICE", "cuda");
    CHECK_SENTENCE(ArgumentError, "flextile: FLEXTILE_DEVICE is \"cuda\" and must be host: this machine has no CUDA device that can be used: ", Device::best());
  }
  const Setting setting("FLEXTILE_DEVICE", "");
  CHECK(Device::best() == (Device::count() > 0 ? Device::cuda(0) : Device::host()));
}

TEST_CASE("switches of the cache are 0 or 1") {
  for (const char* variable : {"FLEXTILE_CACHE", "FLEXTILE_VERBOSE"}) {
    const std::string sentence = "flextile: " + std::string(variable) + " is \"off\" and must be 0 (";
    const Setting setting(variable, "off");
    CHECK_SENTENCE(ArgumentError, sentence, load(some_function("switch_off"), Device::host()));
    setenv(variable, "1", 1);
    CHECK_NOTHROW(load(some_function("switch_on"), Device::host()));
  }
}

TEST_CASE("FLEXTILE_CACHE_LIMIT is a number of bytes") {
  for (const char* value : {"many", "-1", "1.5G", "10 M", "5T", "G", "99999999999G", "1GiB"}) {
    const Setting setting("FLEXTILE_CACHE_LIMIT", value);
    CHECK_SENTENCE(ArgumentError,
                   "flextile: FLEXTILE_CACHE_LIMIT is \"" + std::string(value) + "\" and must be a whole number of bytes, or of KiB, MiB or GiB with K, M or G",
                   load(some_function("limit"), Device::host()));
  }
}

TEST_CASE("folders of stages") {
  {
    const Setting setting("FLEXTILE_DUMP", "/proc/nowhere");
    CHECK_SENTENCE(ArgumentError, "flextile: [dump] FLEXTILE_DUMP is \"/proc/nowhere\" and must be a folder that can be made and written",
                   compile(some_function("dumped"), Target::host()));
  }
  const Setting setting("FLEXTILE_REPLACE", "/no/such/folder");
  CHECK_SENTENCE(ArgumentError, "flextile: [replace] FLEXTILE_REPLACE is \"/no/such/folder\" and must be a folder of edited stages",
                 compile(some_function("replaced"), Target::host()));
}
