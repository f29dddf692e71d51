#include "disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <vector>

#include <flextile/ir/environment.hpp>
#include <flextile/runtime/loaded_kernel.hpp>

#include "files.hpp"
#include "kernel_file.hpp"

namespace flextile {

using ir::environment;

std::string cache_folder() {
  if (!ir::environment_switch("FLEXTILE_CACHE", true, "no compiled kernels are kept on disk", "they are kept")) return "";
  if (std::string chosen = environment("FLEXTILE_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/flextile";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/flextile";
  return "";
}

namespace runtime {
namespace {

/// What the environment says about the cache.
struct Settings {
  std::string folder = cache_folder();
  bool verbose = ir::environment_switch("FLEXTILE_VERBOSE", false, "no notes", "notes on stderr");
  std::int64_t limit = limit_of_environment();

  static std::int64_t limit_of_environment() {
    constexpr std::int64_t gibibyte = std::int64_t{1} << 30;
    const std::string text = environment("FLEXTILE_CACHE_LIMIT");
    if (text.empty()) return gibibyte;
    std::int64_t value = -1, unit = 1;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    std::string_view rest(end, static_cast<std::size_t>(last - end));
    if (rest == "K") unit = 1 << 10, rest = "";
    if (rest == "M") unit = 1 << 20, rest = "";
    if (rest == "G") unit = gibibyte, rest = "";
    if (error != std::errc() || !rest.empty() || value < 0 || __builtin_mul_overflow(value, unit, &value))
      ir::refuse_environment("FLEXTILE_CACHE_LIMIT", "a whole number of bytes, or of KiB, MiB or GiB with K, M or G at its end");
    return value;
  }
  void note(const std::string& sentence) const {
    if (verbose) std::fprintf(stderr, "flextile: note: %s\n", sentence.c_str());
  }
};

/// A file of the folder that is ours.
struct CacheFile {
  std::string name;
  std::int64_t bytes;
  timespec used;    // its time of modification: reading a kernel sets it
};

bool used_before(const CacheFile& a, const CacheFile& b) {
  return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
}

/// Is it <32 hexadecimal digits>.kernel or .tuning, followed by nothing or, a temporary file, by something that ends in .temporary?
/// Nothing else in the folder is touched.
bool is_ours(std::string_view name, bool& temporary) {
  constexpr std::size_t digits = 32, suffix = 7;
  if (name.size() < digits + suffix || name.find_first_not_of("0123456789abcdef") != digits) return false;
  if (name.substr(digits, suffix) != ".kernel" && name.substr(digits, suffix) != ".tuning") return false;
  temporary = name.size() > digits + suffix;
  return !temporary || name.ends_with(".temporary");
}

/// Removes the files that were used longest ago until the rest fits the limit, and temporary files that a process which
/// ended left an hour ago or more. Other processes may read, write and remove at the same time: a file that is open stays
/// readable, one that is gone already is not missed, and one removed just after it was replaced is compiled again.
void keep_within(const Settings& settings) {
  DIR* const folder = opendir(settings.folder.c_str());
  if (!folder) return;
  std::vector<CacheFile> files;
  std::int64_t bytes = 0;
  const std::time_t now = std::time(nullptr);
  while (const dirent* entry = readdir(folder)) {
    struct stat status {};
    bool temporary = false;
    if (!is_ours(entry->d_name, temporary)) continue;
    if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) continue;
    if (temporary) {
      if (status.st_mtim.tv_sec < now - 3600) unlinkat(dirfd(folder), entry->d_name, 0);
      continue;
    }
    files.push_back({entry->d_name, static_cast<std::int64_t>(status.st_size), status.st_mtim});
    bytes += files.back().bytes;
  }
  if (bytes > settings.limit) {
    std::sort(files.begin(), files.end(), used_before);
    int removed = 0;
    for (const CacheFile& file : files) {
      if (bytes <= settings.limit) break;
      unlinkat(dirfd(folder), file.name.c_str(), 0);
      bytes -= file.bytes, ++removed;
    }
    settings.note(settings.folder + " held more than FLEXTILE_CACHE_LIMIT (" + std::to_string(settings.limit) + " bytes): removed " +
                  std::to_string(removed) + " of " + std::to_string(files.size()) + " files, those that were used longest ago");
  }
  closedir(folder);
}

}  // namespace

DiskAnswer read_cached(const std::string& key, CompiledKernel& kernel) {
  const Settings settings;
  const std::string path = settings.folder + "/" + key + ".kernel";
  std::string bytes;
  if (settings.folder.empty() || !read_file(path, bytes)) return DiskAnswer::absent;
  CompiledKernel read;
  if (read_kernel_file(bytes, key, read)) {
    kernel = static_cast<CompiledKernel&&>(read);
    mark_used(path);
    return DiskAnswer::found;
  }
  settings.note(path + " is damaged (" + std::to_string(bytes.size()) + " bytes); it is compiled again and replaced");
  return DiskAnswer::damaged;
}

void write_cached(const std::string& key, const CompiledKernel& kernel) {
  const Settings settings;
  if (settings.folder.empty()) return;
  if (replace_file(settings.folder, key + ".kernel", write_kernel_file(kernel, key))) return keep_within(settings);
  settings.note("the compiled kernel \"" + kernel.kernel_name + "\" cannot be kept in " + settings.folder + "; the next process compiles it again");
}

bool read_kept_tuning(const std::string& key, std::string& text) {
  const Settings settings;
  const std::string path = settings.folder + "/" + key + ".tuning";
  if (settings.folder.empty() || !read_file(path, text)) return false;
  mark_used(path);
  return true;
}

void write_kept_tuning(const std::string& key, const std::string& text) {
  const Settings settings;
  if (settings.folder.empty()) return;
  if (replace_file(settings.folder, key + ".tuning", text)) return keep_within(settings);
  settings.note("the results of tuning cannot be kept in " + settings.folder + "; the next process times the candidates again");
}

void note_about_cache(const std::string& sentence) { Settings().note(sentence); }

}  // namespace runtime
}  // namespace flextile
