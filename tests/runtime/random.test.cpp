#include <cmath>
#include <cstring>

#include "kernels.hpp"

using namespace flextile;

TEST_CASE("normal numbers have mean 0 and deviation 1 and do not depend on the threads") {
  const Tensor<f32> x = random_normal<f32>(Device::host(), {1 << 18}, 7);
  double sum = 0, squares = 0, fourth = 0;
  for (f32 value : x.to_host()) sum += value, squares += double(value) * value, fourth += std::pow(double(value), 4);
  const double count = 1 << 18;
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(squares / count == doctest::Approx(1).epsilon(0.01));
  CHECK(fourth / count == doctest::Approx(3).epsilon(0.03));
  const int threads = host_threads();
  set_host_threads(1);
  const bool same_alone = random_normal<f32>(Device::host(), {1 << 18}, 7).to_host() == x.to_host();
  set_host_threads(5);
  const bool same_in_five = random_normal<f32>(Device::host(), {1 << 18}, 7).to_host() == x.to_host();
  set_host_threads(threads);
  CHECK(same_alone);
  CHECK(same_in_five);
}

TEST_CASE("a shorter tensor is the beginning of a longer one, and devices agree") {
  const std::vector<f32> longer = random_normal<f32>(Device::host(), {1003}, 3).to_host();
  const std::vector<f32> shorter = random_normal<f32>(Device::host(), {501}, 3).to_host();
  CHECK(std::memcmp(longer.data(), shorter.data(), 501 * sizeof(f32)) == 0);
  for (const Device& device : Device::all()) CHECK(random_normal<f32>(device, {17, 59}, 3).to_host() == longer);
}

TEST_CASE("seeds give different numbers, and so do calls without one") {
  const Device host = Device::host();
  CHECK(random_normal<f32>(host, {64}, 1).to_host() != random_normal<f32>(host, {64}, 2).to_host());
  CHECK(random_normal<f32>(host, {64}).to_host() != random_normal<f32>(host, {64}).to_host());
}

TEST_CASE("every float type, and ranges") {
  const Device host = Device::host();
  for (f16 value : random_uniform<f16>(host, {1000}, -2, 3, 1).to_host()) CHECK((static_cast<float>(value) >= -2 && static_cast<float>(value) <= 3));
  for (bf16 value : random_normal<bf16>(host, {1000}, 1).to_host()) CHECK(std::abs(static_cast<float>(value)) < 6);
  for (f64 value : random_uniform<f64>(host, {1000}, 5, 6, 1).to_host()) CHECK((value >= 5 && value < 6));
  int counts[4] = {};
  for (i64 value : random_integers<i64>(host, {4000}, -2, 2, 1).to_host()) ++counts[value + 2];
  for (int count : counts) CHECK((count > 850 && count < 1150));
  CHECK_SENTENCE(ArgumentError, "the element type is i32 and must be a float type", random_normal<i32>(host, {4}));
  CHECK_SENTENCE(ArgumentError, "the range is 3 <= x < 3 and must hold a number", random_integers<i32>(host, {4}, 3, 3));
  CHECK_SENTENCE(ArgumentError, "must be finite with lo <= hi", random_uniform<f32>(host, {4}, 1, 0));
}

TEST_CASE("documents are packed: ids grow by one at a time, with the mean length that was asked for") {
  const std::vector<i32> ids = document_ids(Device::host(), 65536).to_host();
  CHECK(ids.front() == 0);
  for (std::size_t i = 1; i < ids.size(); ++i) REQUIRE((ids[i] == ids[i - 1] || ids[i] == ids[i - 1] + 1));
  CHECK((ids.back() > 70 && ids.back() < 160));
  CHECK(document_ids(Device::host(), 65536).to_host() == ids);
  CHECK(document_ids(Device::host(), 1).to_host() == std::vector<i32>{0});
  CHECK(document_ids(Device::host(), 0).to_host().empty());
  CHECK_SENTENCE(ArgumentError, "mean_length is 0.5", document_ids(Device::host(), 8, 1, 0.5));
}
