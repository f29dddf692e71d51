// The CUDA side against the fake driver (support/fake_cuda.cpp): skipped where another driver, or none, is open.
#include <cstring>

#include "fake_driver.hpp"
#include "kernel_record.hpp"
#include "kernels.hpp"

using namespace flextile;
using test::ask, test::fake_symbol, test::is_fake;

namespace {

struct Launch {
  std::string name;
  unsigned grid[3], block[3], shared;
  std::vector<std::uint64_t> values;   // the first eight bytes of every parameter that was asked for
};
std::vector<Launch> launches;
std::vector<int> parameter_bytes;      // sizes to read

void watch(const char* name, const unsigned* grid, const unsigned* block, unsigned shared, void** parameters) {
  Launch launch{name, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, {}};
  for (std::size_t i = 0; i < parameter_bytes.size(); ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, parameters[i], static_cast<std::size_t>(parameter_bytes[i]));
    launch.values.push_back(value);
  }
  launches.push_back(launch);
}

/// Launches are recorded in the scope, from an empty list.
struct Watching {
  explicit Watching(std::vector<int> bytes) {
    launches.clear();
    parameter_bytes = std::move(bytes);
    set(watch);
  }
  ~Watching() { set(nullptr); }
  static void set(void (*watcher)(const char*, const unsigned*, const unsigned*, unsigned, void**)) {
    reinterpret_cast<void (*)(void (*)(const char*, const unsigned*, const unsigned*, unsigned, void**))>(fake_symbol("fake_cuda_watch"))(watcher);
  }
};

/// A kernel of two views on the second device: 10 values.
struct Copying {
  const Device device = Device::cuda(1);
  const test::CopyView kernel;
  const Tensor<i32> from = zeros<i32>(device, {6, 40}), to = zeros<i32>(device, {6, 40});
  CompiledKernel compiled = select(device, kernel, from, to).compiled();
  std::unique_ptr<const runtime::KernelRecord> record() const { return runtime::load_record(std::make_shared<const CompiledKernel>(compiled), runtime::device_state(device)); }
  /// The PTX takes these parameters too, behind its own.
  void add_parameters(const std::string& more) { compiled.ptx_text.insert(compiled.ptx_text.find(')', compiled.ptx_text.find(".entry")), more); }
};

/// 0: as a driver that does not say where parameters go.
void tells_places(int says) { reinterpret_cast<void (*)(int)>(fake_symbol("fake_cuda_tells_places"))(says); }

}  // namespace

TEST_CASE("fake driver: a launch hands over the grid, the block and every flattened parameter") {
  if (!is_fake()) return;
  const Device device = Device::cuda(1);
  const test::CopyView kernel;
  const Tensor<i32> from = zeros<i32>(device, {6, 40}), to = zeros<i32>(device, {40, 6});
  const Watching watching({8, 4, 4, 8, 8, 8, 4, 4, 8, 8});
  launch(device.stream(), kernel, Grid{2, 3}, from, to.transpose(0, 1));
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].name == "copy_view");
  CHECK(std::vector<unsigned>(launches[0].grid, launches[0].grid + 3) == std::vector<unsigned>{2, 3, 1});
  CHECK(launches[0].block[0] == 128);
  const auto address = [](const TensorRef& tensor) { return reinterpret_cast<std::uint64_t>(tensor.data()); };
  CHECK(launches[0].values == std::vector<std::uint64_t>{address(from), 6, 40, 40, 1, address(to), 6, 40, 1, 6});
}

TEST_CASE("fake driver: scalars arrive in the parameter's own type") {
  if (!is_fake()) return;
  const Device device = Device::cuda(0);
  const test::AddScaled kernel;
  const Tensor<f32> x = zeros<f32>(device, {64});
  const Watching watching({8, 8, 8, 4, 4});
  launch(device.stream(), kernel, Grid{1}, x, x, x, -3, 1);
  float one = 1;
  std::uint32_t bits;
  std::memcpy(&bits, &one, 4);
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].values[3] == 0xfffffffdu);
  CHECK(launches[0].values[4] == bits);
}

