#include <flextile/runtime/tensor_ref.hpp>

#include <cstring>

#include <flextile/runtime/tensor.hpp>

#include "capture.hpp"
#include "copy.hpp"
#include "storage.hpp"

namespace flextile {
namespace {

using runtime::storage_of;

std::string shape_text(const TensorShape& shape) {
  std::string text;
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? "x" : "") + std::to_string(shape[i]);
  return shape.empty() ? "scalar" : text;
}

[[noreturn]] void refuse(const char* function, const std::string& sentence) {
  throw ArgumentError("flextile: " + std::string(function) + ": " + sentence);
}

/// Sets sizes and row-major strides; returns the number of elements.
std::int64_t set_shape(const char* function, ir::TensorHandle& handle, const TensorShape& shape) {
  if (shape.size() > static_cast<std::size_t>(ir::max_view_rank))
    refuse(function, "the shape " + shape_text(shape) + " has " + std::to_string(shape.size()) + " axes and may have at most " +
                         std::to_string(ir::max_view_rank));
  std::int64_t count = 1, bytes = 0;
  bool overflow = false, zero = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) refuse(function, "axis " + std::to_string(i) + " has size " + std::to_string(shape[i]) + " and must not be negative");
    zero = zero || shape[i] == 0;
  }
  for (std::size_t i = shape.size(); i-- > 0;) {
    handle.sizes[i] = shape[i], handle.strides[i] = count;
    if (shape[i] > 0) overflow = __builtin_mul_overflow(count, shape[i], &count) || overflow;
  }
  overflow = __builtin_mul_overflow(count, static_cast<std::int64_t>(byte_size(handle.element)), &bytes) || overflow;
  if (overflow) refuse(function, "a tensor of shape " + shape_text(shape) + " has more bytes than 64 bits can count");
  handle.rank = static_cast<std::uint8_t>(shape.size());
  return zero ? 0 : count;
}

int checked_axis(const char* function, const ir::TensorHandle& handle, int axis) {
  const int rank = handle.rank;
  if (axis < -rank || axis >= rank)
    refuse(function, "axis is " + std::to_string(axis) + " and the tensor has " + std::to_string(rank) + (rank == 1 ? " axis" : " axes"));
  return axis < 0 ? axis + rank : axis;
}

void* offset(const ir::TensorHandle& handle, std::int64_t elements) {
  return static_cast<char*>(handle.data) + elements * byte_size(handle.element);
}

void require_tensor(const char* function, const ir::TensorHandle& handle) {
  if (!handle.data)
    refuse(function, "this is no tensor: it was default-constructed or moved from, or is a result that was not asked for, as lse without .return_lse = true "
                     "and max_scores without .return_max_scores = true");
}

void require_writable(const char* function, const TensorRef& tensor) {
  require_tensor(function, tensor.handle());
  if (tensor.read_only()) refuse(function, to_string(tensor) + " is read-only");
  for (int axis = 0; axis < tensor.rank(); ++axis)
    if (tensor.stride(axis) == 0 && tensor.size(axis) > 1)
      refuse(function, to_string(tensor) + " is expanded: several of its elements share one address; write to a clone()");
}

void count_write(const ir::TensorHandle& tensor) {
  if (runtime::Storage* storage = storage_of(tensor)) storage->version.fetch_add(1, std::memory_order_relaxed);
}

/// Recorded work would use the caller's memory later, when it may be gone.
void refuse_host_capture(const char* function) {
  if (runtime::capture_of(&runtime::device_state(-1).default_stream))
    refuse(function, "the host's default stream is being captured: read and write values before or after the capture");
}

