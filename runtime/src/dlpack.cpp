#include <flextile/runtime/dlpack.hpp>

#include <string>

#include "storage.hpp"

namespace flextile::dlpack {
namespace {

enum TypeCode : std::uint8_t { code_signed = 0, code_unsigned = 1, code_float = 2, code_bfloat = 4, code_bool = 6, code_float8_e4m3fn = 10, code_float8_e5m2 = 12 };

DLDataType to_type(ElementType element) {
  const auto bits = static_cast<std::uint8_t>(byte_size(element) * 8);
  if (element == ElementType::i1) return {code_bool, 8, 1};
  if (element == ElementType::bf16) return {code_bfloat, 16, 1};
  if (element == ElementType::f8e4m3) return {code_float8_e4m3fn, 8, 1};
  if (element == ElementType::f8e5m2) return {code_float8_e5m2, 8, 1};
  return {is_float(element) ? code_float : is_unsigned(element) ? code_unsigned : code_signed, bits, 1};
}

ElementType from_type(DLDataType type) {
  for (int i = 0; i < element_type_count; ++i) {
    const auto element = static_cast<ElementType>(i);
    const DLDataType candidate = to_type(element);
    if (candidate.code == type.code && candidate.bits == type.bits && type.lanes == 1) return element;
  }
  throw ArgumentError("flextile: from_dlpack: elements of type code " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits and " +
                      std::to_string(type.lanes) + " lanes are not known; known are bool, integers of 8 to 64 bits, float8_e4m3fn, float8_e5m2, f16, bf16, f32, f64");
}

Device from_device(DLDevice device) {
  if (device.device_type == device_cpu || device.device_type == device_cuda_host) return Device::host();
  if (device.device_type == device_cuda || device.device_type == device_cuda_managed) return Device::cuda(device.device_id);
  throw ArgumentError("flextile: from_dlpack: device type " + std::to_string(device.device_type) + " is not known; known are CPU (1) and CUDA (2)");
}

/// What an exported tensor keeps: the tensor, and the arrays that the struct points to.
template <class Managed>
struct Exported {
  Managed managed{};
  TensorRef tensor;
  TensorShape shape, strides;
};

template <class Managed>
Exported<Managed>* export_tensor(const TensorRef& tensor) {
  if (!tensor) throw ArgumentError("flextile: to_dlpack: this is no tensor");
  auto* exported = new Exported<Managed>{{}, tensor, tensor.shape(), tensor.strides()};
  DLTensor& out = exported->managed.dl_tensor;
  out.data = tensor.data();
  out.device = tensor.device().is_host() ? DLDevice{device_cpu, 0} : DLDevice{device_cuda, tensor.device().index()};
  out.ndim = tensor.rank();
  out.dtype = to_type(tensor.element());
  out.shape = exported->shape.data();
  out.strides = exported->strides.data();
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return exported;
}

template <class Managed>
void destroy(void* managed) {
  auto* self = static_cast<Managed*>(managed);
  if (self->deleter) self->deleter(self);
}

/// Calls the deleter unless the tensor was taken over.
template <class Managed>
struct Taken {
  Managed* managed;
  ~Taken() {
    if (managed) destroy<Managed>(managed);
  }
};

template <class Managed>
TensorRef import_tensor(Managed* managed, bool read_only) {
  Taken<Managed> taken{managed};
  const DLTensor& in = managed->dl_tensor;
  const ElementType element = from_type(in.dtype);
  const Device device = from_device(in.device);
  if (in.ndim < 0 || (in.ndim > 0 && !in.shape)) throw ArgumentError("flextile: from_dlpack: ndim is " + std::to_string(in.ndim) + " and shape is null");
  const TensorShape shape(in.shape, in.shape + in.ndim);
  const TensorShape strides = in.strides ? TensorShape(in.strides, in.strides + in.ndim) : TensorShape();
  void* data = in.data ? static_cast<char*>(in.data) + in.byte_offset : nullptr;
  const TensorRef measured = borrow(element, device, data, shape, strides);   // checks shape and address
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(byte_size(element)) != 0)
    throw ArgumentError("flextile: from_dlpack: the address is no multiple of the element's " + std::to_string(byte_size(element)) + " bytes");
  auto* storage = new runtime::Storage(runtime::device_state(device), destroy<Managed>, managed);
  taken.managed = nullptr;
  ir::TensorHandle handle = runtime::make_handle(storage);
  handle.data = data, handle.element = element, handle.rank = measured.handle().rank, handle.read_only = read_only;
  handle.sizes = measured.handle().sizes, handle.strides = measured.handle().strides;
  return TensorRef(handle);
}

}  // namespace

DLManagedTensor* to_dlpack(const TensorRef& tensor) {
  if (tensor.read_only()) throw ArgumentError("flextile: to_dlpack: " + to_string(tensor) + " is read-only, which only to_dlpack_versioned can say");
  return &export_tensor<DLManagedTensor>(tensor)->managed;
}

DLManagedTensorVersioned* to_dlpack_versioned(const TensorRef& tensor) {
  DLManagedTensorVersioned* managed = &export_tensor<DLManagedTensorVersioned>(tensor)->managed;
  managed->version = {1, 0};
  managed->flags = tensor.read_only() ? flag_read_only : 0;
  return managed;
}

TensorRef from_dlpack(DLManagedTensor* managed) {
  if (!managed) throw ArgumentError("flextile: from_dlpack: the tensor is null");
  return import_tensor(managed, false);
}

TensorRef from_dlpack(DLManagedTensorVersioned* managed) {
  if (!managed) throw ArgumentError("flextile: from_dlpack: the tensor is null");
  if (managed->version.major != 1) {
    const std::string version = std::to_string(managed->version.major) + "." + std::to_string(managed->version.minor);
    destroy<DLManagedTensorVersioned>(managed);
    throw ArgumentError("flextile: from_dlpack: the tensor is of DLPack " + version + "; 1.x is known");
  }
  return import_tensor(managed, managed->flags & flag_read_only);
}

}  // namespace flextile::dlpack
