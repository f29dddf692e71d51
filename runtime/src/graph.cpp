#include <flextile/runtime/graph.hpp>

#include <utility>

#include <flextile/ir/error.hpp>

#include "capture.hpp"
#include "driver.hpp"
#include "program_counter.hpp"
#include "storage.hpp"

namespace flextile::runtime {
namespace {

thread_local Capture* current_capture = nullptr;
constexpr int capture_relaxed = 2;  // the thread may allocate and load modules meanwhile

}  // namespace

struct GraphState {
  Stream stream;              // where it was captured
  Capture capture;
  void* executable = nullptr;
};

Capture* capture_of(const StreamState* stream) { return current_capture && current_capture->stream == stream ? current_capture : nullptr; }
void set_capture(Capture* capture) { current_capture = capture; }
bool thread_captures() { return current_capture != nullptr; }

void do_on_host(std::function<void()> work) {
  if (current_capture && current_capture->stream == &device_state(-1).default_stream)
    current_capture->host_work.push_back(std::move(work));
  else
    work();
}

}  // namespace flextile::runtime

namespace flextile {

using runtime::check;
using runtime::CurrentContext;
using runtime::driver;

Graph::Graph(const Stream& stream) {
  if (runtime::thread_captures()) throw ArgumentError("flextile: Graph::capture inside another capture of the same thread");
  runtime::StreamState* captured = stream.state();
  if (captured->device->index >= 0) {
    CurrentContext current(captured->device->context);
    runtime::order_after(captured, &captured->device->default_stream);
    check(driver()->cuStreamBeginCapture_v2(captured->native, runtime::capture_relaxed), "cuStreamBeginCapture");
  }
  state_ = new runtime::GraphState{stream, {captured, {}, {}, nullptr}};
  runtime::set_capture(&state_->capture);
}

void Graph::finish() {
  runtime::set_capture(nullptr);
  runtime::StreamState* captured = state_->capture.stream;
  if (captured->device->index < 0) return;
  CurrentContext current(captured->device->context);
  void* graph = nullptr;
  check(driver()->cuStreamEndCapture(captured->native, &graph), "cuStreamEndCapture",
        [] { return std::string("something in the captured work cannot be recorded: reading back, or waiting for the stream"); });
  const int result = driver()->cuGraphInstantiateWithFlags(&state_->executable, graph, 0);
  driver()->cuGraphDestroy(graph);
  check(result, "cuGraphInstantiate");
}

void Graph::abandon() noexcept {
  runtime::set_capture(nullptr);
  runtime::StreamState* captured = state_->capture.stream;
  if (captured->device->index < 0) return;
  try {
    CurrentContext current(captured->device->context);
    void* graph = nullptr;
    driver()->cuStreamEndCapture(captured->native, &graph);
    if (graph) driver()->cuGraphDestroy(graph);
  } catch (const Error&) {  // the context is gone, and the capture with it
  }
}

Graph::~Graph() {
  if (!state_) return;
  if (state_->executable) {
    try {
      CurrentContext current(state_->capture.stream->device->context);
      driver()->cuGraphExecDestroy(state_->executable);
    } catch (const Error&) {  // the context is gone, and the graph with it
    }
  }
  runtime::free_program_counter(*state_->capture.stream->device, state_->capture.counter);
  delete state_;
}

Device Graph::device() const { return state_->stream.device(); }

void Graph::launch(const Stream& stream) const {
  if (!state_) throw ArgumentError("flextile: Graph::launch: the graph was moved from");
  runtime::StreamState* captured = state_->capture.stream;
  if (stream.state()->device != captured->device)
    throw ArgumentError("flextile: Graph::launch: the graph is of " + device().name() + " and the stream of " + stream.device().name());
  for (const ir::TensorHandle& tensor : state_->capture.tensors)
    if (runtime::Storage* storage = runtime::storage_of(tensor)) {
      runtime::use_on(*storage, stream.state());
      if (!tensor.read_only) storage->version.fetch_add(1, std::memory_order_relaxed);
    }
  if (captured->device->index < 0) {
    for (const auto& work : state_->capture.host_work) work();
    return;
  }
  CurrentContext current(captured->device->context);
  check(driver()->cuGraphLaunch(state_->executable, stream.native()), "cuGraphLaunch");
}

}  // namespace flextile
