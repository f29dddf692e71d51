#include "files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace flextile::runtime {
namespace {

/// A file descriptor.
struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

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

}  // namespace

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

bool replace_file(const std::string& folder, const std::string& name, std::string_view bytes) {
  static std::atomic<unsigned> written{0};
  const std::string path = folder + "/" + name;
  const std::string temporary = path + "." + std::to_string(getpid()) + "." + std::to_string(written.fetch_add(1)) + ".temporary";
  bool done = write_file(temporary, bytes);
  if (!done && access(folder.c_str(), F_OK) != 0) {
    make_folders(folder);
    done = write_file(temporary, bytes);
  }
  if (done && rename(temporary.c_str(), path.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

void mark_used(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace flextile::runtime
