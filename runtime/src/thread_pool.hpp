// The threads that run host kernels. The caller works too, so nested and concurrent calls always make progress.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace flextile::runtime {

class ThreadPool {
 public:
  using Body = void (*)(void* context, std::int64_t begin, std::int64_t end);

  /// The process's pool, with host_threads() threads, the caller among them.
  static ThreadPool& instance();

  int threads() const { return wanted_.load(std::memory_order_relaxed) + 1; }
  void resize(int threads);
  /// Calls body for pieces that together are 0 <= i < count, in order of starting, from several threads; returns when all
  /// are done. The first exception of a piece is thrown here, after the others have stopped.
  void run(std::int64_t count, std::int64_t piece, Body body, void* context);

 private:
  struct Job;
  ThreadPool();
  void grow();
  void work(int index);
  Job* find_job();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> jobs_;
  int started_ = 0;   // worker threads that exist
  std::atomic<int> wanted_;   // worker threads that may work: threads - 1
};

/// parallel_for(n, piece, [&](begin, end) {...}).
template <class F>
void parallel_for(std::int64_t count, std::int64_t piece, F&& function) {
  ThreadPool::instance().run(
      count, piece, [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<F*>(context))(begin, end); }, &function);
}

}  // namespace flextile::runtime
