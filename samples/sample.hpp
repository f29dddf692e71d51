// What the samples share: a timer and the last line.
#pragma once
#include <flextile/flextile.hpp>

#include <cstdio>

namespace sample {

/// Best time of `repeats` runs after one that compiles and warms up, in milliseconds.
template <class Work>
double milliseconds(const flextile::Device& device, Work work, int repeats = 5) {
  work();
  device.synchronize();
  flextile::Timer timer(device.stream());
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    timer.start();
    work();
    const double taken = timer.stop();
    if (taken < best) best = taken;
  }
  return best;
}

/// The program's exit code, with one line that says how it went.
inline int finish(const char* name, bool right, const char* compared) {
  std::printf("%s: %s (%s)\n", name, right ? "right" : "WRONG", compared);
  return right ? 0 : 1;
}

}  // namespace sample
