#include <flextile/runtime/stream.hpp>

#include <chrono>
#include <utility>

#include <flextile/ir/error.hpp>

#include "device_state.hpp"
#include "driver.hpp"
#include "program_counter.hpp"

namespace flextile::runtime {
namespace {

constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_without_time = 2;

}  // namespace

/// On the host a recorded event is a point in time: the work before it is done already.
struct EventState {
  DeviceState* device;
  void* native = nullptr;
  bool recorded = false;
  std::chrono::steady_clock::time_point time{};
};

void retain(StreamState* stream) { stream->references.fetch_add(1, std::memory_order_relaxed); }

void release(StreamState* stream) {
  if (stream->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  free_program_counter(*stream->device, stream->counter.load());
  if (stream->owned && stream->native) {
    try {
      CurrentContext current(stream->device->context);
      driver()->cuStreamDestroy_v2(stream->native);
    } catch (const Error&) {  // the context is gone, and the stream with it
    }
  }
  delete stream;
}

bool is_capturing(const StreamState* stream) {
  if (!stream->native) return false;
  int status = 0;
  CurrentContext current(stream->device->context);
  driver()->cuStreamIsCapturing(stream->native, &status);
  return status != 0;
}

void order_after(StreamState* later, StreamState* earlier) {
  if (later == earlier || earlier->device->index < 0) return;
  CurrentContext current(earlier->device->context);
  void* event = nullptr;
  check(driver()->cuEventCreate(&event, event_without_time), "cuEventCreate");
  int result = driver()->cuEventRecord(event, earlier->native);
  if (result == driver_success) {
    CurrentContext waiting(later->device->context);
    result = driver()->cuStreamWaitEvent(later->native, event, 0);
  }
  driver()->cuEventDestroy_v2(event);  // the driver keeps it until the wait is over
  check(result, "cuStreamWaitEvent");
}

}  // namespace flextile::runtime

namespace flextile {

using runtime::check;
using runtime::CurrentContext;
using runtime::driver;

Stream::Stream() : Stream(Device::host().stream()) {}

Stream Stream::create(const Device& device) {
  runtime::DeviceState& owner = runtime::device_state(device);
  void* native = nullptr;
  if (!device.is_host()) {
    CurrentContext current(owner.context);
    check(driver()->cuStreamCreate(&native, runtime::stream_non_blocking), "cuStreamCreate");
  }
  auto* state = new runtime::StreamState;
  state->device = &owner, state->native = native, state->owned = true;
  return Stream(state);
}

Stream Stream::from_native(const Device& device, void* native) {
  if (device.is_host()) throw ArgumentError("flextile: Stream::from_native: device is host and must be a CUDA device");
  auto* state = new runtime::StreamState;
  state->device = &runtime::device_state(device), state->native = native;
  return Stream(state);
}

Stream::Stream(const Stream& other) : state_(other.state_) { runtime::retain(state_); }
Stream::Stream(Stream&& other) noexcept : state_(other.state_) { runtime::retain(state_); }
Stream& Stream::operator=(Stream other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Stream::~Stream() { runtime::release(state_); }

Device Stream::device() const { return state_->device->index < 0 ? Device::host() : Device::cuda(state_->device->index); }
void* Stream::native() const { return state_->native; }

void Stream::synchronize() const {
  if (state_->device->index < 0) return;
  CurrentContext current(state_->device->context);
  check(driver()->cuStreamSynchronize(state_->native), "cuStreamSynchronize",
        [] { return std::string("a kernel that ran earlier may have failed: its error arrives here"); });
}

void Stream::wait(const Event& event) const {
  runtime::EventState* other = event.state();
  if (!other || !other->recorded || !other->native) return;
  if (state_->device->index < 0) return event.synchronize();
  CurrentContext current(state_->device->context);
  check(driver()->cuStreamWaitEvent(state_->native, other->native, 0), "cuStreamWaitEvent");
}

bool Stream::is_capturing() const { return runtime::is_capturing(state_); }

Event::Event(const Device& device) {
  runtime::DeviceState& owner = runtime::device_state(device);
  void* native = nullptr;
  if (!device.is_host()) {
    CurrentContext current(owner.context);
    check(driver()->cuEventCreate(&native, 0), "cuEventCreate");
  }
  state_ = new runtime::EventState{&owner, native};
}

Event::Event(Event&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Event::~Event() {
  if (!state_) return;
  if (state_->native) {
    try {
      CurrentContext current(state_->device->context);
      driver()->cuEventDestroy_v2(state_->native);
    } catch (const Error&) {  // the context is gone, and the event with it
    }
  }
  delete state_;
}

Device Event::device() const { return state_->device->index < 0 ? Device::host() : Device::cuda(state_->device->index); }

void Event::record(const Stream& stream) {
  if (stream.state()->device != state_->device)
    throw ArgumentError("flextile: Event::record: the event is of " + device().name() + ", the stream of " + stream.device().name() +
                        ": they must be of one device");
  if (state_->native) {
    CurrentContext current(state_->device->context);
    check(driver()->cuEventRecord(state_->native, stream.native()), "cuEventRecord");
  } else {
    state_->time = std::chrono::steady_clock::now();
  }
  state_->recorded = true;
}

void Event::synchronize() const {
  if (!state_->native || !state_->recorded) return;
  CurrentContext current(state_->device->context);
  const runtime::RelaxedCapture relaxed;
  check(driver()->cuEventSynchronize(state_->native), "cuEventSynchronize");
}

bool Event::is_done() const {
  if (!state_->native || !state_->recorded) return true;
  CurrentContext current(state_->device->context);
  const runtime::RelaxedCapture relaxed;
  const int result = driver()->cuEventQuery(state_->native);
  if (result == runtime::driver_error_not_ready) return false;
  check(result, "cuEventQuery");
  return true;
}

double Event::elapsed(const Event& start, const Event& end) {
  if (!start.state_->recorded || !end.state_->recorded)
    throw ArgumentError(std::string("flextile: Event::elapsed: ") + (start.state_->recorded ? "end" : "start") + " was never recorded");
  if (start.state_->device != end.state_->device)
    throw ArgumentError("flextile: Event::elapsed: start is of " + start.device().name() + ", end of " + end.device().name() +
                        ": they must be of one device");
  if (!start.state_->native) return std::chrono::duration<double, std::milli>(end.state_->time - start.state_->time).count();
  end.synchronize();
  float milliseconds = 0;
  CurrentContext current(start.state_->device->context);
  check(driver()->cuEventElapsedTime(&milliseconds, start.state_->native, end.state_->native), "cuEventElapsedTime");
  return milliseconds;
}

}  // namespace flextile
