#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "kernels.hpp"
#include "support/cache_folder.hpp"

using namespace flextile;
using test::AddScaled, test::CacheFolder, test::in_processes;

namespace {

namespace fs = std::filesystem;

ir::Function some_function(const char* name = "cached") {
  AddScaled kernel;
  kernel.kernel_name = name;
  return kernel.trace(kernel.signature());
}

void check_that_it_works(const LoadedKernel& kernel) {
  const Device host = Device::host();
  const Tensor<f32> x = full<f32>(host, {8}, 2), out = zeros<f32>(host, {8});
  launch(host.stream(), kernel, Grid{1}, x, x, out, 8, 3.0f);
  CHECK(out.to_host() == std::vector<f32>(8, 8));
}

struct Delta {
  CacheStatistics before = cache_statistics();
  std::int64_t compilations() const { return cache_statistics().compilations - before.compilations; }
  std::int64_t memory_hits() const { return cache_statistics().memory_hits - before.memory_hits; }
  std::int64_t disk_hits() const { return cache_statistics().disk_hits - before.disk_hits; }
  std::int64_t rejected() const { return cache_statistics().rejected_files - before.rejected_files; }
};

}  // namespace

TEST_CASE("a kernel is compiled once, then found in memory, then on disk") {
  const CacheFolder folder;
  const Delta delta;
  const CompiledKernel first = load(some_function(), Device::host()).compiled();
  CHECK(delta.compilations() == 1);
  load(some_function(), Device::host());
  CHECK(delta.compilations() == 1);
  CHECK(delta.memory_hits() == 1);
  forget_cached_kernels();
  const LoadedKernel again = load(some_function(), Device::host());
  CHECK(delta.compilations() == 1);
  CHECK(delta.disk_hits() == 1);
  CHECK(again.compiled().tile_ir() == first.tile_ir());
  CHECK(again.compiled().llvm_ir() == first.llvm_ir());
  CHECK(again.compiled().binary == first.binary);
  CHECK(again.compiled().parameters == first.parameters);
  CHECK(again.compiled().target == first.target);
  CHECK(again.compiled().explanation == first.explanation);
  check_that_it_works(again);
  CHECK(folder.files().size() == 1);
}

TEST_CASE("another function, target or option is another kernel") {
  const CacheFolder folder;
  const Delta delta;
  load(some_function("one"), Device::host());
  load(some_function("two"), Device::host());
  compile_cached(some_function("one"), Target::sm_80());
  compile_cached(some_function("one"), Target::sm_90a());
  compile_cached(some_function("one"), Target::sm_80(), {.line_info = false});
  CHECK(delta.compilations() == 5);
  compile_cached(some_function("one"), Target::sm_80());
  CHECK(delta.compilations() == 5);
}

TEST_CASE("a damaged or truncated file is compiled again and replaced") {
  const CacheFolder folder;
  load(some_function(), Device::host());
  REQUIRE(folder.files().size() == 1);
  const fs::path file = folder.files()[0];
  const auto size = fs::file_size(file);
  const auto damage = [&](int kind) {
    if (kind == 0) fs::resize_file(file, size / 2);
    if (kind == 1) fs::resize_file(file, 0);
    if (kind == 2) std::ofstream(file) << "not a kernel";
    if (kind >= 3) {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(kind == 3 ? 20 : static_cast<std::streamoff>(size / 2));
      stream.put(char(0x5a)).put(char(0xa5));
    }
  };
  for (int kind = 0; kind < 5; ++kind) {
    CAPTURE(kind);
    damage(kind);
    forget_cached_kernels();
    const Delta delta;
    check_that_it_works(load(some_function(), Device::host()));
    CHECK(delta.compilations() == 1);
    CHECK(delta.rejected() == 1);
    CHECK(fs::file_size(file) == size);
  }
}

