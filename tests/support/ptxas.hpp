// CUDA's assembler as a program, where it is on the PATH: what it says of PTX that the library leaves to the driver.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include <flextile/backend/assemble.hpp>
#include <flextile/backend/compile.hpp>

namespace flextile::test {

/// What a command writes, and its exit status.
inline int output_of(const std::string& command, std::string& output) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return -1;
  char bytes[4096];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, pipe)) output.append(bytes, count);
  return pclose(pipe);
}

/// False, with a line that marks the test as skipped, where there is no ptxas.
inline bool has_ptxas() {
  std::string version;
  if (output_of("ptxas --version", version) == 0) return true;
  MESSAGE("[SKIP] ptxas is not on the PATH");
  return false;
}

/// The kernel's resources as ptxas gives them, with its log. ptxas assembles one whole program, as the driver does, so it does not
/// ignore setmaxnreg.
inline Resources assembled_by_ptxas(const CompiledKernel& kernel) {
  static int count = 0;
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("flextile_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".ptx");
  std::ofstream(file) << kernel.ptx();
  std::string log;
  const int status = output_of("ptxas -arch=" + kernel.target.name() + " -v -o /dev/null '" + file.string() + "'", log);
  std::filesystem::remove(file);
  CAPTURE(log);
  REQUIRE(status == 0);
  Resources resources = kernel.resource_usage;
  read_assembler_log(log, kernel.kernel_name, resources);
  return resources;
}

/// One line of all faults.
inline std::string faults_text(const Resources& resources) {
  std::string text;
  for (const std::string& fault : performance_faults(resources)) text += (text.empty() ? "" : "; ") + fault;
  return text;
}

/// Assembled as it will be: by nvJitLink where the library did that, else by ptxas. At most so many bytes spilled in a thread, and no C75xx.
inline void check_assembles_well(const CompiledKernel& kernel, int most_spilled = 0) {
  Resources resources = kernel.binary.empty() ? assembled_by_ptxas(kernel) : kernel.resource_usage;
  CAPTURE(resources.log);
  CHECK(resources.registers > 0);
  REQUIRE(resources.spill_stores >= 0);
  CHECK(std::max(resources.spill_stores, resources.spill_loads) <= most_spilled);
  resources.spill_stores = resources.spill_loads = 0;
  CHECK(faults_text(resources) == "");
}

}  // namespace flextile::test
