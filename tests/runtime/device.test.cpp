#include <atomic>
#include <thread>

#include "kernels.hpp"

using namespace flextile;

TEST_CASE("the host is always there, devices have names that parse") {
  CHECK(Device::all().front() == Device::host());
  CHECK(static_cast<int>(Device::all().size()) == Device::count() + 1);
  CHECK(Device() == Device::host());
  for (const Device& device : Device::all()) {
    CHECK(Device::parse(device.name()) == device);
    CHECK_FALSE(device.properties().name.empty());
    CHECK(device.memory().total > 0);
    CHECK(device.stream() == device.stream());
    CHECK(device.stream().device() == device);
    CHECK(device.target().is_gpu() == !device.is_host());
    device.synchronize();
  }
  CHECK(Device::absence_reason().empty() == (Device::count() > 0));
}

TEST_CASE("a device that is not there is refused with what is") {
  CHECK_SENTENCE(ArgumentError, "there is no device cuda:63: this machine has", Device::cuda(63));
  CHECK_SENTENCE(ArgumentError, "index is -1 and must not be negative", Device::cuda(-1));
  const std::string names = Device::count() ? "and must be host, cuda or cuda:N, and this machine has" : "and must be host: this machine has no CUDA device";
  CHECK_SENTENCE(ArgumentError, "the name is \"gpu\" " + names, Device::parse("gpu"));
  for (const char* name : {"", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda: 0", "cuda:63", "cuda:99999999999", "Host"})
    CHECK_SENTENCE(ArgumentError, names, Device::parse(name));
}

TEST_CASE("best() is the first GPU, or the host, or what FLEXTILE_DEVICE says") {
  if (!std::getenv("FLEXTILE_DEVICE")) {
    CHECK(Device::best() == (Device::count() > 0 ? Device::cuda(0) : Device::host()));
    setenv("FLEXTILE_DEVICE", "host", 1);
    CHECK(Device::best() == Device::host());
    setenv("FLEXTILE_DEVICE", "moon", 1);
    CHECK_THROWS_AS(Device::best(), ArgumentError);
    unsetenv("FLEXTILE_DEVICE");
  }
}

TEST_CASE("describe_devices lists every device, or says why there is no GPU") {
  const std::string text = describe_devices();
  CHECK(text.find("host") == 0);
  if (Device::count() == 0) CHECK(text.find("no GPU: ") != std::string::npos);
  for (int i = 0; i < Device::count(); ++i) CHECK(text.find("cuda:" + std::to_string(i)) != std::string::npos);
}

TEST_CASE("streams, events and timers") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Stream stream = Stream::create(device), copy = stream;
    CHECK(stream == copy);
    CHECK_FALSE(stream == device.stream());
    CHECK_FALSE(stream.is_capturing());
    Event start(device), end(device);
    CHECK(start.is_done());
    CHECK_SENTENCE(ArgumentError, "start was never recorded", Event::elapsed(start, end));
    start.record(stream);
    device.stream().wait(start);
    end.record(stream);
    end.synchronize();
    CHECK(end.is_done());
    CHECK(Event::elapsed(start, end) >= 0);
    Timer timer(stream);
    timer.start();
    CHECK(timer.stop() >= 0);
    stream.synchronize();
    const Event moved = std::move(end);
    CHECK(moved.is_done());
    if (!device.is_host()) CHECK_SENTENCE(ArgumentError, "they must be of one device", start.record(Device::host().stream()));
  }
  CHECK_SENTENCE(ArgumentError, "device is host and must be a CUDA device", Stream::from_native(Device::host(), nullptr));
}

TEST_CASE("the number of host threads can be set, within bounds") {
  const int threads = host_threads();
  CHECK(threads >= 1);
  set_host_threads(3);
  CHECK(host_threads() == 3);
  set_host_threads(threads);
  CHECK_SENTENCE(ArgumentError, "count is 0 and must be from 1 to 1024", set_host_threads(0));
}

TEST_CASE("results do not depend on the number of threads") {
  const test::AddScaled kernel;
  const Device host = Device::host();
  const int threads = host_threads(), n = 100'000;
  const Tensor<f32> x = random_normal<f32>(host, {n}, 1), y = random_normal<f32>(host, {n}, 2);
  std::vector<f32> first;
  for (int count : {1, 2, 7}) {
    set_host_threads(count);
    const Tensor<f32> out = zeros<f32>(host, {n});
    launch(host.stream(), kernel, Grid{ceil_div(n, 128)}, x, y, out, n, 0.25f);
    if (first.empty()) first = out.to_host();
    CHECK(out.to_host() == first);
  }
  set_host_threads(threads);
}

TEST_CASE("many threads make tensors, launch and read at once") {
  const test::AddScaled kernel;
  for (const Device& device : test::devices_that_run()) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        const Stream stream = Stream::create(device);
        for (int round = 0; round < 20; ++round) {
          const int n = 300 + 128 * t;
          const Tensor<f32> x = full<f32>(device, {n}, static_cast<f32>(t)), out = zeros<f32>(device, {n});
          launch(stream, kernel, Grid{ceil_div(n, 128)}, x, x, out, n, static_cast<f32>(round));
          for (f32 value : out.to_host())
            if (value != static_cast<f32>(t * (1 + round))) ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}