/// Fills in -1 and checks that the element counts agree.
TensorShape resolve_shape(const char* function, const TensorRef& tensor, TensorShape shape) {
  std::int64_t known = 1;
  int open = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (open >= 0) refuse(function, "axes " + std::to_string(open) + " and " + std::to_string(i) + " are both -1; one size can be derived");
      open = static_cast<int>(i);
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      refuse(function, "a tensor of shape " + shape_text(shape) + " has more elements than 64 bits can count");
    }
  }
  if (open >= 0 && known > 0) shape[static_cast<std::size_t>(open)] = tensor.elements() / known, known *= tensor.elements() / known;
  if (known != tensor.elements() || (open >= 0 && shape[static_cast<std::size_t>(open)] < 0))
    refuse(function, to_string(tensor) + " has " + std::to_string(tensor.elements()) + " elements and cannot take the shape " + shape_text(shape));
  return shape;
}

/// Strides for `shape` over the same memory, or false. Axes that are one axis in memory are merged, then split anew.
bool view_strides(const ir::TensorHandle& old, ir::TensorHandle& fresh) {
  const runtime::StridedCopy merged = runtime::plan_copy(old, old);
  int group = merged.rank - 1;
  std::int64_t left = group >= 0 ? merged.sizes[group] : 1, stride = group >= 0 ? merged.source_strides[group] : 1;
  for (int axis = fresh.rank - 1; axis >= 0; --axis) {
    if (fresh.sizes[axis] == 1) continue;          // keeps its row-major stride
    if (left == 1 && group > 0) --group, left = merged.sizes[group], stride = merged.source_strides[group];
    if (left % fresh.sizes[axis] != 0) return false;
    fresh.strides[axis] = stride;
    stride *= fresh.sizes[axis], left /= fresh.sizes[axis];
  }
  return true;
}

}  // namespace

std::int64_t TensorRef::size(int axis) const { return handle_.sizes[static_cast<std::size_t>(checked_axis("size", handle_, axis))]; }
std::int64_t TensorRef::stride(int axis) const { return handle_.strides[static_cast<std::size_t>(checked_axis("stride", handle_, axis))]; }

std::int64_t TensorRef::elements() const {
  std::int64_t count = handle_.data || handle_.rank ? 1 : 0;
  for (int axis = 0; axis < handle_.rank; ++axis) count *= handle_.sizes[static_cast<std::size_t>(axis)];
  return count;
}

Device TensorRef::device() const { return handle_.device < 0 ? Device::host() : Device::cuda(handle_.device); }
bool TensorRef::is_contiguous() const { return runtime::is_contiguous(handle_); }
std::uint64_t TensorRef::version() const { return flextile::version(handle_); }

std::uint64_t version(const ir::TensorHandle& tensor) {
  const runtime::Storage* storage = storage_of(tensor);
  return storage ? storage->version.load(std::memory_order_relaxed) : 0;
}

TensorRef TensorRef::slice(int axis, std::int64_t lo, std::int64_t hi) const {
  const auto at = static_cast<std::size_t>(checked_axis("slice", handle_, axis));
  if (lo < 0 || hi < lo || hi > handle_.sizes[at])
    refuse("slice", "elements " + std::to_string(lo) + " to " + std::to_string(hi) + " are asked for, and axis " + std::to_string(axis) + " of " +
                        to_string(*this) + " has " + std::to_string(handle_.sizes[at]));
  TensorRef result = *this;
  result.handle_.sizes[at] = hi - lo;
  if (hi > lo) result.handle_.data = offset(handle_, lo * handle_.strides[at]);
  return result;
}

TensorRef TensorRef::select(int axis, std::int64_t index) const {
  const auto at = static_cast<std::size_t>(checked_axis("select", handle_, axis));
  if (index < 0 || index >= handle_.sizes[at])
    refuse("select", "index is " + std::to_string(index) + ", and axis " + std::to_string(axis) + " of " + to_string(*this) + " has " +
                         std::to_string(handle_.sizes[at]) + " elements");
  TensorRef result = *this;
  result.handle_.data = offset(handle_, index * handle_.strides[at]);
  for (std::size_t i = at; i + 1 < handle_.rank; ++i)
    result.handle_.sizes[i] = handle_.sizes[i + 1], result.handle_.strides[i] = handle_.strides[i + 1];
  --result.handle_.rank;
  result.handle_.sizes[result.handle_.rank] = result.handle_.strides[result.handle_.rank] = 0;
  return result;
}

