#include "copy.hpp"

#include <cstring>

#include <flextile/runtime/tensor_ref.hpp>

#include "capture.hpp"
#include "driver.hpp"
#include "storage.hpp"

namespace flextile::runtime {
namespace {

std::size_t bytes_of(const ir::TensorHandle& tensor) { return static_cast<std::size_t>(TensorRef(tensor).bytes()); }
std::uint64_t address(const ir::TensorHandle& tensor) { return reinterpret_cast<std::uint64_t>(tensor.data); }

/// A contiguous tensor of the same shape, element type and device with the same contents.
ir::TensorHandle packed(const ir::TensorHandle& tensor) {
  if (is_contiguous(tensor)) return tensor;
  const TensorRef reference(tensor);
  const TensorRef copy = empty(tensor.element, reference.device(), reference.shape());
  copy_tensor(copy.handle(), tensor);
  return copy.handle();
}

enum class Access { reads, writes };

void prepare(const ir::TensorHandle& tensor, DeviceState& device, Access access) {
  if (Storage* storage = storage_of(tensor)) use_on_default_stream(*storage);
  if (Capture* capture = capture_of(&device.default_stream)) {
    capture->tensors.push_back(tensor);
    capture->tensors.back().read_only = access == Access::reads;
  }
}

void refuse_capture(const DeviceState& device, const char* what) {
  if (device.index >= 0 && is_capturing(&device.default_stream))
    throw ArgumentError(std::string("flextile: ") + what + " between host and " + Device::cuda(device.index).name() +
                        " while that device's default stream is being captured: it would have to wait; do it before or after the capture");
}

void upload(const ir::TensorHandle& destination, const ir::TensorHandle& source) {
  DeviceState& device = device_state(destination.device);
  refuse_capture(device, "copy");
  const ir::TensorHandle from = packed(source);
  if (!is_contiguous(destination)) {
    const TensorRef staged = empty(destination.element, TensorRef(destination).device(), TensorRef(destination).shape());
    upload(staged.handle(), from);
    return copy_tensor(destination, staged.handle());
  }
  prepare(destination, device, Access::writes);
  CurrentContext current(device.context);
  check(driver()->cuMemcpyHtoDAsync_v2(address(destination), from.data, bytes_of(from), device.default_stream.native), "cuMemcpyHtoDAsync",
        [&] { return "of " + bytes_text(static_cast<std::int64_t>(bytes_of(from))); });
  check(driver()->cuStreamSynchronize(device.default_stream.native), "cuStreamSynchronize");
}

void download(const ir::TensorHandle& destination, const ir::TensorHandle& source) {
  DeviceState& device = device_state(source.device);
  refuse_capture(device, "copy");
  const ir::TensorHandle from = packed(source);
  if (!is_contiguous(destination)) {
    const TensorRef staged = empty(destination.element, Device::host(), TensorRef(destination).shape());
    download(staged.handle(), from);
    return copy_tensor(destination, staged.handle());
  }
  prepare(from, device, Access::reads);
  CurrentContext current(device.context);
  check(driver()->cuMemcpyDtoHAsync_v2(destination.data, address(from), bytes_of(from), device.default_stream.native), "cuMemcpyDtoHAsync",
        [&] { return "of " + bytes_text(static_cast<std::int64_t>(bytes_of(from))); });
  check(driver()->cuStreamSynchronize(device.default_stream.native), "cuStreamSynchronize",
        [] { return std::string("a kernel that ran earlier may have failed: its error arrives here"); });
}

void copy_between_devices(const ir::TensorHandle& destination, const ir::TensorHandle& source) {
  const ir::TensorHandle from = packed(source);
  if (!is_contiguous(destination)) {
    const TensorRef staged = empty(destination.element, TensorRef(destination).device(), TensorRef(destination).shape());
    copy_between_devices(staged.handle(), from);
    return copy_tensor(destination, staged.handle());
  }
  DeviceState &to_device = device_state(destination.device), &from_device = device_state(source.device);
  prepare(from, from_device, Access::reads);
  prepare(destination, to_device, Access::writes);
  order_after(&from_device.default_stream, &to_device.default_stream);
  {
    CurrentContext current(from_device.context);
    check(driver()->cuMemcpyPeerAsync(address(destination), to_device.context, address(from), from_device.context, bytes_of(from),
                                      from_device.default_stream.native),
          "cuMemcpyPeerAsync");
  }
  order_after(&to_device.default_stream, &from_device.default_stream);
}

/// `count` elements at `destination`, of 1, 2 or 4 bytes, or of 8 with equal halves.
void set_memory(DeviceState& device, std::uint64_t destination, const void* value, int bytes, std::size_t count) {
  std::uint32_t word = 0;
  std::memcpy(&word, value, bytes < 4 ? static_cast<std::size_t>(bytes) : 4);
  void* stream = device.default_stream.native;
  if (bytes == 1) check(driver()->cuMemsetD8Async(destination, static_cast<unsigned char>(word), count, stream), "cuMemsetD8Async");
  if (bytes == 2) check(driver()->cuMemsetD16Async(destination, static_cast<unsigned short>(word), count, stream), "cuMemsetD16Async");
  if (bytes >= 4) check(driver()->cuMemsetD32Async(destination, word, bytes == 8 ? count * 2 : count, stream), "cuMemsetD32Async");
}

}  // namespace

void copy_tensor(const ir::TensorHandle& destination, const ir::TensorHandle& source) {
  if (bytes_of(destination) == 0) return;
  if (destination.device < 0 && source.device < 0) {
    do_on_host([destination, source] { copy_on_host(plan_copy(destination, source), destination.data, source.data); });
  } else if (source.device < 0) {
    upload(destination, source);
  } else if (destination.device < 0) {
    download(destination, source);
  } else if (destination.device != source.device) {
    copy_between_devices(destination, source);
  } else {
    DeviceState& device = device_state(destination.device);
    prepare(destination, device, Access::writes);
    prepare(source, device, Access::reads);
    copy_on_device(device, plan_copy(destination, source), destination.data, source.data);
  }
}

void fill_tensor(const ir::TensorHandle& destination, const void* value) {
  if (bytes_of(destination) == 0) return;
  const int bytes = byte_size(destination.element);
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, static_cast<std::size_t>(bytes));
  ir::TensorHandle one = destination;
  one.strides = {};
  if (destination.device < 0) {
    do_on_host([destination, one, bits] { copy_on_host(plan_copy(destination, one), destination.data, &bits); });
    return;
  }
  DeviceState& device = device_state(destination.device);
  prepare(destination, device, Access::writes);
  CurrentContext current(device.context);
  const std::uint32_t low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
  if (is_contiguous(destination) && (bytes < 8 || low == high))
    return set_memory(device, address(destination), &bits, bytes, bytes_of(destination) / static_cast<std::size_t>(bytes));
  // Any other pattern: one element is set, and copied to all.
  const TensorRef element = empty(ElementType::u64, TensorRef(destination).device(), {1});
  prepare(element.handle(), device, Access::writes);
  set_memory(device, address(element.handle()), &low, 4, 1);
  set_memory(device, address(element.handle()) + 4, &high, 4, 1);
  copy_on_device(device, plan_copy(destination, one), destination.data, element.data());
}

bool is_contiguous(const ir::TensorHandle& tensor) {
  std::int64_t expected = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    if (tensor.sizes[axis] == 0) return true;
    if (tensor.sizes[axis] != 1 && tensor.strides[axis] != expected) expected = -1;
    if (expected < 0) break;
    expected *= tensor.sizes[axis];
  }
  if (expected >= 0) return true;
  for (int axis = 0; axis < tensor.rank; ++axis)
    if (tensor.sizes[axis] == 0) return true;
  return false;
}

}  // namespace flextile::runtime
