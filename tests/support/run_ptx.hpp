// Compiles a kernel for a GPU and runs its PTX in the emulator, with arguments as HostEntry takes them.
#pragma once
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/backend/host_module.hpp>

#include "ptx_emulator.hpp"

namespace flextile::test {

struct MemoryRange {
  const void* begin;
  std::size_t bytes;
};

/// The raw bits of every flattened argument (see parameter_abi in docs/architecture.md).
inline std::vector<std::uint64_t> raw_arguments(const std::vector<ir::Parameter>& parameters, void* const* arguments) {
  std::vector<std::uint64_t> result;
  auto add = [&](std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, arguments[result.size()], bytes);
    result.push_back(value);
  };
  for (const ir::Parameter& parameter : parameters) {
    if (parameter.type.is_view()) {
      add(8);
      for (int axis = 0; axis < parameter.type.rank; ++axis) add(4);
      for (int axis = 0; axis < parameter.type.rank; ++axis) add(8);
    } else {
      add(parameter.type.is_pointer() ? 8 : static_cast<std::size_t>(byte_size(parameter.type.element)));
    }
  }
  return result;
}

inline void run_ptx(const CompiledKernel& kernel, void* const* arguments, const HostProgram& program, const std::vector<MemoryRange>& memory,
                    bool last_warp_first = false) {
  PtxEmulator emulator(kernel.ptx());
  for (const MemoryRange& range : memory) emulator.allow(range.begin, range.bytes);
  auto three = [](const std::int32_t* values) {
    return std::array<std::uint32_t, 3>{static_cast<std::uint32_t>(values[0]), static_cast<std::uint32_t>(values[1]), static_cast<std::uint32_t>(values[2])};
  };
  emulator.run_one(three(program.id), three(program.count), raw_arguments(kernel.parameters, arguments), static_cast<std::size_t>(kernel.resource_usage.shared_memory),
                   last_warp_first);
}

}  // namespace flextile::test