TEST_CASE("a kernel's file under another kernel's name is not taken for it") {
  const CacheFolder folder;
  load(some_function("one"), Device::host());
  const fs::path one = folder.files().at(0);
  load(some_function("two"), Device::host());
  for (const fs::path& file : folder.files())
    if (file != one) fs::copy_file(file, one, fs::copy_options::overwrite_existing);
  forget_cached_kernels();
  const Delta delta;
  CHECK(load(some_function("one"), Device::host()).compiled().kernel_name == "one");
  CHECK(delta.rejected() == 1);
}

TEST_CASE("a pipe or a folder under a kernel's name is not waited for") {
  for (const bool pipe : {true, false}) {
    const CacheFolder folder;
    load(some_function(), Device::host());
    const fs::path file = folder.files().at(0);
    fs::remove(file);
    if (pipe) REQUIRE(mkfifo(file.c_str(), 0644) == 0);
    else fs::create_directory(file);
    forget_cached_kernels();
    const Delta delta;
    check_that_it_works(load(some_function(), Device::host()));
    CHECK(delta.compilations() == 1);
  }
}

TEST_CASE("a cache folder that cannot be used costs nothing but the cache") {
  {
    const CacheFolder folder;
    std::ofstream(folder.path) << "a file where the folder should be";
    check_that_it_works(load(some_function("a"), Device::host()));
  }
  {
    const CacheFolder folder;
    fs::create_directory(folder.path);
    fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
    check_that_it_works(load(some_function("b"), Device::host()));
  }
  const CacheFolder folder;
  setenv("FLEXTILE_CACHE", "0", 1);
  CHECK(cache_folder().empty());
  check_that_it_works(load(some_function("c"), Device::host()));
  unsetenv("FLEXTILE_CACHE");
  CHECK(folder.files().empty());
  setenv("FLEXTILE_CACHE_DIR", (folder.path / "deep" / "er").c_str(), 1);
  check_that_it_works(load(some_function("d"), Device::host()));
  CHECK(fs::exists(folder.path / "deep" / "er"));
}

TEST_CASE("beyond its limit the folder loses what was used longest ago, and nothing that is not a kernel") {
  const CacheFolder folder;
  const auto names = [](int i) { return "limited_" + std::to_string(i); };
  for (int i = 0; i < 4; ++i) load(some_function(names(i).c_str()), Device::host());
  std::int64_t bytes = 0;
  for (const fs::path& file : folder.files()) bytes += static_cast<std::int64_t>(fs::file_size(file));
  const auto hours_ago = [](int hours) { return fs::file_time_type::clock::now() - std::chrono::hours(hours); };
  for (const fs::path& file : folder.files()) fs::last_write_time(file, hours_ago(5));
  const std::string key(32, 'a');
  std::ofstream(folder.path / "notes.txt") << std::string(static_cast<std::size_t>(bytes), 'x');
  std::ofstream(folder.path / "my.kernel") << "mine";
  for (const char* end : {".kernel.1.0.temporary", ".kernel.2.0.temporary"}) std::ofstream(folder.path / (key + end)) << "left over";
  for (const char* file : {"notes.txt", "my.kernel"}) fs::last_write_time(folder.path / file, hours_ago(9));
  fs::last_write_time(folder.path / (key + ".kernel.1.0.temporary"), hours_ago(2));

  forget_cached_kernels();
  const Delta delta;
  load(some_function("limited_0"), Device::host());   // used now
  CHECK(delta.disk_hits() == 1);
  setenv("FLEXTILE_CACHE_LIMIT", std::to_string(bytes * 11 / 16).c_str(), 1);   // room for two of four
  load(some_function("limited_9"), Device::host());
  const auto found = [&](const char* name) {
    forget_cached_kernels();
    const Delta one;
    CompiledKernel kernel = load(some_function(name), Device::host()).compiled();
    return one.disk_hits() == 1;
  };
  int kernels = 0;
  for (const fs::path& file : folder.files()) kernels += file.filename().string().size() == 39;
  CHECK(kernels == 2);
  CHECK(found("limited_0"));
  CHECK(found("limited_9"));
  CHECK(fs::exists(folder.path / "notes.txt"));
  CHECK(fs::exists(folder.path / "my.kernel"));
  CHECK(fs::exists(folder.path / (key + ".kernel.2.0.temporary")));
  CHECK_FALSE(fs::exists(folder.path / (key + ".kernel.1.0.temporary")));
  setenv("FLEXTILE_CACHE_LIMIT", "0", 1);
  load(some_function("limited_10"), Device::host());
  for (const fs::path& file : folder.files()) CHECK(file.filename().string().size() != 39);
  unsetenv("FLEXTILE_CACHE_LIMIT");
}

