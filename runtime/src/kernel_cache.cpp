// load(): memory, then disk, then the compiler. Entries live until the process ends, so handles are plain pointers.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <flextile/ir/environment.hpp>
#include <flextile/runtime/loaded_kernel.hpp>

#include "cache_epoch.hpp"
#include "disk_cache.hpp"
#include "kernel_file.hpp"
#include "kernel_record.hpp"

namespace flextile {
namespace runtime {
namespace {

using CacheKey = std::pair<std::uint64_t, std::uint64_t>;

/// One kernel for one target. Its mutex is held while it is compiled or loaded, so that this happens once.
struct CacheEntry {
  std::mutex mutex;
  std::shared_ptr<const CompiledKernel> compiled;
  std::map<int, std::unique_ptr<const KernelRecord>> loaded;   // by device
};

struct KernelCache {
  std::mutex mutex;
  std::map<CacheKey, CacheEntry*> entries;
  std::vector<CacheEntry*> forgotten;                          // their kernels may still be in use
  std::atomic<std::int64_t> compilations{0}, memory_hits{0}, disk_hits{0}, rejected_files{0};
};

KernelCache& kernel_cache() {
  static KernelCache* const cache = new KernelCache;
  return *cache;
}

/// What "this machine's own CPU" means: code of one machine must not run on another that shares its home folder.
const std::string& own_cpu() {
  static const std::string text = [] {
    std::string description;
    if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
      char line[8192];
      int found = 0;
      for (int i = 0; i < 60 && found < 2 && std::fgets(line, sizeof line, file); ++i)
        if (std::strncmp(line, "model name", 10) == 0 || std::strncmp(line, "flags", 5) == 0 || std::strncmp(line, "Features", 8) == 0)
          description += line, ++found;
      std::fclose(file);
    }
    return description;
  }();
  return text;
}

std::string key_text(const ir::Function& function, const Target& target, const CompileOptions& options) {
  std::string text = ir::print(function);
  text += "\ntarget " + target.name() + " " + target.cpu + (target.is_gpu() ? "" : " " + own_cpu());
  text += "\nline_info " + std::to_string(options.line_info) + " bounds_checked " + std::to_string(options.bounds_checked) + " binary " +
          std::to_string(options.binary) + " keep_stages " + std::to_string(options.keep_stages);
  text += " dump " + options.dump_folder + " replace " + options.replace_folder;
  return text + "\n" + compiler_version();
}

CacheKey key_of(const std::string& text) { return {hash_bytes(text, 1), hash_bytes(text, 2)}; }

std::string file_name(const CacheKey& key) {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(key.first), static_cast<unsigned long long>(key.second));
  return text;
}

/// A look at the compiler's stages compiles anew: what the disk holds was made without them.
bool may_use_disk(const CompileOptions& options) {
  return !options.keep_stages && options.dump_folder.empty() && options.replace_folder.empty() && ir::environment("FLEXTILE_DUMP").empty() &&
         ir::environment("FLEXTILE_REPLACE").empty();
}

CacheEntry& entry_for(const CacheKey& key) {
  KernelCache& cache = kernel_cache();
  std::lock_guard lock(cache.mutex);
  CacheEntry*& entry = cache.entries[key];
  if (!entry) entry = new CacheEntry;
  return *entry;
}

/// With the entry's mutex held. Returns false where it was there already.
bool fill_entry(CacheEntry& entry, const CacheKey& key, const ir::Function& function, const Target& target, const CompileOptions& options) {
  if (entry.compiled) return false;
  KernelCache& cache = kernel_cache();
  const bool disk = may_use_disk(options);
  CompiledKernel kernel;
  const DiskAnswer answer = disk ? read_cached(file_name(key), kernel) : DiskAnswer::absent;
  if (answer == DiskAnswer::damaged) ++cache.rejected_files;
  if (answer == DiskAnswer::found) {
    ++cache.disk_hits;
  } else {
    kernel = compile(function, target, options);
    ++cache.compilations;
    if (disk) write_cached(file_name(key), kernel);
  }
  entry.compiled = std::make_shared<const CompiledKernel>(std::move(kernel));
  return true;
}

std::atomic<std::uint64_t> epoch{1};

}  // namespace

std::uint64_t cache_epoch() { return epoch.load(std::memory_order_acquire); }

}  // namespace runtime

using runtime::kernel_cache;

const CompiledKernel& LoadedKernel::compiled() const {
  if (!record_) throw ArgumentError("flextile: LoadedKernel: no kernel (it was default-constructed)");
  return *record_->compiled;
}

Device LoadedKernel::device() const {
  compiled();
  return record_->device->index < 0 ? Device::host() : Device::cuda(record_->device->index);
}

LoadedKernel load(const ir::Function& function, const Device& device, const CompileOptions& options) {
  runtime::DeviceState& state = runtime::device_state(device);
  const runtime::CacheKey key = runtime::key_of(runtime::key_text(function, state.target, options));
  runtime::CacheEntry& entry = runtime::entry_for(key);
  std::lock_guard lock(entry.mutex);
  const bool fresh = runtime::fill_entry(entry, key, function, state.target, options);
  auto& record = entry.loaded[state.index];
  if (!record) record = runtime::load_record(entry.compiled, state);
  if (!fresh) ++kernel_cache().memory_hits;
  return LoadedKernel(record.get());
}

const CompiledKernel& compile_cached(const ir::Function& function, const Target& target, const CompileOptions& options) {
  const runtime::CacheKey key = runtime::key_of(runtime::key_text(function, target, options));
  runtime::CacheEntry& entry = runtime::entry_for(key);
  std::lock_guard lock(entry.mutex);
  if (!runtime::fill_entry(entry, key, function, target, options)) ++kernel_cache().memory_hits;
  return *entry.compiled;
}

CacheStatistics cache_statistics() {
  const runtime::KernelCache& cache = kernel_cache();
  return {cache.compilations.load(), cache.memory_hits.load(), cache.disk_hits.load(), cache.rejected_files.load()};
}

void forget_cached_kernels() {
  runtime::KernelCache& cache = kernel_cache();
  std::lock_guard lock(cache.mutex);
  for (const auto& [key, entry] : cache.entries) cache.forgotten.push_back(entry);
  cache.entries.clear();
  ++runtime::epoch;
}

}  // namespace flextile
