// A tensor without its element type in the C++ type: what the library's own functions take.
#pragma once
#include <cstdint>
#include <vector>

#include <flextile/ir/error.hpp>
#include <flextile/ir/tensor_handle.hpp>
#include <flextile/runtime/device.hpp>

namespace flextile {

using TensorShape = std::vector<std::int64_t>;

/// Shape, strides and element type over memory that it keeps alive. Copies and views share the memory.
/// Axes count from 0, or from the end with -1. Strides are in elements. Wrong axes and sizes are ArgumentErrors.
class TensorRef {
 public:
  /// No tensor: operator bool is false.
  TensorRef() = default;
  explicit TensorRef(const ir::TensorHandle& handle) : handle_(handle) {}

  explicit operator bool() const { return handle_.data != nullptr; }
  ElementType element() const { return handle_.element; }
  int rank() const { return handle_.rank; }
  std::int64_t size(int axis) const;
  std::int64_t stride(int axis) const;
  TensorShape shape() const { return TensorShape(handle_.sizes.begin(), handle_.sizes.begin() + handle_.rank); }
  TensorShape strides() const { return TensorShape(handle_.strides.begin(), handle_.strides.begin() + handle_.rank); }
  std::int64_t elements() const;
  /// Of the elements; a view of a part counts that part.
  std::int64_t bytes() const { return elements() * byte_size(element()); }
  void* data() const { return handle_.data; }
  Device device() const;
  bool read_only() const { return handle_.read_only; }
  /// Row-major without gaps.
  bool is_contiguous() const;
  /// Counts the writes to the memory: fill, copy_from, kernels that were given it to write.
  std::uint64_t version() const;
  const ir::TensorHandle& handle() const { return handle_; }

  /// Elements lo <= i < hi of an axis.
  TensorRef slice(int axis, std::int64_t lo, std::int64_t hi) const;
  /// One index of an axis, which goes away.
  TensorRef select(int axis, std::int64_t index) const;
  TensorRef transpose(int a, int b) const;
  /// Axis i of the result is axis order[i] of this tensor.
  TensorRef permute(const std::vector<int>& order) const;
  /// The same elements in row-major order with another shape; one size may be -1. A copy where strides do not allow a view.
  TensorRef reshape(const TensorShape& shape) const;
  /// As reshape, but never a copy: an ArgumentError where strides do not allow it.
  TensorRef view(const TensorShape& shape) const;
  /// Axes of size 1 repeat (stride 0), and new axes may be added in front.
  TensorRef expand(const TensorShape& shape) const;
  TensorRef unsqueeze(int axis) const;
  /// This tensor if it is contiguous, else a copy that is.
  TensorRef contiguous() const;
  /// A contiguous copy.
  TensorRef clone() const;
  /// The same memory, which kernels and fill refuse to write through this reference.
  TensorRef as_read_only() const;
  /// This tensor if it is on `device` already, else a contiguous copy there.
  TensorRef to(const Device& device) const;

  /// Copies the elements of a tensor of the same shape and element type, from any device.
  void copy_from(const TensorRef& source) const;
  /// Sets every element to the one at `value`, which has this tensor's element type.
  void fill_bytes(const void* value) const;
  /// All elements in row-major order, bytes() of them. Waits for the device.
  void read(void* destination) const;
  /// Sets all elements from row-major memory, bytes() of them.
  void write(const void* source) const;

 protected:
  ir::TensorHandle handle_;
};

/// Uninitialised memory. ArgumentError for negative sizes, more than 8 axes or more bytes than 64 bits can count.
TensorRef empty(ElementType element, const Device& device, const TensorShape& shape);
/// Memory of the caller's, which outlives every copy of the result. Row-major where `strides` is empty.
TensorRef borrow(ElementType element, const Device& device, void* data, const TensorShape& shape, const TensorShape& strides = {});

/// Counts the writes to the tensor's memory; 0 where the memory is not ours to watch.
std::uint64_t version(const ir::TensorHandle& tensor);

/// "tensor<1823x781xf32> on cuda:0", for messages.
std::string to_string(const TensorRef& tensor);

}  // namespace flextile
