#include <cmath>
#include <numeric>

#include "kernels.hpp"

using namespace flextile;
using test::message_of;

namespace {

std::vector<i32> counting(std::int64_t count) {
  std::vector<i32> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

template <class T>
std::vector<T> picked(const std::vector<T>& values, std::initializer_list<int> indices) {
  std::vector<T> result;
  for (int index : indices) result.push_back(values[static_cast<std::size_t>(index)]);
  return result;
}

}  // namespace

TEST_CASE("a tensor takes values and gives them back on every device") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Tensor x = from_host(device, counting(24), {2, 3, 4});
    CHECK(x.rank() == 3);
    CHECK(x.shape() == TensorShape{2, 3, 4});
    CHECK(x.strides() == TensorShape{12, 4, 1});
    CHECK(x.size(-1) == 4);
    CHECK(x.elements() == 24);
    CHECK(x.bytes() == 96);
    CHECK(x.is_contiguous());
    CHECK(x.device() == device);
    CHECK(x.to_host() == counting(24));
    x.fill(7);
    CHECK(x.to_host() == std::vector<i32>(24, 7));
    x.copy_from(counting(24));
    CHECK(x.to_host() == counting(24));
    CHECK(zeros_like(x).to_host() == std::vector<i32>(24, 0));
  }
}

TEST_CASE("fill sets every element type") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    CHECK(full<u8>(device, {3}, 200).to_host() == std::vector<u8>(3, 200));
    CHECK(full<i16>(device, {3}, -5).to_host() == std::vector<i16>(3, -5));
    CHECK(full<f64>(device, {5}, 0.1).to_host() == std::vector<f64>(5, 0.1));
    CHECK(full<i64>(device, {2, 2}, -1).to_host() == std::vector<i64>(4, -1));
    CHECK(full<bool>(device, {2}, true).to_host() == std::vector<std::uint8_t>(2, 1));
    for (bf16 value : full<bf16>(device, {4}, 1.5f).to_host()) CHECK(static_cast<float>(value) == 1.5f);
    const Tensor<f64> columns = zeros<f64>(device, {2, 4});
    columns.slice(1, 1, 3).fill(0.3);
    CHECK(columns.to_host() == std::vector<f64>{0, 0.3, 0.3, 0, 0, 0.3, 0.3, 0});
  }
}

TEST_CASE("views share memory and read in row-major order") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const std::vector<i32> values = counting(24);
    const Tensor x = from_host(device, values, {2, 3, 4});
    CHECK(x.slice(1, 1, 3).to_host() == picked(values, {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}));
    CHECK(x.select(2, 3).to_host() == picked(values, {3, 7, 11, 15, 19, 23}));
    CHECK(x.select(0, 1).transpose(0, 1).to_host() == picked(values, {12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}));
    CHECK(x.permute({2, 0, 1}).shape() == TensorShape{4, 2, 3});
    CHECK(x.permute({2, 0, 1}).to_host() == picked(values, {0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23}));
    CHECK(x.slice(0, 0, 1).slice(1, 0, 1).slice(2, 0, 2).expand({2, 3, 2}).strides() == TensorShape{0, 0, 1});
    CHECK(x.slice(2, 1, 2).slice(1, 0, 1).expand({2, 3, 1}).to_host() == picked(values, {1, 1, 1, 13, 13, 13}));
    CHECK(x.view({4, 6}).strides() == TensorShape{6, 1});
    CHECK(x.view({-1}).shape() == TensorShape{24});
    CHECK(x.transpose(0, 1).reshape({3, 8}).to_host() == x.transpose(0, 1).to_host());
    CHECK(x.unsqueeze(1).shape() == TensorShape{2, 1, 3, 4});
    CHECK(x.unsqueeze(-1).shape() == TensorShape{2, 3, 4, 1});
    CHECK(x.slice(1, 0, 2).view({2, 2, 2, 2}).strides() == TensorShape{12, 4, 2, 1});
    CHECK_FALSE(x.slice(2, 0, 2).is_contiguous());
    CHECK(x.slice(2, 0, 2).contiguous().is_contiguous());
    CHECK(x.contiguous().data() == x.data());
    CHECK(x.clone().data() != x.data());
    x.transpose(0, 2).select(0, 0).fill(-1);
    CHECK(x.slice(2, 0, 2).to_host() == std::vector<i32>{-1, 1, -1, 5, -1, 9, -1, 13, -1, 17, -1, 21});
    x.transpose(0, 2).copy_from(from_host(Device::host(), counting(24), {4, 3, 2}));
    CHECK(x.transpose(0, 2).to_host() == counting(24));
  }
}

