// A cache folder of a test's own, and processes that share it.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <flextile/runtime/launch.hpp>

namespace flextile::test {

namespace fs = std::filesystem;

/// A cache folder of its own for one test; the environment is put back afterwards.
struct CacheFolder {
  fs::path path = fs::temp_directory_path() / ("flextile_test_" + std::to_string(getpid()) + "_" + std::to_string(new_kernel_identity()));
  std::string before = std::getenv("FLEXTILE_CACHE_DIR") ? std::getenv("FLEXTILE_CACHE_DIR") : "";
  CacheFolder() {
    setenv("FLEXTILE_CACHE_DIR", path.c_str(), 1);
    forget_cached_kernels();
  }
  ~CacheFolder() {
    if (before.empty())
      unsetenv("FLEXTILE_CACHE_DIR");
    else
      setenv("FLEXTILE_CACHE_DIR", before.c_str(), 1);
    fs::permissions(path, fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(path, ignored);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path, ignored)) found.push_back(entry.path());
    return found;
  }
  mutable std::error_code ignored;
};

/// work(i) in `count` processes at once; each must answer true.
template <class Work>
void in_processes(int count, Work&& work) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(work(i) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

}  // namespace flextile::test
