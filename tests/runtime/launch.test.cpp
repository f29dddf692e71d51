#include <limits>
#include <numeric>

#include "kernels.hpp"

using namespace flextile;
using test::AddScaled;
using test::CopyView;

namespace {

std::vector<f32> ramp(int count, f32 step) {
  std::vector<f32> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<f32>(i) * step;
  return values;
}

/// The sentence of a launch of AddScaled with these arguments.
template <class... A>
std::string refusal(const A&... arguments) {
  static const AddScaled kernel;
  return test::message_of<ArgumentError>([&] { launch(Device::host().stream(), kernel, Grid{1}, arguments...); });
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a kernel runs on every device") {
  const AddScaled kernel;
  for (const Device& device : test::devices_that_run()) {
    CAPTURE(device.name());
    const int n = 1000;
    const Tensor x = from_host(device, ramp(n, 1)), y = from_host(device, ramp(n, 2)), out = zeros<f32>(device, {n + 8});
    launch(device.stream(), kernel, Grid{ceil_div(n, 128)}, x, y, out, n, 0.5);
    std::vector<f32> expected = ramp(n, 2);
    expected.resize(n + 8, 0);
    CHECK(out.to_host() == expected);
  }
}

TEST_CASE("a launch sees all that the launch before it has written, also where it is placed while that one runs") {
  const AddScaled kernel;
  for (const Device& device : test::devices_that_run()) {
    CAPTURE(device.name());
    const int n = device.is_host() ? 3000 : 200'000, launches = device.is_host() ? 300 : 3000;
    const Tensor<f32> ones = full<f32>(device, {n}, 1);
    for (const int count : {n, 500}) {                                    // many programs, and few that end at once
      const Tensor<f32> a = zeros<f32>(device, {n}), b = zeros<f32>(device, {n});
      for (int i = 0; i < launches; ++i) {                                // to[j] = from[j + 1] + 1: from another thread, and from another program
        const Tensor<f32>&from = i % 2 ? b : a, &to = i % 2 ? a : b;
        launch(device.stream(), kernel, Grid{ceil_div(count - 1, 128)}, from.slice(0, 1, count), ones, to, count - 1, 1.0f);
      }
      const std::vector<f32> last = (launches % 2 ? b : a).to_host();
      int wrong = 0;
      for (int j = 0; j + launches < count - 1; ++j) wrong += last[static_cast<std::size_t>(j)] != static_cast<f32>(launches);
      for (int j = std::max(0, count - 1 - launches); j < count - 1; ++j) wrong += last[static_cast<std::size_t>(j)] != static_cast<f32>(count - 1 - j);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a whole number is a grid along x") {
  const AddScaled kernel;
  for (const Device& device : test::devices_that_run()) {
    const Tensor<f32> x = full<f32>(device, {200}, 1), out = zeros<f32>(device, {200});
    const Stream stream = device.stream();
    launch(stream, kernel, 2, x, x, out, 200, 1.0f);
    CHECK(out.to_host() == std::vector<f32>(200, 2));
    launch(stream, select(device, kernel, x, x, out, 200, 2.0f), ceil_div(std::int64_t{200}, 128), x, x, out, 200, 2.0f);
    CHECK(out.to_host() == std::vector<f32>(200, 3));
    launch(stream, kernel, {2, 1}, x, x, out, 200, 3.0f);
    CHECK(out.to_host() == std::vector<f32>(200, 4));
    CHECK_SENTENCE(ArgumentError, "the grid is -3x1x1", launch(stream, kernel, -3, x, x, out, 200, 3.0f));
  }
}

TEST_CASE("views bring their sizes and strides, three-dimensional grids number their programs") {
  const CopyView kernel;
  std::vector<i32> values(21 * 50);
  std::iota(values.begin(), values.end(), 0);
  for (const Device& device : test::devices_that_run()) {
    CAPTURE(device.name());
    const Tensor from = from_host(device, values, {21, 50});
    const Tensor<i32> to = zeros<i32>(device, {50, 21});
    launch(device.stream(), kernel, Grid{6, 4}, from, to.transpose(0, 1));
    CHECK(to.transpose(0, 1).to_host() == values);
    const Tensor<i32> part = zeros<i32>(device, {21, 50});
    launch(device.stream(), kernel, Grid{6, 4}, from.slice(1, 1, 50), part.slice(1, 0, 49));
    CHECK(part.slice(1, 0, 49).to_host() == from.slice(1, 1, 50).to_host());
    CHECK(part.select(1, 49).to_host() == std::vector<i32>(21, 0));
  }
}

TEST_CASE("the variant follows the arguments' alignment") {
  const AddScaled kernel;
  const Device host = Device::host();
  const Tensor<f32> x = zeros<f32>(host, {64}), out = zeros<f32>(host, {64});
  launch(host.stream(), kernel, Grid{1}, x, x, out, 16, 1.0f);
  CHECK(kernel.traces == 1);
  launch(host.stream(), kernel, Grid{1}, x.slice(0, 4, 20), x, out, 8, 2.0f);   // 16 bytes further: the same class
  CHECK(kernel.traces == 1);
  launch(host.stream(), kernel, Grid{1}, x.slice(0, 1, 17), x, out, 8, 2.0f);
  CHECK(kernel.traces == 2);
  launch(host.stream(), kernel, Grid{1}, x.slice(0, 3, 17), x, out, 8, 2.0f);
  CHECK(kernel.traces == 2);
  const Tensor<f32> odd = x.slice(0, 1, 5);
  const Argument arguments[] = {odd, x, out, 4, 1.0f};
  const std::vector<ir::Parameter> facts = argument_facts(host, "k", kernel.signature(), arguments, 5);
  CHECK_FALSE(facts[0].aligned);
  CHECK(facts[1].aligned);
}

TEST_CASE("views are aligned by address and strides, and have a unit stride or not") {
  const Device host = Device::host();
  const CopyView kernel;
  const auto facts = [&](const TensorRef& x) {
    const Argument arguments[] = {x, x};
    const ir::Parameter parameter = argument_facts(host, "k", kernel.signature(), arguments, 2)[0];
    return std::pair(parameter.aligned, parameter.unit_stride);
  };
  const Tensor<i32> x = zeros<i32>(host, {8, 12});
  CHECK(facts(x) == std::pair(true, true));
  CHECK(facts(x.slice(1, 4, 12)) == std::pair(true, true));
  CHECK(facts(x.slice(1, 1, 12)) == std::pair(false, true));
  CHECK(facts(x.transpose(0, 1)) == std::pair(false, false));
  CHECK(facts(zeros<i32>(host, {8, 10})) == std::pair(false, true));
  CHECK(facts(borrow(ElementType::i32, host, x.data(), {1, 8}, {9, 1})) == std::pair(true, true));   // the stride of one row moves nothing
  CHECK(facts(x.slice(1, 0, 8)) == std::pair(true, true));
  CHECK(facts(x.slice(1, 0, 10)) == std::pair(false, true));              // the last 16 bytes of a row are not all its own
  CHECK(facts(x.slice(1, 0, 1)) == std::pair(false, true));

  // What the copy engine cannot step by: repetition, backwards, 2^40 bytes. Nothing is read of the memory below.
  alignas(16) static i32 memory[16];
  const auto strided = [&](const TensorShape& shape, const TensorShape& strides) { return facts(borrow(ElementType::i32, host, memory, shape, strides)); };
  const std::int64_t beyond = std::int64_t{1} << 38;   // elements of 4 bytes
  CHECK(strided({2, 4}, {0, 1}) == std::pair(false, true));
  CHECK(strided({1, 4}, {0, 1}) == std::pair(true, true));
  CHECK(strided({2, 4}, {beyond - 4, 1}) == std::pair(true, true));
  CHECK(strided({2, 4}, {beyond, 1}) == std::pair(false, true));
  CHECK(strided({1, 4}, {beyond, 1}) == std::pair(true, true));
  CHECK(strided({2, 0}, {0, 1}) == std::pair(true, true));   // an empty tensor steps nowhere
}

TEST_CASE("a loaded kernel refuses arguments that its code does not fit") {
  const AddScaled kernel;
  const Device host = Device::host();
  const Tensor<f32> x = zeros<f32>(host, {64});
  const LoadedKernel loaded = select(host, kernel, x, x, x, 8, 1.0f);
  CHECK(loaded.name() == "add_scaled");
  CHECK(loaded.device() == host);
  CHECK(loaded.compiled().parameters[0].aligned);
  launch(host.stream(), loaded, Grid{1}, x, x, x, 8, 1.0f);
  CHECK_SENTENCE(ArgumentError, "argument 1 (y) is tensor<63xf32> on host and must be a tensor of f32: this variant of the kernel needs an address",
                 launch(host.stream(), loaded, Grid{1}, x, x.slice(0, 1, 64), x, 8, 1.0f));
  CHECK_SENTENCE(ArgumentError, "no kernel", launch(host.stream(), LoadedKernel(), Grid{1}));
}

TEST_CASE("a wrong argument is named, with what it is and what it must be") {
  const Device host = Device::host();
  const Tensor<f32> x = zeros<f32>(host, {8});
  CHECK(has(refusal(x, x), "launch of kernel \"add_scaled\": 2 arguments are given and it has 5 parameters (x, y, out, n, factor)"));
  CHECK(has(refusal(x, zeros<f64>(host, {8}), x, 8, 1), "argument 1 (y) is tensor<8xf64> on host and must be a tensor of f32: the element type differs"));
  CHECK(has(refusal(x, 3, x, 8, 1), "argument 1 (y) is 3 (i32) and must be a tensor of f32: a number is no tensor"));
  CHECK(has(refusal(x, x, x, x, 1), "argument 3 (n) is tensor<8xf32> on host and must be a number, i32: a tensor is no number"));
  CHECK(has(refusal(x, x, x, 1.5, 1), "argument 3 (n) is 1.500000 (f64) and must be a number, i32: it would lose its fraction"));
  CHECK(has(refusal(x, x, x, std::int64_t{1} << 31, 1), "argument 3 (n) is 2147483648 (i64) and must be a number, i32: it does not fit"));
  CHECK(has(refusal(x, x, x, std::numeric_limits<u64>::max(), 1), "18446744073709551615 (u64)"));
  CHECK(has(refusal(x, x, x.as_read_only(), 8, 1), "argument 2 (out) is tensor<8xf32> on host and must be a tensor of f32: the kernel writes it"));
  CHECK(has(refusal(x, x, Tensor<f32>(), 8, 1), "argument 2 (out) is no tensor and must be a tensor of f32"));
  CHECK(refusal(x.as_read_only(), x, x, 8u, true).empty());
  for (const Device& device : Device::all())
    if (!device.is_host()) CHECK(has(refusal(x, x.to(device), x, 8, 1), "the stream is of host; move the tensor with .to(device)"));
}

TEST_CASE("views of the wrong rank or of too many elements are refused") {
  const Device host = Device::host();
  const CopyView kernel;
  i32 one = 1;
  const TensorRef wide = borrow(ElementType::i32, host, &one, {1, std::int64_t{1} << 31}, {0, 0});
  const Tensor<i32> x = zeros<i32>(host, {4, 4});
  CHECK_SENTENCE(ArgumentError, "argument 0 (from) is tensor<4xi32> on host and must be a tensor of 2 axes of i32: it has 1 axis",
                 launch(host.stream(), kernel, Grid{1}, x.select(0, 0), x));
  CHECK_SENTENCE(ArgumentError, "axis 1 has more than 2147483647 elements", launch(host.stream(), kernel, Grid{1}, wide, x));
  CHECK_SENTENCE(ArgumentError, "argument 1 (to) is null", launch(host.stream(), kernel, Grid{1}, x, nullptr));
}

TEST_CASE("grids have limits, and an empty one runs nothing") {
  const CopyView kernel;
  for (const Device& device : Device::all()) {
    const Tensor<i32> x = zeros<i32>(device, {4, 16}), y = full<i32>(device, {4, 16}, 5);
    const std::uint64_t version = y.version();
    launch(device.stream(), kernel, Grid{0}, x, y);
    launch(device.stream(), kernel, Grid{1, 0, 7}, x, y);
    CHECK(y.to_host() == std::vector<i32>(64, 5));
    CHECK(y.version() == version);
    CHECK_SENTENCE(ArgumentError, "the grid is -1x1x1; axis x must be from 0 to 2147483647", launch(device.stream(), kernel, Grid{-1}, x, y));
    CHECK_SENTENCE(ArgumentError, "axis x must be", launch(device.stream(), kernel, Grid{std::int64_t{1} << 31}, x, y));
    if (!device.is_host()) CHECK_SENTENCE(ArgumentError, "axis y must be from 0 to 65535", launch(device.stream(), kernel, Grid{1, 65536}, x, y));
  }
}

TEST_CASE("a launch counts as a write of what it may write") {
  const AddScaled kernel;
  for (const Device& device : test::devices_that_run()) {
    const Tensor<f32> x = zeros<f32>(device, {8}), out = zeros<f32>(device, {8});
    const std::uint64_t x_version = x.version(), out_version = out.version();
    launch(device.stream(), kernel, Grid{1}, x, x, out, 8, 1.0f);
    CHECK(x.version() == x_version);
    CHECK(out.version() == out_version + 1);
  }
}

TEST_CASE("a family makes its kernels from facts, and what it makes must have its parameters") {
  const Device host = Device::host();
  const AddScaled model;
  KernelFamily family("family", model.signature(), [&](const std::vector<ir::Parameter>& facts) { return model.trace(facts); });
  const KernelFamily moved = std::move(family);
  const Tensor<f32> x = full<f32>(host, {8}, 2), out = zeros<f32>(host, {8});
  launch(host.stream(), moved, Grid{1}, x, x, out, 8, 3.0f);
  CHECK(out.to_host() == std::vector<f32>(8, 8));
  const KernelFamily liar("liar", CopyView().signature(), [&](const std::vector<ir::Parameter>&) { return model.trace(model.signature()); });
  const Tensor<i32> y = zeros<i32>(host, {2, 2});
  CHECK_SENTENCE(CompileError, "kernel \"liar\": the traced function has other parameters than signature() says",
                 launch(host.stream(), liar, Grid{1}, y, y));
}
