#include "kernels.hpp"

using namespace flextile;

TEST_CASE("a captured launch runs when the graph does, with the contents of then") {
  const test::AddScaled kernel;
  for (const Device& device : test::devices_that_run())
    for (const bool own : {false, true}) {
      CAPTURE(device.name());
      CAPTURE(own);
      const Stream stream = own ? Stream::create(device) : device.stream();
      const Tensor<f32> x = full<f32>(device, {200}, 1), out = full<f32>(device, {200}, -1);
      launch(stream, kernel, Grid{2}, x, x, out, 0, 2.0f);
      const Graph graph = Graph::capture(stream, [&] {
        launch(stream, kernel, Grid{2}, x, x, out, 200, 2.0f);
        launch(stream, kernel, Grid{2}, out, x, out, 200, 1.0f);
      });
      CHECK(out.to_host() == std::vector<f32>(200, -1));
      graph.launch(stream);
      CHECK(out.to_host() == std::vector<f32>(200, 4));
      x.fill(10);
      const std::uint64_t version = out.version(), x_version = x.version();
      graph.launch(stream);
      graph.launch(stream);
      CHECK(out.to_host() == std::vector<f32>(200, 40));
      CHECK(out.version() > version);
      CHECK(x.version() == x_version);
      CHECK(graph.device() == device);
    }
}

TEST_CASE("fills and copies on the default stream are captured, the graph keeps what it uses") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Tensor<i32> out = zeros<i32>(device, {3, 4});
    std::int64_t in_use = 0;
    {
      const Graph graph = Graph::capture(device.stream(), [&] {
        const Tensor<i32> temporary = empty<i32>(device, {4, 3});
        temporary.fill(3);
        out.copy_from(temporary.transpose(0, 1));
      });
      CHECK(out.to_host() == std::vector<i32>(12, 0));
      in_use = device.memory().in_use;
      const Tensor<i32> other = full<i32>(device, {4, 3}, 9);   // does not get the temporary's memory
      graph.launch(device.stream());
      CHECK(out.to_host() == std::vector<i32>(12, 3));
      CHECK(other.to_host() == std::vector<i32>(12, 9));
    }
    CHECK(device.memory().in_use < in_use);
  }
}

TEST_CASE("what cannot be captured is said, and the stream works afterwards") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Tensor<i32> x = full<i32>(device, {4}, 2);
    CHECK_THROWS_AS(Graph::capture(device.stream(), [&] { x.to_host(); }), ArgumentError);
    CHECK_THROWS_AS(Graph::capture(device.stream(), [&] { Graph::capture(device.stream(), [] {}); }), ArgumentError);
    CHECK_THROWS_AS(Graph::capture(device.stream(), [] { throw 1; }), int);
    x.fill(5);
    CHECK(x.to_host() == std::vector<i32>(4, 5));
    const Graph empty = Graph::capture(device.stream(), [] {});
    empty.launch(device.stream());
    if (!device.is_host()) CHECK_SENTENCE(ArgumentError, "the graph is of " + device.name(), empty.launch(Device::host().stream()));
  }
}
