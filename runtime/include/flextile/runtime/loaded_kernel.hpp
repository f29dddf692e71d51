// Kernels loaded onto a device, and the cache they come from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/runtime/device.hpp>

namespace flextile {

namespace runtime {
struct KernelRecord;
}

/// A kernel that is ready to be launched on one device. Cheap to copy; stays loaded until the process ends.
class LoadedKernel {
 public:
  LoadedKernel() = default;
  explicit operator bool() const { return record_ != nullptr; }
  /// Texts, resources (with what the driver says of registers and stack) and parameters.
  const CompiledKernel& compiled() const;
  const std::string& name() const { return compiled().kernel_name; }
  Device device() const;

  explicit LoadedKernel(const runtime::KernelRecord* record) : record_(record) {}
  const runtime::KernelRecord* record() const { return record_; }

 private:
  const runtime::KernelRecord* record_ = nullptr;
};

/// From memory, else from disk, else compiled. Thread-safe; a kernel that several threads ask for at once is compiled
/// once. Throws CompileError, or DriverError with the assembler's log.
LoadedKernel load(const ir::Function& function, const Device& device, const CompileOptions& options = {});

/// As load, for any target and without loading: a machine without a GPU can look at GPU code.
const CompiledKernel& compile_cached(const ir::Function& function, const Target& target, const CompileOptions& options = {});

struct CacheStatistics {
  std::int64_t compilations = 0;
  std::int64_t memory_hits = 0;
  std::int64_t disk_hits = 0;
  std::int64_t rejected_files = 0;   // damaged or truncated files in the disk cache, compiled again
};
CacheStatistics cache_statistics();

/// Where compiled kernels are kept: FLEXTILE_CACHE_DIR, else $XDG_CACHE_HOME/flextile or ~/.cache/flextile; "" where
/// FLEXTILE_CACHE=0 turns it off or no folder can be named. It may be deleted at any time.
std::string cache_folder();
/// Forgets what is in memory, so that the next load reads the disk. Loaded kernels stay valid. For tests and measurements.
void forget_cached_kernels();

}  // namespace flextile