TEST_CASE("several processes keep one folder within its limit") {
  const CacheFolder folder;
  load(some_function("process_0"), Device::host());
  const std::int64_t limit = 3 * static_cast<std::int64_t>(fs::file_size(folder.files().at(0))) + 500;
  setenv("FLEXTILE_CACHE_LIMIT", std::to_string(limit).c_str(), 1);
  const Delta delta;
  in_processes(3, [&](int i) {
    bool good = true;
    for (int k = 0; k < 6; ++k) {
      forget_cached_kernels();
      const std::string name = "process_" + std::to_string((k + i) % 6);
      good = good && load(some_function(name.c_str()), Device::host()).compiled().kernel_name == name;
    }
    return good && delta.rejected() == 0;
  });
  unsetenv("FLEXTILE_CACHE_LIMIT");
  std::int64_t bytes = 0;
  for (const fs::path& file : folder.files()) bytes += static_cast<std::int64_t>(fs::file_size(file));
  CHECK(bytes <= limit);
  CHECK(bytes > 0);
}

TEST_CASE("several threads that ask for one kernel compile it once") {
  const CacheFolder folder;
  const Delta delta;
  std::vector<LoadedKernel> loaded(8);
  std::vector<std::thread> threads;
  for (LoadedKernel& kernel : loaded) threads.emplace_back([&kernel] { kernel = load(some_function("shared"), Device::host()); });
  for (std::thread& thread : threads) thread.join();
  CHECK(delta.compilations() == 1);
  for (const LoadedKernel& kernel : loaded) CHECK(kernel.record() == loaded[0].record());
}

TEST_CASE("several processes share the folder") {
  const CacheFolder folder;
  in_processes(4, [&](int) {
    bool good = true;
    for (int k = 0; k < 3; ++k) {
      const std::string name = "process_" + std::to_string(k);
      const CompiledKernel& kernel = compile_cached(some_function(name.c_str()), Target::sm_80());
      good = good && kernel.kernel_name == name;
      forget_cached_kernels();
      good = good && compile_cached(some_function(name.c_str()), Target::sm_80()).ptx() == kernel.ptx();
    }
    return good;
  });
  CHECK(folder.files().size() == 3);   // and no temporary file is left
}

TEST_CASE("a function that does not compile leaves nothing behind, and says its sentence again") {
  const CacheFolder folder;
  const ir::Function unfinished("unfinished", {});
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(load(unfinished, Device::host()), Error);
  CHECK(folder.files().empty());
}

TEST_CASE("a repeated launch looks nothing up by text: no hit is counted, nothing is traced") {
  const AddScaled kernel;
  const Device host = Device::host();
  const Tensor<f32> x = zeros<f32>(host, {8});
  launch(host.stream(), kernel, Grid{1}, x, x, x, 8, 1.0f);
  const Delta delta;
  const int traces = kernel.traces;
  for (int i = 0; i < 10; ++i) launch(host.stream(), kernel, Grid{1}, x, x, x, i, 2.0f);
  CHECK(kernel.traces == traces);
  CHECK(delta.memory_hits() == 0);
  CHECK(delta.compilations() == 0);
}
