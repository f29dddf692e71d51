// What the copy engine is told of a tensor: the driver makes it from address, sizes and strides, and a kernel takes it by value.
#pragma once
#include <cstdint>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/tensor_handle.hpp>

#include "device_state.hpp"
#include "driver.hpp"

namespace flextile::runtime {

inline constexpr int most_tensor_map_axes = 5;

/// CUtensorMap: 128 bytes that only the driver and the copy engine read.
struct alignas(128) TensorMapImage {
  std::uint64_t words[16];
};

/// What the driver is asked for, in its own numbers. Axes are innermost first: the reverse of the view's.
struct TensorMapRequest {
  void* address = nullptr;
  std::uint64_t sizes[most_tensor_map_axes] = {};          // elements
  std::uint64_t strides[most_tensor_map_axes - 1] = {};    // bytes, of every axis but the innermost, whose elements are neighbours
  std::uint32_t box[most_tensor_map_axes] = {};            // elements
  std::uint32_t rank = 0;
  std::int32_t element = 0;                                // CUtensorMapDataType
  std::int32_t swizzle = 0;                                // CUtensorMapSwizzle
  bool operator==(const TensorMapRequest&) const = default;
};

/// The request for a map of `tensor`. An axis of one element may have any stride, so it gets a legal one. The driver knows no
/// empty tensors: the map of one is that of a single element at `zeros`, so that every copy reads 0, and of one that is written, of an
/// element behind them, which nobody reads.
TensorMapRequest tensor_map_request(const TensorMap& map, const ir::TensorHandle& tensor, void* zeros);

/// The map of `tensor`, which is argument `map.parameter` of the kernel, until the thread asks for another one: what it made before, where
/// it did. Needs a current context. DriverError names kernel, argument, sizes, strides and box.
const TensorMapImage& make_tensor_map(const CompiledKernel& kernel, const TensorMap& map, const ir::TensorHandle& tensor, void* zeros);

/// When a kernel is loaded: DriverError where the driver cannot make tensor maps, InternalError where the kernel's are none.
void require_tensor_maps(const CompiledKernel& kernel, const Driver& functions);

/// 256 bytes of zeros in the device's memory, and as many that anybody may write, made on first use and never freed. Needs the device's context to be current.
void* zeros_on(DeviceState& device);

}  // namespace flextile::runtime
