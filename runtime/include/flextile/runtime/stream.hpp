// Streams, events and timers. Work on one stream runs in order; events order streams among each other.
#pragma once
#include <flextile/runtime/device.hpp>

namespace flextile {

namespace runtime {
struct StreamState;
struct EventState;
}  // namespace runtime

class Event;

/// A queue of work on one device. Cheap to copy; copies are the same queue. On the host, work is done when the call
/// that queued it returns.
class Stream {
 public:
  /// The host's default stream.
  Stream();
  /// A new queue on `device`. It is destroyed when the last copy is, and its queued work still completes.
  static Stream create(const Device& device);
  /// A CUstream that belongs to the caller and outlives every tensor that is used on it.
  static Stream from_native(const Device& device, void* native);

  Stream(const Stream& other);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream other) noexcept;
  ~Stream();

  Device device() const;
  /// The CUstream; null on the host.
  void* native() const;
  /// Returns when everything queued so far is done.
  void synchronize() const;
  /// What is queued after this call starts after what `event` recorded.
  void wait(const Event& event) const;
  bool is_capturing() const;
  bool operator==(const Stream& other) const { return state_ == other.state_; }

  runtime::StreamState* state() const { return state_; }

 private:
  friend class Device;
  explicit Stream(runtime::StreamState* state) : state_(state) {}
  runtime::StreamState* state_;
};

/// A point in a stream's work.
class Event {
 public:
  explicit Event(const Device& device = Device::host());
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Marks the end of what is queued on `stream` now.
  void record(const Stream& stream);
  /// Returns when what was recorded is done. An event that was never recorded is done.
  void synchronize() const;
  bool is_done() const;
  Device device() const;
  /// Milliseconds from `start` to `end`. Both must be recorded; waits for `end`.
  static double elapsed(const Event& start, const Event& end);

  runtime::EventState* state() const { return state_; }

 private:
  runtime::EventState* state_ = nullptr;
};

/// Times work on a stream by the device's own clock.
///
///   Timer timer(stream);
///   timer.start();
///   launch(stream, ...);
///   double milliseconds = timer.stop();
class Timer {
 public:
  explicit Timer(const Stream& stream) : stream_(stream), start_(stream.device()), end_(stream.device()) {}
  void start() { start_.record(stream_); }
  /// Waits, and returns the milliseconds since start().
  double stop() {
    end_.record(stream_);
    return Event::elapsed(start_, end_);
  }

 private:
  Stream stream_;
  Event start_, end_;
};

}  // namespace flextile