TensorRef TensorRef::transpose(int a, int b) const {
  const auto i = static_cast<std::size_t>(checked_axis("transpose", handle_, a)), j = static_cast<std::size_t>(checked_axis("transpose", handle_, b));
  TensorRef result = *this;
  std::swap(result.handle_.sizes[i], result.handle_.sizes[j]);
  std::swap(result.handle_.strides[i], result.handle_.strides[j]);
  return result;
}

TensorRef TensorRef::permute(const std::vector<int>& order) const {
  unsigned seen = 0;
  if (order.size() != handle_.rank)
    refuse("permute", std::to_string(order.size()) + " axes are given and the tensor has " + std::to_string(rank()));
  TensorRef result = *this;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(checked_axis("permute", handle_, order[i]));
    if (seen >> from & 1) refuse("permute", "axis " + std::to_string(order[i]) + " is given twice");
    seen |= 1u << from;
    result.handle_.sizes[i] = handle_.sizes[from], result.handle_.strides[i] = handle_.strides[from];
  }
  return result;
}

TensorRef TensorRef::view(const TensorShape& shape) const {
  require_tensor("view", handle_);
  TensorRef result = *this;
  set_shape("view", result.handle_, resolve_shape("view", *this, shape));
  if (elements() > 0 && !view_strides(handle_, result.handle_))
    refuse("view", to_string(*this) + " cannot be seen as " + shape_text(shape) + " without a copy; reshape() copies");
  return result;
}

TensorRef TensorRef::reshape(const TensorShape& shape) const {
  require_tensor("reshape", handle_);
  TensorRef result = *this;
  set_shape("reshape", result.handle_, resolve_shape("reshape", *this, shape));
  return elements() == 0 || view_strides(handle_, result.handle_) ? result : clone().view(shape);
}

TensorRef TensorRef::expand(const TensorShape& shape) const {
  const std::size_t added = shape.size() - handle_.rank;
  TensorRef result = *this;
  if (shape.size() < handle_.rank) refuse("expand", to_string(*this) + " has more axes than the shape " + shape_text(shape));
  set_shape("expand", result.handle_, shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t old = i < added ? 1 : handle_.sizes[i - added];
    if (old != shape[i] && old != 1)
      refuse("expand", to_string(*this) + " cannot expand to " + shape_text(shape) + ": axis " + std::to_string(i) + " has size " + std::to_string(old) +
                           ", and only size 1 repeats");
    result.handle_.strides[i] = old == shape[i] && i >= added ? handle_.strides[i - added] : 0;
  }
  return result;
}

TensorRef TensorRef::unsqueeze(int axis) const {
  const int rank = handle_.rank;
  if (axis < -rank - 1 || axis > rank) refuse("unsqueeze", "axis is " + std::to_string(axis) + " and the tensor has " + std::to_string(rank) + " axes");
  if (rank == ir::max_view_rank) refuse("unsqueeze", to_string(*this) + " has the most axes that a tensor can have");
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank + 1 : axis);
  TensorRef result = *this;
  for (std::size_t i = static_cast<std::size_t>(rank); i > at; --i)
    result.handle_.sizes[i] = handle_.sizes[i - 1], result.handle_.strides[i] = handle_.strides[i - 1];
  result.handle_.strides[at] = at < static_cast<std::size_t>(rank) ? handle_.sizes[at] * handle_.strides[at] : 1;
  result.handle_.sizes[at] = 1;
  ++result.handle_.rank;
  return result;
}

TensorRef TensorRef::contiguous() const { return is_contiguous() ? *this : clone(); }

TensorRef TensorRef::clone() const {
  require_tensor("clone", handle_);
  TensorRef result = empty(element(), device(), shape());
  runtime::copy_tensor(result.handle_, handle_);
  result.handle_.learnable = handle_.learnable;
  return result;
}

