// Copying elements between tensors of any strides and devices.
#pragma once
#include <array>

#include <flextile/ir/tensor_handle.hpp>

#include "device_state.hpp"

namespace flextile::runtime {

/// destination[i] = source[i] over a box of indices. Strides in elements.
struct StridedCopy {
  int rank = 0;
  std::array<std::int64_t, ir::max_view_rank> sizes{};
  std::array<std::int64_t, ir::max_view_rank> destination_strides{};
  std::array<std::int64_t, ir::max_view_rank> source_strides{};
  int element_bytes = 4;

  std::int64_t elements() const;
};

/// The same copy with axes of size 1 dropped and neighbours merged where they are one axis in both.
StridedCopy plan_copy(const ir::TensorHandle& destination, const ir::TensorHandle& source);

void copy_on_host(const StridedCopy& plan, void* destination, const void* source);
/// Queued on the device's default stream.
void copy_on_device(DeviceState& device, const StridedCopy& plan, void* destination, const void* source);

/// Same shape and element type are the caller's to check.
void copy_tensor(const ir::TensorHandle& destination, const ir::TensorHandle& source);
void fill_tensor(const ir::TensorHandle& destination, const void* value);
bool is_contiguous(const ir::TensorHandle& tensor);

}  // namespace flextile::runtime
