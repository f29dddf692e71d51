// A kernel loaded onto one device.
#pragma once
#include <memory>

#include <flextile/backend/compile.hpp>
#include <flextile/backend/host_module.hpp>

#include "argument_check.hpp"
#include "device_state.hpp"

namespace flextile::runtime {

/// Of a parameter, in the block of bytes that a kernel takes.
struct ParameterPlace {
  std::uint32_t offset = 0, bytes = 0;
};

struct KernelRecord {
  std::shared_ptr<const CompiledKernel> compiled;
  DeviceState* device = nullptr;
  AlignmentClass required = 0;          // the facts that the code relies on
  std::unique_ptr<HostModule> module;   // host
  HostEntry entry = nullptr;            // host
  void* function = nullptr;             // CUDA; its module stays loaded
  unsigned threads = 0;
  unsigned shared_memory = 0;           // dynamic, beside what the code declares itself
  bool overlaps = false;                // CUDA: launched so that it is placed while the launch before still runs
  std::int64_t workers = 0;             // CUDA, resident programs: as many as the device holds; else 0
  void* zeros = nullptr;                // CUDA, with tensor maps: what the map of an empty tensor reads
  std::vector<ParameterPlace> places;   // CUDA: of packed values and tensor maps; none where the driver does not say (before 12.4)
};

/// Loads the kernel's code. DriverError with the assembler's log where the driver refuses it.
std::unique_ptr<const KernelRecord> load_record(std::shared_ptr<const CompiledKernel> compiled, DeviceState& device);

}  // namespace flextile::runtime