TEST_CASE("fake driver: parameters are handed over as one block, or by pointers where the driver does not say what goes where") {
  if (!is_fake()) return;
  const Copying copying;
  const auto& [device, kernel, from, to, compiled] = copying;
  const auto record = copying.record();
  tells_places(0);
  const auto of_an_old_driver = copying.record();
  tells_places(1);
  REQUIRE(record->places.size() == 10);
  CHECK(record->places[1].offset == 8);
  CHECK(record->places[2].offset == 12);
  CHECK(record->places[3].offset == 16);       // strides have eight bytes
  CHECK(record->places[9].bytes == 8);
  CHECK(of_an_old_driver->places.empty());
  const Watching watching({8, 4, 4, 8, 8, 8, 4, 4, 8, 8});
  const std::size_t before = ask("fake_cuda_blocks");
  launch(device.stream(), LoadedKernel(record.get()), Grid{1}, from, to);
  CHECK(ask("fake_cuda_blocks") == before + 1);
  launch(device.stream(), LoadedKernel(of_an_old_driver.get()), Grid{1}, from, to);
  CHECK(ask("fake_cuda_blocks") == before + 1);
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].values == launches[1].values);
  CHECK(launches[0].values[5] == reinterpret_cast<std::uint64_t>(to.data()));
}

TEST_CASE("fake driver: a kernel that waits for the launch before it is placed while that one runs, another one is not") {
  if (!is_fake()) return;
  Copying copying;
  const auto& [device, kernel, from, to, compiled] = copying;
  for (const bool waits : {true, false}) {
    copying.compiled.overlaps = waits;
    const auto record = copying.record();
    const std::size_t before = ask("fake_cuda_overlapping");
    launch(device.stream(), LoadedKernel(record.get()), Grid{1}, from, to);
    CHECK(ask("fake_cuda_overlapping") == before + (waits ? 1 : 0));
  }
}

TEST_CASE("fake driver: tensor maps stand behind the arguments, and a repeated launch makes none") {
  if (!is_fake()) return;
  Copying copying;
  const auto& [device, kernel, from, to, compiled] = copying;
  const Tensor<i32> other = zeros<i32>(device, {1, 16});
  copying.compiled.tensor_maps = {{0, {4, 32}, 128}, {1, {2, 8}, 32}};
  copying.add_parameters(", .param .align 64 .b8 first_map[128], .param .align 64 .b8 second_map[128]");
  tells_places(0);
  const auto of_an_old_driver = copying.record();
  tells_places(1);
  const auto record = copying.record();
  REQUIRE(record->places.size() == 12);
  CHECK(record->places[10].offset % 64 == 0);
  CHECK(record->places[11].bytes == 128);
  const LoadedKernel loaded(record.get());
  static std::vector<std::vector<std::uint64_t>> maps;
  maps.clear();
  const auto read_maps = [](const char*, const unsigned*, const unsigned*, unsigned, void** parameters) {
    for (int i = 10; i < 12; ++i) {
      const auto* words = static_cast<const std::uint64_t*>(parameters[i]);
      maps.emplace_back(words, words + 16);
    }
  };
  const auto map_of = [](const TensorRef& tensor, std::uint64_t stride, std::uint64_t columns, std::uint64_t rows, std::uint64_t swizzle) {
    return std::vector<std::uint64_t>{reinterpret_cast<std::uint64_t>(tensor.data()), static_cast<std::uint64_t>(tensor.shape()[1]),
                                      static_cast<std::uint64_t>(tensor.shape()[0]), 0, 0, 0, stride, 0, 0, 0, columns, rows, 0, 0, 0, 3 | swizzle << 8 | 2 << 16};
  };
  const Watching watching({});
  Watching::set(read_maps);
  const std::size_t before = ask("fake_cuda_tensor_maps");
  for (int i = 0; i < 3; ++i) launch(device.stream(), loaded, Grid{1}, from, to);
  CHECK(ask("fake_cuda_tensor_maps") == before + 2);
  REQUIRE(maps.size() == 6);
  for (std::size_t i = 0; i < 6; i += 2) {
    CHECK(maps[i] == map_of(from, 160, 32, 4, 3));
    CHECK(maps[i + 1] == map_of(to, 160, 8, 2, 1));
  }
  launch(device.stream(), loaded, Grid{1}, other, to);
  REQUIRE(maps.size() == 8);
  CHECK(maps[6] == map_of(other, 16, 32, 4, 3));
  CHECK(maps[7] == map_of(to, 160, 8, 2, 1));
  launch(device.stream(), loaded, Grid{1}, from.slice(0, 2, 2), to);   // empty: one zero, in memory of its own
  REQUIRE(maps.size() == 10);
  CHECK(maps[8][1] == 1);
  CHECK(maps[8][2] == 1);
  CHECK(*reinterpret_cast<const i32*>(maps[8][0]) == 0);
  launch(device.stream(), LoadedKernel(of_an_old_driver.get()), Grid{1}, from, to);
  REQUIRE(maps.size() == 12);
  CHECK(maps[10] == maps[0]);
  CHECK(maps[11] == maps[1]);
  CHECK_SENTENCE(ArgumentError, "needs an address, strides and a last extent of multiples of 16 bytes, the strides above 0 and below 2^40 bytes",
                 launch(device.stream(), loaded, Grid{1}, from.slice(1, 1, 33), to));
}