TensorRef TensorRef::as_read_only() const {
  TensorRef result = *this;
  result.handle_.read_only = true;
  return result;
}

TensorRef TensorRef::to(const Device& device) const {
  require_tensor("to", handle_);
  if (device.index() == handle_.device) return *this;
  TensorRef result = empty(element(), device, shape());
  runtime::copy_tensor(result.handle_, handle_);
  result.handle_.learnable = handle_.learnable;
  return result;
}

void TensorRef::copy_from(const TensorRef& source) const {
  require_writable("copy_from", *this);
  require_tensor("copy_from", source.handle_);
  if (source.element() != element() || source.shape() != shape())
    refuse("copy_from", "the source is " + to_string(source) + " and must have the shape and element type of " + to_string(*this));
  runtime::copy_tensor(handle_, source.handle_);
  count_write(handle_);
}

void TensorRef::fill_bytes(const void* value) const {
  require_writable("fill", *this);
  runtime::fill_tensor(handle_, value);
  count_write(handle_);
}

void TensorRef::read(void* destination) const {
  require_tensor("read", handle_);
  refuse_host_capture("read");
  if (elements() > 0) runtime::copy_tensor(borrow(element(), Device::host(), destination, shape()).handle_, handle_);
}

void TensorRef::write(const void* source) const {
  require_writable("write", *this);
  refuse_host_capture("write");
  if (elements() > 0) runtime::copy_tensor(handle_, borrow(element(), Device::host(), const_cast<void*>(source), shape()).handle_);
  count_write(handle_);
}

TensorRef empty(ElementType element, const Device& device, const TensorShape& shape) {
  ir::TensorHandle measured;
  measured.element = element;
  const std::int64_t bytes = set_shape("empty", measured, shape) * byte_size(element);
  ir::TensorHandle handle = runtime::make_handle(new runtime::Storage(runtime::device_state(device), static_cast<std::size_t>(bytes)));
  handle.element = element, handle.rank = measured.rank, handle.sizes = measured.sizes, handle.strides = measured.strides;
  return TensorRef(handle);
}

TensorRef borrow(ElementType element, const Device& device, void* data, const TensorShape& shape, const TensorShape& strides) {
  ir::TensorHandle handle = runtime::make_handle(new runtime::Storage(runtime::device_state(device), nullptr, nullptr));
  handle.element = element;
  const std::int64_t count = set_shape("borrow", handle, shape);
  if (!data && count > 0) refuse("borrow", "the address is null and the shape " + shape_text(shape) + " has elements");
  if (!strides.empty() && strides.size() != shape.size())
    refuse("borrow", std::to_string(strides.size()) + " strides are given for " + std::to_string(shape.size()) + " axes");
  for (std::size_t i = 0; i < strides.size(); ++i) handle.strides[i] = strides[i];
  handle.data = data;
  return TensorRef(handle);
}

std::string to_string(const TensorRef& tensor) {
  if (!tensor && tensor.rank() == 0) return "no tensor";
  return "tensor<" + (tensor.rank() ? shape_text(tensor.shape()) + "x" : std::string()) + std::string(name(tensor.element())) + "> on " +
         tensor.device().name();
}

void require_element(const TensorRef& tensor, ElementType expected) {
  if (tensor.element() != expected && (tensor || tensor.rank()))
    throw ArgumentError("flextile: Tensor<" + std::string(name(expected)) + "> cannot refer to " + to_string(tensor) + ": its elements are " +
                        std::string(name(tensor.element())));
}

void require_count(const TensorRef& tensor, std::size_t given, const char* caller) {
  if (static_cast<std::int64_t>(given) != tensor.elements())
    throw ArgumentError("flextile: " + std::string(caller) + ": " + std::to_string(given) + " values are given, and " + to_string(tensor) + " has " +
                        std::to_string(tensor.elements()) + " elements");
}

}  // namespace flextile
