// flextile-bench: one table of what this machine does, and what of its limits that is.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench.hpp"

namespace {

const char help[] = R"(usage: flextile-bench [--device DEVICE] [--filter TEXT] [--json FILE] [--quick]

Measures this machine's limits, then tile programs, attention and latencies, and prints one table: name, median milliseconds,
TFLOP/s or GB/s, and the share of the limit that was measured in the same run. Rows are named as in bench/anchors.

  --device DEVICE   host, cuda or cuda:1 (default: a GPU where there is one)
  --filter TEXT     only rows whose name holds TEXT
  --json FILE       also writes the table there
  --quick           tiny sizes, once: whether everything runs, no figures
)";

int refuse(const std::string& sentence) {
  std::fprintf(stderr, "flextile-bench: %s\n", sentence.c_str());
  return 2;
}

// Everything is compiled anew: a folder of this run's own holds what it compiles.
struct OwnCache {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("flextile-bench-" + std::to_string(getpid()));
  OwnCache() { setenv("FLEXTILE_CACHE_DIR", folder.c_str(), 1); }
  ~OwnCache() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

int run(int count, char** values) {
  std::string device, filter, json;
  bool quick = false;
  for (int i = 1; i < count; ++i) {
    const std::string option = values[i];
    std::string* value = option == "--device" ? &device : option == "--filter" ? &filter : option == "--json" ? &json : nullptr;
    if (option == "--help" || option == "-h") return std::fputs(help, stdout), 0;
    if (option == "--quick") quick = true;
    else if (!value) return refuse("unknown option '" + option + "'; it knows --device, --filter, --json, --quick and --help");
    else if (i + 1 == count) return refuse(option + " needs a value");
    else *value = values[++i];
  }
  bench::Run run{.device = device.empty() ? flextile::Device::best() : flextile::Device::parse(device), .report = bench::Report(filter), .quick = quick};
  const std::string name = run.device.name() + ", " + run.device.properties().name;
  std::printf("%s\n", name.c_str());
  bench::limits(run);
  bench::kernels(run);
  bench::dense_attention(run);
  bench::sparse_attention(run);
  bench::latency(run);
  if (run.report.rows().empty()) return refuse("no row's name holds '" + filter + "'");
  if (!json.empty()) run.report.write_json(json, name);
  return run.report.any_failed() ? 1 : 0;
}

}  // namespace

int main(int count, char** values) {
  const OwnCache cache;
  try {
    return run(count, values);
  } catch (const flextile::ArgumentError& error) {
    return refuse(error.what());
  } catch (const flextile::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  } catch (const std::string& sentence) {
    return refuse(sentence);
  }
}
