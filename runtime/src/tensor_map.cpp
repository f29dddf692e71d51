#include "tensor_map.hpp"

#include <mutex>
#include <string>

#include <flextile/runtime/tensor_ref.hpp>

#include "argument_check.hpp"

namespace flextile::runtime {
namespace {

// CUtensorMapInterleave, CUtensorMapL2promotion and CUtensorMapFloatOOBfill numbers.
constexpr int interleave_none = 0, promote_to_256_bytes = 3, fill_with_zeros = 0;
constexpr std::uint32_t element_strides[most_tensor_map_axes] = {1, 1, 1, 1, 1};
constexpr std::uint64_t least_stride = 16;   // bytes
constexpr std::size_t zeros_bytes = 256;     // what the copy engine fetches at least, for one element too

/// CUtensorMapDataType. The copy engine moves bits, so a sign makes no difference where there is no signed type, nor does
/// what eight bits mean.
std::int32_t data_type(ElementType element) {
  switch (element) {
    case ElementType::f8e4m3:
    case ElementType::f8e5m2:
    case ElementType::i1:
    case ElementType::i8:
    case ElementType::u8: return 0;
    case ElementType::i16:
    case ElementType::u16: return 1;
    case ElementType::u32: return 2;
    case ElementType::i32: return 3;
    case ElementType::u64: return 4;
    case ElementType::i64: return 5;
    case ElementType::f16: return 6;
    case ElementType::f32: return 7;
    case ElementType::f64: return 8;
    case ElementType::bf16: return 9;
  }
  return -1;
}

/// Of f32 elements that the copy engine rounds.
constexpr std::int32_t tf32_type = 11;

/// CUtensorMapSwizzle; -1: there is none of so many bytes.
std::int32_t swizzle_mode(std::int32_t bytes) {
  switch (bytes) {
    case 0: return 0;
    case 32: return 1;
    case 64: return 2;
    case 128: return 3;
    default: return -1;
  }
}

/// What a thread remembers: maps by what was asked for. Direct-mapped; a collision only costs a call of the driver.
struct RememberedMap {
  TensorMapRequest request;
  TensorMapImage image{};
};
constexpr std::size_t remembered_count = 64;   // 2^6: six bits choose
constinit thread_local RememberedMap remembered[remembered_count];

/// Address and box tell nearly all requests of a program apart, and cost three operations.
RememberedMap& remembered_slot(const TensorMapRequest& request) {
  const std::uint64_t word = reinterpret_cast<std::uintptr_t>(request.address) + (std::uint64_t{request.box[1]} << 40) + (std::uint64_t{request.box[0]} << 48);
  return remembered[(word * 0x9E3779B97F4A7C15u) >> 58];
}

std::string product_text(const auto* values, std::size_t count) {
  std::string text;
  for (std::size_t axis = 0; axis < count; ++axis) text += (axis ? "x" : "") + std::to_string(values[axis]);
  return text;
}

[[noreturn]] void refuse_map(const CompiledKernel& kernel, std::size_t index, const std::string& reason) {
  throw InternalError("flextile: internal error: tensor map " + std::to_string(index) + " of kernel \"" + kernel.kernel_name + "\" " + reason);
}

}  // namespace

TensorMapRequest tensor_map_request(const TensorMap& map, const ir::TensorHandle& tensor, void* zeros) {
  TensorMapRequest request;
  request.rank = tensor.rank;
  request.element = map.tf32 ? tf32_type : data_type(tensor.element);
  request.swizzle = swizzle_mode(map.swizzle);
  request.address = tensor.data;
  bool is_empty = false;
  for (std::uint32_t axis = 0; axis < request.rank; ++axis) is_empty = is_empty || tensor.sizes[axis] == 0;
  if (is_empty) request.address = map.writes ? static_cast<char*>(zeros) + zeros_bytes : zeros;
  for (std::uint32_t place = 0; place < request.rank; ++place) {
    const std::uint32_t axis = request.rank - 1 - place;
    request.sizes[place] = is_empty ? 1 : static_cast<std::uint64_t>(tensor.sizes[axis]);
    request.box[place] = static_cast<std::uint32_t>(map.box[axis]);
    if (place == 0) continue;
    request.strides[place - 1] =
        request.sizes[place] == 1 ? least_stride : static_cast<std::uint64_t>(tensor.strides[axis] * byte_size(tensor.element));
  }
  return request;
}

const TensorMapImage& make_tensor_map(const CompiledKernel& kernel, const TensorMap& map, const ir::TensorHandle& tensor, void* zeros) {
  const TensorMapRequest request = tensor_map_request(map, tensor, zeros);
  RememberedMap& slot = remembered_slot(request);
  if (slot.request == request) return slot.image;
  TensorMapImage image;
  const int result = driver()->cuTensorMapEncodeTiled(&image, request.element, request.rank, request.address, request.sizes, request.strides,
                                                      request.box, element_strides, interleave_none, request.swizzle, promote_to_256_bytes,
                                                      fill_with_zeros);
  check(result, "cuTensorMapEncodeTiled", [&] {
    return "kernel \"" + kernel.kernel_name + "\", argument " + std::to_string(map.parameter) + " (" + kernel.parameters[map.parameter].name + "): " +
           to_string(TensorRef(tensor)) + ", strides " + product_text(tensor.strides.data(), tensor.rank) + ", box " +
           product_text(map.box.data(), map.box.size()) + ", swizzle " + std::to_string(map.swizzle) + " bytes";
  });
  slot.request = request;
  slot.image = image;
  return slot.image;
}

void require_tensor_maps(const CompiledKernel& kernel, const Driver& functions) {
  const std::vector<TensorMap>& maps = kernel.tensor_maps;
  if (maps.empty()) return;
  if (!functions.cuTensorMapEncodeTiled)
    throw DriverError("flextile: driver error: kernel \"" + kernel.kernel_name +
                      "\" takes tensor maps and the driver has no function cuTensorMapEncodeTiled; CUDA 12.0 or newer is needed");
  if (maps.size() > most_tensor_maps) refuse_map(kernel, most_tensor_maps, "is one more than a launch has room for");
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const TensorMap& map = maps[i];
    if (map.parameter >= kernel.parameters.size()) refuse_map(kernel, i, "is of parameter " + std::to_string(map.parameter) + ", which is not there");
    const ir::Parameter& parameter = kernel.parameters[map.parameter];
    const ir::Type& type = parameter.type;
    if (!type.is_view() || !parameter.aligned || !parameter.unit_stride || type.rank < 1 || type.rank > most_tensor_map_axes)
      refuse_map(kernel, i, "is of parameter " + parameter.name + ", which must be an aligned view of unit stride with 1 to 5 axes");
    if (map.box.size() != static_cast<std::size_t>(type.rank))
      refuse_map(kernel, i, "has a box of " + std::to_string(map.box.size()) + " axes and must have the " + std::to_string(type.rank) +
                           " of parameter " + parameter.name);
    if (map.tf32 && type.element != ElementType::f32)
      refuse_map(kernel, i, "rounds to tf32 and is of parameter " + parameter.name + ", whose elements are " + std::string(name(type.element)));
    if (swizzle_mode(map.swizzle) < 0)
      refuse_map(kernel, i, "has a swizzle of " + std::to_string(map.swizzle) + " bytes and must have one of 0, 32, 64 or 128");
  }
}

void* zeros_on(DeviceState& device) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (device.zeros) return device.zeros;
  return device.zeros = zeroed_memory(2 * zeros_bytes);
}

}  // namespace flextile::runtime