TEST_CASE("fake driver: programs that stay on the device: as many as it holds, the grid and a counter of the stream's or the graph's own") {
  if (!is_fake()) return;
  Copying copying;
  const auto& [device, kernel, from, to, compiled] = copying;
  copying.compiled.resident = true;
  copying.add_parameters(", .param .u32 x, .param .u32 y, .param .u32 z, .param .u64 counter");
  const auto record = copying.record();
  REQUIRE(record->places.size() == 14);
  const LoadedKernel loaded(record.get());
  const std::int64_t held = record->workers;
  CHECK(held >= device.properties().multiprocessors);
  const Watching watching({8, 4, 4, 8, 8, 8, 4, 4, 8, 8, 4, 4, 4, 8});   // two views, three extents, the counter
  const Stream other = Stream::create(device);
  launch(device.stream(), loaded, Grid{3, 5, 2}, from, to);
  launch(device.stream(), loaded, Grid{70000, 4}, from, to);
  launch(other, loaded, Grid{1}, from, to);
  const Graph graph = Graph::capture(other, [&] {
    launch(other, loaded, Grid{2}, from, to);
    launch(other, loaded, Grid{2}, from, to);
  });
  REQUIRE(launches.size() == 5);
  CHECK(launches[0].grid[0] == std::min<std::int64_t>(30, held));
  CHECK(launches[1].grid[0] == held);
  for (const Launch& launch : launches) CHECK((launch.grid[1] == 1 && launch.grid[2] == 1));
  CHECK((launches[0].values[10] == 3 && launches[0].values[11] == 5 && launches[0].values[12] == 2));
  CHECK((launches[1].values[10] == 70000 && launches[1].values[11] == 4 && launches[1].values[12] == 1));
  auto counter = [](std::size_t i) { return launches[i].values[13]; };
  for (std::size_t i = 0; i < 5; ++i) CHECK(*reinterpret_cast<const std::uint32_t*>(counter(i)) == 0);
  CHECK(counter(0) == counter(1));
  CHECK(counter(2) != counter(0));
  CHECK(counter(3) == counter(4));
  CHECK(counter(3) != counter(2));
  CHECK_SENTENCE(ArgumentError, "all programs together must be below 2^31", launch(device.stream(), loaded, Grid{65536, 65535}, from, to));
}

TEST_CASE("fake driver: the same code is loaded on each device, resources are what the driver says") {
  if (!is_fake()) return;
  const test::AddScaled kernel;
  const Tensor<f32> x = zeros<f32>(Device::cuda(0), {4}), y = zeros<f32>(Device::cuda(1), {4});
  const LoadedKernel first = select(Device::cuda(0), kernel, x, x, x, 4, 1.0f), second = select(Device::cuda(1), kernel, y, y, y, 4, 1.0f);
  CHECK(first.record() != second.record());
  CHECK(first.compiled().ptx() == second.compiled().ptx());
  CHECK(first.compiled().resource_usage.registers == 77);
  CHECK_SENTENCE(ArgumentError, "it is loaded on cuda:0 and the stream is of cuda:1", launch(Device::cuda(1).stream(), first, Grid{1}, y, y, y, 4, 1.0f));
}