TEST_CASE("tensors move between devices, whatever their strides") {
  for (const Device& from : Device::all())
    for (const Device& to : Device::all()) {
      CAPTURE(from.name());
      CAPTURE(to.name());
      const Tensor x = from_host(from, counting(35), {5, 7});
      CHECK(x.to(to).to_host() == counting(35));
      CHECK(x.transpose(0, 1).to(to).to_host() == x.transpose(0, 1).to_host());
      const Tensor<i32> target = zeros<i32>(to, {7, 5});
      target.transpose(0, 1).copy_from(x);
      CHECK(target.transpose(0, 1).to_host() == counting(35));
      CHECK((x.to(to).data() == x.data()) == (from == to));
    }
}

TEST_CASE("large transpositions") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Tensor x = from_host(device, counting(3 * 70 * 101), {3, 70, 101});
    const std::vector<i32> turned = x.permute({2, 0, 1}).to_host();
    bool right = true;
    for (int i = 0; i < 101; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 70; ++k) right = right && turned[static_cast<std::size_t>((i * 3 + j) * 70 + k)] == (j * 70 + k) * 101 + i;
    CHECK(right);
    const Tensor<i32> back = zeros<i32>(device, {70, 101, 3});
    back.copy_from(x.permute({1, 2, 0}));
    CHECK(back.permute({2, 0, 1}).to_host() == counting(3 * 70 * 101));
  }
}

TEST_CASE("empty tensors and scalars are ordinary") {
  for (const Device& device : Device::all()) {
    const Tensor<f32> none = zeros<f32>(device, {3, 0, 2});
    CHECK(none.elements() == 0);
    CHECK(none.to_host().empty());
    CHECK(none.is_contiguous());
    CHECK(none.clone().shape() == TensorShape{3, 0, 2});
    const Tensor<f32> scalar = full<f32>(device, {}, 2.5f);
    CHECK(scalar.rank() == 0);
    CHECK(scalar.to_host() == std::vector<f32>{2.5f});
  }
}

TEST_CASE("writes through the API raise the version, also through views") {
  const Tensor<i32> x = zeros<i32>(Device::host(), {4});
  const std::uint64_t before = x.version();
  x.fill(1);
  CHECK(x.version() == before + 1);
  x.slice(0, 0, 2).copy_from(std::vector<i32>{5, 6});
  CHECK(version(x.handle()) == before + 2);
  x.to_host();
  CHECK(x.version() == before + 2);
  CHECK(version(ir::TensorHandle{}) == 0);
}

TEST_CASE("memory is shared, counted and reused") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const std::int64_t before = device.memory().in_use;
    void* address = nullptr;
    {
      const Tensor<f32> x = zeros<f32>(device, {1000});
      const Tensor<f32> copy = x;
      const TensorRef reference = copy.slice(0, 10, 20);
      address = x.data();
      CHECK(copy.data() == x.data());
      CHECK(reference.data() == x.data() + 10);
      CHECK(device.memory().in_use >= before + 4000);
    }
    CHECK(device.memory().in_use == before);
    if (test::keeps_memory()) CHECK(empty<f32>(device, {1000}).data() == address);
    device.release_cached_memory();
    CHECK(device.memory().cached == 0);
  }
}

