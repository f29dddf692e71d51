#include "host/support.hpp"

#include <cstdlib>
#include <new>

#include <flextile/ir/error.hpp>

namespace flextile::backend::host {
namespace {

constexpr std::size_t alignment = 4096;

struct Scratch {
  void* memory = nullptr;
  std::int64_t bytes = 0;
  ~Scratch() { std::free(memory); }

  void* at_least(std::int64_t wanted) {
    if (wanted <= bytes) return memory;
    std::free(memory);
    const auto size = (static_cast<std::size_t>(wanted) + alignment - 1) / alignment * alignment;
    memory = std::aligned_alloc(alignment, size);
    bytes = memory ? static_cast<std::int64_t>(size) : 0;
    if (!memory) throw DriverError("flextile: driver error: no memory for " + std::to_string(size) + " bytes of a host kernel's tiles");
    return memory;
  }
};

thread_local Scratch scratch;

}  // namespace

std::string entry_symbol(std::string_view kernel_name) {
  std::string symbol = "flextile_kernel_";
  for (char c : kernel_name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    symbol += plain ? c : '_';
  }
  return symbol;
}

extern "C" void* flextile_host_scratch(std::int64_t bytes) { return scratch.at_least(bytes); }

extern "C" void flextile_host_fault(const char* kernel, const char* file, std::int32_t line, const char* operation, const char* tensor, std::int32_t axis,
                                    std::int64_t index, std::int64_t size) {
  std::string message = "flextile: argument error in kernel \"" + std::string(kernel) + "\"";
  if (line > 0) message += ", " + std::string(file) + ":" + std::to_string(line);
  message += "\n  [" + std::string(operation) + "] index " + std::to_string(index) + " on axis " + std::to_string(axis) + " is outside tensor \"" + tensor +
             "\", whose size there is " + std::to_string(size);
  throw ArgumentError(message);
}

}  // namespace flextile::backend::host
