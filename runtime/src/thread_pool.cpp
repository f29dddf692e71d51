#include "thread_pool.hpp"

#include <atomic>
#include <charconv>
#include <exception>
#include <string>
#include <thread>

#include <flextile/ir/environment.hpp>
#include <flextile/runtime/device.hpp>

namespace flextile::runtime {
namespace {

constexpr int most_threads = 1024;

int threads_of_environment() {
  const std::string text = ir::environment("FLEXTILE_THREADS");
  if (text.empty()) {
    const int hardware = static_cast<int>(std::thread::hardware_concurrency());
    return hardware < 1 ? 1 : hardware > most_threads ? most_threads : hardware;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most_threads)
    ir::refuse_environment("FLEXTILE_THREADS", "a whole number from 1 to " + std::to_string(most_threads));
  return value;
}

}  // namespace

/// On the caller's stack while it runs. `helpers` counts the workers inside, under the pool's mutex.
struct ThreadPool::Job {
  std::int64_t count;
  std::int64_t piece;
  Body body;
  void* context;
  std::atomic<std::int64_t> next{0};
  std::atomic<int> helpers{0};
  std::mutex error_mutex{};
  std::exception_ptr error{};
  std::condition_variable done{};

  bool has_work() const { return next.load(std::memory_order_relaxed) < count; }

  void work() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(piece, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        body(context, begin, count - begin < piece ? count : begin + piece);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }
};

ThreadPool& ThreadPool::instance() {
  static ThreadPool* const pool = new ThreadPool;  // its threads sleep until the process ends
  return *pool;
}

ThreadPool::ThreadPool() : wanted_(threads_of_environment() - 1) {}

void ThreadPool::resize(int threads) {
  if (threads < 1 || threads > most_threads)
    throw ArgumentError("flextile: set_host_threads: count is " + std::to_string(threads) + " and must be from 1 to " +
                        std::to_string(most_threads));
  std::lock_guard lock(mutex_);
  wanted_ = threads - 1;
}

void ThreadPool::grow() {
  while (started_ < wanted_) {
    try {
      std::thread([this, index = started_] { work(index); }).detach();
    } catch (const std::system_error&) {
      wanted_ = started_;  // the system gives no more threads; the caller works alone or with fewer
      return;
    }
    ++started_;
  }
}

ThreadPool::Job* ThreadPool::find_job() {
  for (Job* job : jobs_)
    if (job->has_work()) return job;
  return nullptr;
}

void ThreadPool::work(int index) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = index < wanted_ ? find_job() : nullptr;
    if (!job) {
      wake_.wait(lock);
      continue;
    }
    job->helpers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    job->work();
    lock.lock();
    if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) job->done.notify_one();
  }
}

void ThreadPool::run(std::int64_t count, std::int64_t piece, Body body, void* context) {
  if (count <= 0) return;
  if (piece < 1) piece = 1;
  Job job{count, piece, body, context};
  const bool shared = count > piece;
  if (shared) {
    std::lock_guard lock(mutex_);
    grow();
    jobs_.push_back(&job);
    wake_.notify_all();
  }
  job.work();
  if (shared) {
    std::unique_lock lock(mutex_);
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      if (jobs_[i] == &job) jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    job.done.wait(lock, [&] { return job.helpers.load(std::memory_order_acquire) == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace flextile::runtime

namespace flextile {

int host_threads() { return runtime::ThreadPool::instance().threads(); }
void set_host_threads(int count) { runtime::ThreadPool::instance().resize(count); }

}  // namespace flextile
