// The assembler of CUDA's toolkit, where it is installed: what it says of a kernel's PTX.
#pragma once
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <unistd.h>

#include <flextile/backend/compile.hpp>

namespace flextile::test {

/// Its exit status, and its log with registers, spills and warnings.
struct AssemblerReport {
  int status = 0;
  std::string log;
  bool is_clean() const { return status == 0 && log.find(" 0 bytes spill stores, 0 bytes spill loads") != std::string::npos && log.find("C75") == std::string::npos; }
};

/// None where no ptxas is on the path.
inline std::optional<AssemblerReport> run_ptxas(const CompiledKernel& kernel) {
  static const bool found = std::system("command -v ptxas > /dev/null 2>&1") == 0;
  if (!found) return std::nullopt;
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("flextile_ptxas_" + std::to_string(::getpid()) + ".ptx");
  std::ofstream(file) << kernel.ptx();
  const std::string command = "ptxas -v -arch=" + kernel.target.name() + " -o /dev/null " + file.string() + " 2>&1";
  AssemblerReport report;
  if (std::FILE* pipe = ::popen(command.c_str(), "r")) {
    std::array<char, 512> buffer;
    while (std::fgets(buffer.data(), buffer.size(), pipe)) report.log += buffer.data();
    report.status = ::pclose(pipe);
  }
  std::filesystem::remove(file);
  return report;
}

}  // namespace flextile::test