TEST_CASE("fake driver: a module that is refused gives the driver's log") {
  if (!is_fake()) return;
  test::AddScaled kernel;
  kernel.kernel_name = "fake_cuda_refuses_this";
  const std::string sentence =
      test::message_of<DriverError>([&] { load(kernel.trace(kernel.signature()), Device::cuda(0)); });
  CHECK(sentence.find("cuModuleLoadDataEx returned CUDA_ERROR_INVALID_PTX") != std::string::npos);
  CHECK(sentence.find("kernel \"fake_cuda_refuses_this\"") != std::string::npos);
  CHECK(sentence.find("ptxas fatal: the fake driver refuses this") != std::string::npos);
}

TEST_CASE("fake driver: out of memory gives the numbers, after cached memory was given back") {
  if (!is_fake()) return;
  const Device device = Device::cuda(1);
  constexpr std::int64_t mebibyte = 1 << 20;
  { const Tensor<u8> half = empty<u8>(device, {600 * mebibyte}); }
  if (test::keeps_memory()) CHECK(device.memory().cached >= 600 * mebibyte);
  const Tensor<u8> most = empty<u8>(device, {800 * mebibyte});        // needs what the first one had
  CHECK_SENTENCE(DriverError, "out of memory on cuda:1 (Fake GPU 1): asked for 400 MiB (419430400 bytes)", empty<u8>(device, {400 * mebibyte}));
  CHECK_SENTENCE(DriverError, "of 1 GiB (1073741824 bytes) are free, flextile's tensors hold", empty<u8>(device, {400 * mebibyte}));
}

TEST_CASE("fake driver: a temporary costs no driver call") {
  if (!is_fake() || !test::keeps_memory()) return;
  const Device device = Device::cuda(0);
  { const Tensor<f32> x = empty<f32>(device, {12345}); }
  const std::size_t calls = ask("fake_cuda_allocation_calls");
  for (int i = 0; i < 100; ++i) {
    const Tensor<f32> x = empty<f32>(device, {12345 - i});
    const Stream other = Stream::create(device);
    const test::AddScaled kernel;
    if (i % 10 == 0) launch(other, kernel, Grid{1}, x, x, x, 4, 1.0f);
  }
  CHECK(ask("fake_cuda_allocation_calls") <= calls + 1);
}

TEST_CASE("fake driver: streams are destroyed with their last user") {
  if (!is_fake()) return;
  const Device device = Device::cuda(0);
  const std::size_t before = ask("fake_cuda_streams");
  {
    const test::AddScaled kernel;
    const Tensor<f32> x = zeros<f32>(device, {8});
    {
      const Stream stream = Stream::create(device);
      launch(stream, kernel, Grid{1}, x, x, x, 4, 1.0f);
    }
    CHECK(ask("fake_cuda_streams") == before + 1);       // the tensor may still be in use there
  }
  { const Tensor<f32> x = empty<f32>(device, {8}); }     // settles what rested
  CHECK(ask("fake_cuda_streams") == before);
}

TEST_CASE("fake driver: a launch is captured and replayed") {
  if (!is_fake()) return;
  const Device device = Device::cuda(0);
  const test::AddScaled kernel;
  const Stream stream = Stream::create(device);
  const Tensor<f32> x = zeros<f32>(device, {8});
  const Graph graph = Graph::capture(stream, [&] {
    CHECK(stream.is_capturing());
    const Tensor<f32> temporary = empty<f32>(device, {1 << 16});   // allocating is allowed
    launch(stream, kernel, Grid{1}, x, x, temporary, 4, 1.0f);
  });
  CHECK_FALSE(stream.is_capturing());
  const std::size_t before = ask("fake_cuda_replays");
  graph.launch(stream);
  graph.launch(device.stream());
  CHECK(ask("fake_cuda_replays") == before + 2);
  CHECK_THROWS_AS(Graph::capture(stream, [&] { stream.synchronize(); }), DriverError);
  launch(stream, kernel, Grid{1}, x, x, x, 4, 1.0f);
}

TEST_CASE("a driver that cannot be used leaves the host, and a reason") {
  if (Device::count() > 0) return;
  CHECK_FALSE(Device::absence_reason().empty());
  CHECK_SENTENCE(ArgumentError, "no CUDA device that can be used: " + Device::absence_reason(), Device::cuda(0));
}
