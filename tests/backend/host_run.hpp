// Runs a kernel of the tests on the host back end and in the plain interpreter.
#pragma once
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <flextile/backend/host_module.hpp>
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "../support/interpreter.hpp"

namespace flextile::test {

/// Arguments as HostEntry takes them.
class Arguments {
 public:
  template <class T> Arguments& pointer(T* address) { return add(const_cast<std::remove_const_t<T>*>(address)); }
  template <class T> Arguments& scalar(T value) { return add(value); }
  template <class T> Arguments& view(T* base, const std::vector<std::int32_t>& sizes, std::vector<std::int64_t> strides = {}) {
    pointer(base);
    if (strides.empty()) {
      strides.assign(sizes.size(), 1);
      for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
    }
    for (std::int32_t size : sizes) add(size);
    for (std::int64_t stride : strides) add(stride);
    return *this;
  }
  void* const* data() const { return pointers_.data(); }

 private:
  template <class T> Arguments& add(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    cells_.push_back(bits);
    pointers_.push_back(&cells_.back());
    return *this;
  }
  std::deque<std::uint64_t> cells_;
  std::vector<void*> pointers_;
};

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500;
  return values;
}

/// Grid {count, 1, 1}, one program after the other.
inline void run_host(const ir::Function& function, const Arguments& arguments, int count = 1, const CompileOptions& options = {}) {
  const HostModule module(compile(function, Target::host(), options));
  for (int i = 0; i < count; ++i) {
    const HostProgram program{{i, 0, 0}, {count, 1, 1}};
    module.entry()(arguments.data(), &program);
  }
}

inline void run_interpreter(const ir::Function& function, const Arguments& arguments, int count = 1) {
  for (int i = 0; i < count; ++i) interpret(function, arguments.data(), HostProgram{{i, 0, 0}, {count, 1, 1}});
}

template <class T> double as_double(T value) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) return static_cast<float>(value);
  else return static_cast<double>(value);
}

/// Every element within `tolerance` of the other's, relative to 1 + its size.
template <class T> void check_close(const std::vector<T>& got, const std::vector<T>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  int bad = 0;
  for (std::size_t i = 0; i < got.size() && bad < 3; ++i) {
    const double a = as_double(got[i]), b = as_double(expected[i]);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * (1 + std::fabs(b));
    if (same) continue;
    MESSAGE("element " << i << ": " << a << ", expected " << b);
    ++bad;
  }
  CHECK(bad == 0);
}

}  // namespace flextile::test
