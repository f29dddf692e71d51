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

/// The maps that a launch would make of the view arguments.
inline std::vector<EmulatedTensorMap> tensor_maps(const CompiledKernel& kernel, const std::vector<std::uint64_t>& raw) {
  std::vector<EmulatedTensorMap> result;
  for (const TensorMap& wanted : kernel.tensor_maps) {
    const ir::Type& type = kernel.parameters.at(wanted.parameter).type;
    if (!type.is_view() || wanted.box.size() != type.rank) throw std::runtime_error("a tensor map of " + std::to_string(wanted.box.size()) + " axes for parameter " +
                                                                                   std::to_string(wanted.parameter) + ", which is no view of as many");
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < wanted.parameter; ++i) at += kernel.parameters[i].type.is_view() ? 1 + 2 * std::size_t{kernel.parameters[i].type.rank} : 1;
    EmulatedTensorMap map{.base = raw[at], .element_bytes = static_cast<std::int32_t>(byte_size(type.element)), .rank = type.rank, .swizzle = wanted.swizzle, .tf32 = wanted.tf32};
    const std::size_t rank = type.rank;
    for (std::size_t axis = 0; axis < rank; ++axis) {      // innermost first
      const std::size_t from = rank - 1 - axis;
      map.sizes[axis] = static_cast<std::int32_t>(raw[at + 1 + from]);
      map.strides[axis] = static_cast<std::int64_t>(raw[at + 1 + rank + from]) * map.element_bytes;
      map.box[axis] = wanted.box[from];
    }
    result.push_back(map);
  }
  return result;
}

/// Where a thread block stands among those that were launched.
struct EmulatedBlock {
  std::array<std::uint32_t, 3> id, count;
};

/// `counter`: of the programs that were taken.
inline void run_block(const CompiledKernel& kernel, void* const* arguments, const EmulatedBlock& block, const std::int32_t (&grid)[3],
                      const std::vector<MemoryRange>& memory, bool last_warp_first, std::uint32_t& counter) {
  PtxEmulator emulator(kernel.ptx());
  for (const MemoryRange& range : memory) emulator.allow(range.begin, range.bytes);
  std::vector<std::uint64_t> raw = raw_arguments(kernel.parameters, arguments);
  const std::vector<EmulatedTensorMap> maps = tensor_maps(kernel, raw);
  if (kernel.resident) {
    raw.insert(raw.end(), grid, grid + 3);
    raw.push_back(reinterpret_cast<std::uint64_t>(&counter));
    emulator.allow(&counter, sizeof counter);
  }
  for (const EmulatedTensorMap& map : maps) raw.push_back(reinterpret_cast<std::uint64_t>(&map));
  emulator.run_one(block.id, block.count, raw, static_cast<std::size_t>(kernel.resource_usage.shared_memory), last_warp_first);
}

/// A launch of `workers` thread blocks of a kernel whose programs stay on the device, one block after the other: the first one takes
/// all programs that are nobody's.
inline void run_workers(const CompiledKernel& kernel, void* const* arguments, std::uint32_t workers, const std::int32_t (&grid)[3],
                        const std::vector<MemoryRange>& memory) {
  std::uint32_t counter = 0;
  for (std::uint32_t worker = 0; worker < workers; ++worker) run_block(kernel, arguments, {{worker, 0, 0}, {workers, 1, 1}}, grid, memory, worker % 2 == 0, counter);
  if (counter != 0) throw std::runtime_error("the counter of programs is " + std::to_string(counter) + " after a launch: the next one starts with 0");
}

/// One program.
inline void run_ptx(const CompiledKernel& kernel, void* const* arguments, const HostProgram& program, const std::vector<MemoryRange>& memory,
                    bool last_warp_first = false) {
  auto three = [](const std::int32_t* values) {
    return std::array<std::uint32_t, 3>{static_cast<std::uint32_t>(values[0]), static_cast<std::uint32_t>(values[1]), static_cast<std::uint32_t>(values[2])};
  };
  EmulatedBlock block{three(program.id), three(program.count)};
  if (kernel.resident)   // as many workers as programs
    block = {{(block.id[2] * block.count[1] + block.id[1]) * block.count[0] + block.id[0], 0, 0}, {block.count[0] * block.count[1] * block.count[2], 1, 1}};
  std::uint32_t counter = 0;
  run_block(kernel, arguments, block, program.count, memory, last_warp_first, counter);
}

}  // namespace flextile::test
