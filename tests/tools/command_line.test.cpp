// The program `flextile`, started as a user starts it.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cache_folder.hpp"

namespace {

struct Result {
  int code = -1;
  std::string text;          // standard output and error
};

// FLEXTILE_PROGRAM in the environment names the program where it is not the one that was built beside this test.
std::string program() {
  const char* path = std::getenv("FLEXTILE_PROGRAM");
  return path ? path : FLEXTILE_PROGRAM;
}

/// `settings`: variables of the environment, as the shell takes them.
Result run(const std::string& arguments, const std::string& settings = "") {
  Result result;
  std::FILE* pipe = popen((settings + " " + program() + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) result.text.append(buffer.data(), count);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

bool holds(const Result& result, const char* text) { return result.text.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("help teaches by examples") {
  const Result result = run("--help");
  CHECK(result.code == 0);
  CHECK(holds(result, "flextile inspect flex_attention --mask causal --dim 128 --target sm_80 --emit ptx"));
  CHECK(holds(result, "flextile devices"));
  const Result inspect = run("inspect --help");
  CHECK(inspect.code == 0);
  CHECK(holds(inspect, "--value-dim N"));
  CHECK(holds(inspect, "sliding_window"));
}

TEST_CASE("what is misspelt gets the nearest name and exit code 2") {
  const std::array<std::array<const char*, 2>, 13> cases = {{
      {"", "no command is given"},
      {"inspct", "unknown command 'inspct'; did you mean inspect?"},
      {"inspect", "inspect takes the name of one kernel"},
      {"inspect flex_atention", "unknown kernel 'flex_atention'; did you mean flex_attention?"},
      {"inspect flex_attention --taget sm_80", "unknown option '--taget'; did you mean --target?"},
      {"inspect flex_attention --dim", "--dim needs a value: --dim N"},
      {"inspect flex_attention --dim 12x", "--dim is '12x', but must be a whole number of at least 1"},
      {"inspect flex_attention --dim 0", "--dim is '0'"},
      {"inspect flex_attention --dim 8 --dim 16", "--dim is given twice"},
      {"inspect flex_attention --element bf61", "--element is 'bf61', but must be f32, f16 or bf16; did you mean bf16?"},
      {"inspect flex_attention --lse=1", "--lse takes no value"},
      {"compile /no/such/file.tile", "cannot read '/no/such/file.tile'"},
      {"compile /tmp", "cannot read '/tmp'"},
  }};
  for (const auto& [arguments, sentence] : cases) {
    CAPTURE(arguments);
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK_MESSAGE(holds(result, sentence), result.text);
  }
}

TEST_CASE("output that cannot be written is an error") {
  const Result result = run("devices > /dev/full");
  CHECK(result.code == 1);
}

TEST_CASE("wrong names of masks, scores, targets and stages list what there is") {
  const std::array<std::array<const char*, 3>, 4> cases = {{
      {"--mask causle", "causle", "sliding_window"},
      {"--score alibie", "alibie", "softcap"},
      {"--target sm_12", "sm_12", "sm_90a"},
      {"--mask causal --emit ptxx", "ptxx", "did you mean ptx?"},
  }};
  for (const auto& [arguments, word, known] : cases) {
    CAPTURE(arguments);
    const Result result = run(std::string("inspect flex_attention ") + arguments);
    CHECK(result.code == 2);
    CHECK_MESSAGE(holds(result, word), result.text);
    CHECK_MESSAGE(holds(result, known), result.text);
  }
}

TEST_CASE("every stage of causal attention can be seen without a GPU") {
  const std::string base = "inspect flex_attention --mask causal --dim 64 --target sm_80 --emit ";
  const Result tile = run(base + "tile");
  CHECK(tile.code == 0);
  CHECK_MESSAGE(holds(tile, "func @"), tile.text);
  const Result llvm = run(base + "llvm");
  CHECK(llvm.code == 0);
  CHECK(holds(llvm, "define "));
  const Result ptx = run(base + "ptx");
  CHECK(ptx.code == 0);
  CHECK(holds(ptx, ".target sm_80"));
  CHECK(holds(ptx, "mma.sync"));
  CHECK(run(base + "resources").code == 0);
  CHECK(run(base + "explain").code == 0);
  const Result passes = run(base + "passes");
  CHECK(passes.code == 0);
  const std::string first = passes.text.substr(0, passes.text.find('\n'));
  CHECK(run(base + "tile_after:" + first).code == 0);
  const Result unknown = run(base + "tile_after:nothing_like_it");
  CHECK(unknown.code == 2);
  CHECK(holds(unknown, "no pass of that name ran"));
}

TEST_CASE("host code is shown, and has no PTX") {
  CHECK(run("inspect flex_attention --score softcap:20 --dim 32 --element f32 --target host --emit llvm").code == 0);
  const Result ptx = run("inspect flex_attention --dim 32 --target host --emit ptx");
  CHECK(ptx.code == 2);
  CHECK(holds(ptx, "name a GPU: --target sm_80"));
}

TEST_CASE("a kernel's tile IR goes out to a file and in again") {
  const std::string path = "/tmp/flextile_command_line_test_" + std::to_string(getpid()) + ".tile";
  REQUIRE(run("inspect flex_attention --mask causal --dim 32 --emit tile > " + path).code == 0);
  const Result again = run("compile " + path + " --target sm_80 --emit ptx");
  CHECK_MESSAGE(again.code == 0, again.text);
  CHECK(holds(again, ".target sm_80"));
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("func @broken( {", file);
  std::fclose(file);
  const Result broken = run("compile " + path);
  CHECK(broken.code == 1);
  CHECK(!holds(broken, "internal error"));
  std::remove(path.c_str());
}

TEST_CASE("devices lists the host") {
  const Result result = run("devices");
  CHECK(result.code == 0);
  CHECK_MESSAGE(holds(result, "host"), result.text);
}

TEST_CASE("devices --json: a list of GPUs, empty with the reason where there is none") {
  const Result result = run("devices --json", "FLEXTILE_LIBCUDA=none");
  CHECK(result.code == 0);
  CHECK_MESSAGE(result.text.starts_with("{\"host\": {\"name\": \""), result.text);
  CHECK_MESSAGE(result.text.ends_with(", \"gpus\": [], \"no_gpu_because\": \"FLEXTILE_LIBCUDA=none turns the CUDA driver off\"}\n"), result.text);
  const Result quoted = run("devices --json", "FLEXTILE_LIBCUDA='a\"b\\c'");
  CHECK_MESSAGE(holds(quoted, "FLEXTILE_LIBCUDA is \\\"a\\\"b\\\\c\\\" and must be"), quoted.text);
}

TEST_CASE("variables that are read once are refused with name, value and what they may be") {
  const Result threads = run("devices", "FLEXTILE_THREADS=many");
  CHECK(threads.code == 2);
  CHECK_MESSAGE(holds(threads, "flextile: FLEXTILE_THREADS is \"many\" and must be a whole number from 1 to 1024"), threads.text);
  for (const char* value : {"0", "-3", "1025", "'4 '", "1e2", "99999999999999999999"}) {
    CAPTURE(value);
    CHECK(run("devices", std::string("FLEXTILE_THREADS=") + value).code == 2);
  }
  const Result memory = run("devices", "FLEXTILE_MEMORY_CACHE=yes");
  CHECK(memory.code == 2);
  CHECK_MESSAGE(holds(memory, "flextile: FLEXTILE_MEMORY_CACHE is \"yes\" and must be 0 ("), memory.text);
  const Result driver = run("devices", "FLEXTILE_LIBCUDA=/no/such/file");
  CHECK_MESSAGE(holds(driver, "FLEXTILE_LIBCUDA is \"/no/such/file\" and must be the file of a CUDA driver, or none"), driver.text);
  const Result linker = run("--version", "FLEXTILE_NVJITLINK=/no/such/file");
  CHECK(linker.code == 0);
  CHECK_MESSAGE(holds(linker, "FLEXTILE_NVJITLINK is \"/no/such/file\" and must be an nvJitLink library, or none"), linker.text);
}

TEST_CASE("tune times configurations, keeps the result and takes it the next time") {
  const flextile::test::CacheFolder folder;      // which the programs inherit
  const std::string call = "tune flex_attention --mask causal --dim 16 --length 64 --heads 1 --block 64 --device host";
  const Result first = run(call);
  CHECK(first.code == 0);
  CHECK(holds(first, "flex_attention bf16, head dims 16/16, mask "));
  CHECK(holds(first, " ms  block 64x64, 1x1 parts of 64x64, dims 16/16, 1 warps, 1 stages"));
  CHECK(holds(first, "taken: block "));
  CHECK(!holds(first, "kept from an earlier run"));
  CHECK(holds(run(call), "(kept from an earlier run)"));
  CHECK(!holds(run(call + " --afresh"), "kept from an earlier run"));
  CHECK(!holds(run(call, "FLEXTILE_RETUNE=1"), "kept from an earlier run"));
  CHECK(run("tune flex_attention --mask document --length 64").code == 2);
  CHECK(holds(run("tune"), "tune takes the name of one kernel"));
  CHECK(!folder.files().empty());
}
