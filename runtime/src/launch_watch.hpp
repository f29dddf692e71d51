// What a thread launches: tuning asks which kernels a candidate ran.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "kernel_record.hpp"

namespace flextile::runtime {

/// While one is alive, it notes each kernel that its thread launches, once each. Watches nest: the inner one alone notes.
class LaunchWatch {
 public:
  LaunchWatch() : outer_(std::exchange(current, this)) {}
  ~LaunchWatch() { current = outer_; }
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  const std::vector<const KernelRecord*>& kernels() const { return kernels_; }
  static void note(const KernelRecord& kernel) {
    if (!current) return;
    auto& known = current->kernels_;
    if (std::find(known.begin(), known.end(), &kernel) == known.end()) known.push_back(&kernel);
  }

 private:
  static inline constinit thread_local LaunchWatch* current = nullptr;
  std::vector<const KernelRecord*> kernels_;
  LaunchWatch* outer_;
};

}  // namespace flextile::runtime
