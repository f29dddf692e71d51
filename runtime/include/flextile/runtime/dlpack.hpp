// Tensors in and out by DLPack, the exchange format of PyTorch, JAX, NumPy and others. The structs below have the
// layout of DLPack 1.0's C header, so a pointer to its DLManagedTensor can be cast to ours and back.
#pragma once
#include <flextile/runtime/tensor_ref.hpp>

namespace flextile::dlpack {

inline constexpr std::int32_t device_cpu = 1;
inline constexpr std::int32_t device_cuda = 2;
inline constexpr std::int32_t device_cuda_host = 3;      // pinned memory, which the host reads
inline constexpr std::int32_t device_cuda_managed = 13;

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;       // 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;   // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

inline constexpr std::uint64_t flag_read_only = 1;

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

/// The receiver calls `deleter` when it is done; until then the memory lives. ArgumentError for a read-only tensor, which
/// only the versioned form can say.
DLManagedTensor* to_dlpack(const TensorRef& tensor);
DLManagedTensorVersioned* to_dlpack_versioned(const TensorRef& tensor);

/// Takes the tensor over: its deleter runs when the last reference goes, and at once where the tensor is refused.
/// The caller orders the producer's work before ours.
TensorRef from_dlpack(DLManagedTensor* managed);
TensorRef from_dlpack(DLManagedTensorVersioned* managed);

}  // namespace flextile::dlpack