TEST_CASE("what is wrong with a tensor is said in a sentence") {
  const Device host = Device::host();
  const Tensor<i32> x = zeros<i32>(host, {2, 3});
  CHECK_SENTENCE(ArgumentError, "axis 1 has size -3 and must not be negative", empty<f32>(host, {2, -3}));
  CHECK_SENTENCE(ArgumentError, "more bytes than 64 bits can count", empty<f32>(host, {std::int64_t{1} << 31, std::int64_t{1} << 31}));
  CHECK_SENTENCE(ArgumentError, "more bytes than 64 bits can count", empty<f32>(host, {0, std::int64_t{1} << 62, 8}));
  CHECK_SENTENCE(ArgumentError, "has 9 axes and may have at most 8", empty<f32>(host, {1, 1, 1, 1, 1, 1, 1, 1, 1}));
  CHECK_SENTENCE(DriverError, "out of memory on host", empty<f32>(host, {std::int64_t{1} << 58}));
  CHECK_SENTENCE(ArgumentError, "axis is 2 and the tensor has 2 axes", x.size(2));
  CHECK_SENTENCE(ArgumentError, "elements 1 to 4 are asked for", x.slice(1, 1, 4));
  CHECK_SENTENCE(ArgumentError, "index is 3, and axis 1 of tensor<2x3xi32> on host has 3 elements", x.select(1, 3));
  CHECK_SENTENCE(ArgumentError, "has 6 elements and cannot take the shape 4x2", x.view({4, 2}));
  CHECK_SENTENCE(ArgumentError, "axes 0 and 1 are both -1", x.view({-1, -1}));
  CHECK_SENTENCE(ArgumentError, "without a copy", x.transpose(0, 1).view({6}));
  CHECK_SENTENCE(ArgumentError, "only size 1 repeats", x.expand({4, 3}));
  CHECK_SENTENCE(ArgumentError, "axis 0 is given twice", x.permute({0, 0}));
  CHECK_SENTENCE(ArgumentError, "5 values are given, and tensor<2x3xi32> on host has 6 elements", x.copy_from(std::vector<i32>(5)));
  CHECK_SENTENCE(ArgumentError, "flextile: from_host: 5 values are given, and tensor<2x3xi32> on host has 6 elements",
                 from_host<i32>(host, std::vector<i32>(5), {2, 3}));
  CHECK_SENTENCE(ArgumentError, "must have the shape and element type of tensor<2x3xi32> on host", x.copy_from(zeros<f32>(host, {2, 3})));
  CHECK_SENTENCE(ArgumentError, "is read-only", x.as_read_only().fill(1));
  CHECK_SENTENCE(ArgumentError, "several of its elements share one address", x.slice(0, 0, 1).expand({5, 3}).fill(1));
  CHECK_SENTENCE(ArgumentError, "Tensor<f32> cannot refer to tensor<2x3xi32> on host", Tensor<f32>{TensorRef(x)});
  CHECK_SENTENCE(ArgumentError, "this is no tensor", Tensor<f32>().clone());
  CHECK_SENTENCE(ArgumentError, "the address is null", borrow(ElementType::f32, host, nullptr, {4}));
}

TEST_CASE("sizes and strides are 64 bits wide") {
  char byte = 1;
  const TensorRef huge = borrow(ElementType::i8, Device::host(), &byte, {1 << 20, 1 << 20}, {0, 0});
  CHECK(huge.elements() == std::int64_t{1} << 40);
  CHECK(huge.slice(0, 5, 6).select(1, 7).elements() == 1);
  const TensorRef wide = borrow(ElementType::i8, Device::host(), &byte, {4, 8}, {std::int64_t{1} << 40, 1});
  CHECK(static_cast<char*>(wide.select(0, 3).data()) - &byte == std::int64_t{3} << 40);
}
