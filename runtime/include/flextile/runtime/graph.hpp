// Graphs: work recorded once from a stream, then repeated with one call.
#pragma once
#include <flextile/runtime/stream.hpp>

namespace flextile {

namespace runtime {
struct GraphState;
}

/// A CUDA graph; on the host, a list of the recorded launches, fills and copies. Keeps the tensors alive that it uses.
///
///   Graph step = Graph::capture(stream, [&] { launch(stream, kernel, grid, x, y); });
///   step.launch(stream);
class Graph {
 public:
  /// Runs `work`, whose work on `stream` is recorded and not done. Reading results back inside is an error.
  template <class Work>
  static Graph capture(const Stream& stream, Work&& work) {
    Graph graph(stream);
    try {
      work();
    } catch (...) {
      graph.abandon();
      throw;
    }
    graph.finish();
    return graph;
  }

  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Graph& operator=(Graph&& other) noexcept {
    runtime::GraphState* state = state_;
    state_ = other.state_, other.state_ = state;
    return *this;
  }
  ~Graph();

  /// Queues everything that was recorded, with the tensors of then and their contents of now.
  void launch(const Stream& stream) const;
  Device device() const;

 private:
  explicit Graph(const Stream& stream);
  void finish();
  void abandon() noexcept;
  runtime::GraphState* state_ = nullptr;
};

}  // namespace flextile
