#include <flextile/runtime/dlpack.hpp>

#include "kernels.hpp"

using namespace flextile;
using namespace flextile::dlpack;

namespace {

/// A tensor of another library: counts how often it is deleted.
struct Foreign {
  std::vector<f32> values = {0, 1, 2, 3, 4, 5, 6, 7};
  std::int64_t shape[2] = {3, 2}, strides[2] = {2, 1};
  int deleted = 0;
  DLManagedTensor managed{{values.data(), {device_cpu, 0}, 2, {2, 32, 1}, shape, nullptr, 8}, this,
                          [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; }};
};

}  // namespace

TEST_CASE("a tensor goes out and comes back, sharing memory") {
  for (const Device& device : Device::all()) {
    const std::int64_t before = device.memory().in_use;
    {
      Tensor<bf16> x = full<bf16>(device, {4, 6}, 2.0f);
      DLManagedTensor* out = to_dlpack(x.transpose(0, 1));
      CHECK(out->dl_tensor.ndim == 2);
      CHECK(out->dl_tensor.shape[0] == 6);
      CHECK(out->dl_tensor.strides[1] == 6);
      CHECK(out->dl_tensor.dtype.code == 4);
      const Tensor<bf16> back(from_dlpack(out));
      CHECK(back.data() == x.data());
      CHECK(back.device() == device);
      x = Tensor<bf16>();
      CHECK(device.memory().in_use > before);
      for (bf16 value : back.to_host()) CHECK(static_cast<float>(value) == 2.0f);
    }
    CHECK(device.memory().in_use == before);
  }
}

TEST_CASE("8-bit floats have DLPack's codes: float8_e4m3fn and float8_e5m2") {
  const Tensor<f8e4m3> x = full<f8e4m3>(Device::host(), {4}, 1.5f);
  const Tensor<f8e5m2> y = full<f8e5m2>(Device::host(), {4}, 1.5f);
  DLManagedTensor *first = to_dlpack(x), *second = to_dlpack(y);
  CHECK(first->dl_tensor.dtype.code == 10);
  CHECK(first->dl_tensor.dtype.bits == 8);
  CHECK(second->dl_tensor.dtype.code == 12);
  CHECK(Tensor<f8e4m3>(from_dlpack(first)).data() == x.data());
  CHECK(Tensor<f8e5m2>(from_dlpack(second)).data() == y.data());
}

TEST_CASE("a foreign tensor is kept until its last reference goes") {
  Foreign foreign;
  {
    const TensorRef x = from_dlpack(&foreign.managed);
    CHECK(x.data() == foreign.values.data() + 2);
    CHECK(Tensor<f32>(x).slice(0, 1, 3).to_host() == std::vector<f32>{4, 5, 6, 7});
    CHECK(foreign.deleted == 0);
  }
  CHECK(foreign.deleted == 1);
}

TEST_CASE("the versioned form says read-only") {
  const Tensor<i64> x = zeros<i64>(Device::host(), {2}).as_read_only();
  CHECK_SENTENCE(ArgumentError, "is read-only, which only to_dlpack_versioned can say", to_dlpack(x));
  const TensorRef back = from_dlpack(to_dlpack_versioned(x));
  CHECK(back.read_only());
  DLManagedTensorVersioned* future = to_dlpack_versioned(x);
  future->version.major = 2;
  CHECK_SENTENCE(ArgumentError, "the tensor is of DLPack 2.0; 1.x is known", from_dlpack(future));
}

TEST_CASE("what is not known is refused, and given back to its owner") {
  Foreign foreign;
  foreign.managed.dl_tensor.dtype = {5, 64, 1};
  CHECK_SENTENCE(ArgumentError, "type code 5 with 64 bits", from_dlpack(&foreign.managed));
  foreign.managed.dl_tensor.dtype = {2, 32, 1};
  foreign.managed.dl_tensor.device.device_type = 10;
  CHECK_SENTENCE(ArgumentError, "device type 10 is not known", from_dlpack(&foreign.managed));
  foreign.managed.dl_tensor.device.device_type = device_cpu;
  foreign.managed.dl_tensor.byte_offset = 3;
  CHECK_SENTENCE(ArgumentError, "no multiple of the element's 4 bytes", from_dlpack(&foreign.managed));
  foreign.managed.dl_tensor.data = nullptr;
  CHECK_SENTENCE(ArgumentError, "the address is null", from_dlpack(&foreign.managed));
  CHECK(foreign.deleted == 4);
  CHECK_SENTENCE(ArgumentError, "the tensor is null", from_dlpack(static_cast<DLManagedTensor*>(nullptr)));
}
