#include "disk_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <flextile/runtime/loaded_kernel.hpp>

#include "kernel_file.hpp"

namespace flextile {

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (variable("FLEXTILE_CACHE") == "0") return "";
  if (std::string chosen = variable("FLEXTILE_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/flextile";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/flextile";
  return "";
}

namespace runtime {
namespace {

/// A file descriptor.
struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

bool read_file(const std::string& path, std::string& bytes) {
  const File file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};   // a pipe would be waited for without O_NONBLOCK
  if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file.descriptor, bytes.data() + done, bytes.size() - done);
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);  // shorter than promised: the checksum will tell
  return true;
}

bool write_file(const std::string& path, std::string_view bytes) {
  const File file{open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (file.descriptor < 0) return false;
  while (!bytes.empty()) {
    const ssize_t count = write(file.descriptor, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) mkdir(path.substr(0, at).c_str(), 0755);
  mkdir(path.c_str(), 0755);
}

/// For FLEXTILE_VERBOSE=1.
void note(const std::string& sentence) {
  const char* verbose = std::getenv("FLEXTILE_VERBOSE");
  if (verbose && std::string_view(verbose) != "0") std::fprintf(stderr, "flextile: note: %s\n", sentence.c_str());
}

}  // namespace

DiskAnswer read_cached(const std::string& key, CompiledKernel& kernel) {
  const std::string folder = cache_folder();
  std::string bytes;
  if (folder.empty() || !read_file(folder + "/" + key + ".kernel", bytes)) return DiskAnswer::absent;
  CompiledKernel read;
  if (read_kernel_file(bytes, key, read)) {
    kernel = static_cast<CompiledKernel&&>(read);
    return DiskAnswer::found;
  }
  note(folder + "/" + key + ".kernel is damaged (" + std::to_string(bytes.size()) + " bytes); it is compiled again and replaced");
  return DiskAnswer::damaged;
}

void write_cached(const std::string& key, const CompiledKernel& kernel) {
  static std::atomic<unsigned> written{0};
  const std::string folder = cache_folder();
  if (folder.empty()) return;
  const std::string path = folder + "/" + key + ".kernel";
  const std::string temporary = path + "." + std::to_string(getpid()) + "." + std::to_string(written.fetch_add(1)) + ".temporary";
  const std::string bytes = write_kernel_file(kernel, key);
  bool done = write_file(temporary, bytes);
  if (!done && access(folder.c_str(), F_OK) != 0) {
    make_folders(folder);
    done = write_file(temporary, bytes);
  }
  if (done && rename(temporary.c_str(), path.c_str()) == 0) return;
  unlink(temporary.c_str());
  note("the compiled kernel \"" + kernel.kernel_name + "\" cannot be kept in " + folder + "; the next process compiles it again");
}

}  // namespace runtime
}  // namespace flextile
