// CompiledKernel as text, and the versions that a cache key needs.
#include <llvm/Config/llvm-config.h>

#include <flextile/backend/assemble.hpp>
#include <flextile/backend/compile.hpp>

namespace flextile {
namespace {

void append(std::string& text, std::string_view label, int value, std::string_view unit) {
  if (value < 0) return;
  text += std::string(label) + std::to_string(value) + std::string(unit) + "\n";
}

/// "[resources] 384 threads, 168 registers each, 231424 bytes of shared memory; nothing is spilled"
std::string resources_line(const Resources& resources) {
  std::string text = "[resources] " + std::to_string(resources.threads) + " threads, ";
  text += resources.registers < 0 ? "registers are known once it is loaded" : std::to_string(resources.registers) + " registers each";
  text += ", " + std::to_string(resources.shared_memory) + " bytes of shared memory";
  const std::vector<std::string> faults = performance_faults(resources);
  if (faults.empty() && resources.registers >= 0) text += "; nothing is spilled";
  for (const std::string& fault : faults) text += "; " + fault;
  return text;
}

}  // namespace

std::string to_string(const Resources& resources) {
  std::string text;
  if (resources.threads > 0) append(text, "threads         ", resources.threads, " per program");
  append(text, "shared memory   ", resources.shared_memory, " bytes per program");
  append(text, "registers       ", resources.registers, " per thread");
  append(text, "stack           ", resources.stack, " bytes per thread");
  append(text, "spill stores    ", resources.spill_stores, " bytes");
  append(text, "spill loads     ", resources.spill_loads, " bytes");
  if (resources.threads > 0 && resources.registers < 0) text += "registers       unknown: the driver assembles the PTX when it loads it\n";
  if (!resources.log.empty()) text += "assembler's log\n" + resources.log + (resources.log.back() == '\n' ? "" : "\n");
  return text;
}

std::string CompiledKernel::explain() const {
  std::string text;
  for (const std::string& line : explanation) text += line + "\n";
  if (resource_usage.threads > 0) text += resources_line(resource_usage) + "\n";
  return text;
}

std::string compiler_version() {
  static const std::string version = "flextile " FLEXTILE_VERSION ", LLVM " LLVM_VERSION_STRING ", nvJitLink " + linker_version();
  return version;
}

}  // namespace flextile
