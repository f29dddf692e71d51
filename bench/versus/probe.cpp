#include "probe.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

namespace versus {

using namespace flextile;

namespace {

template <class F> F* driver_function(const char* name) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = driver ? dlsym(driver, name) : nullptr;
  if (!found) throw std::string("the CUDA driver has no ") + name;
  return reinterpret_cast<F*>(found);
}

void check(int code, const char* what) {
  if (code != 0) throw std::string(what) + " failed with CUDA error " + std::to_string(code);
}

constexpr int usual_cache = 32 << 20;

}  // namespace

std::vector<Probe> probes_in(const std::string& folder) {
  std::ifstream file(folder + "/probes.txt");
  if (!file) throw "cannot read " + folder + "/probes.txt: make the folder with bench/versus/build-probes";
  std::vector<Probe> probes;
  for (std::string line; std::getline(file, line);) {
    Probe p;
    std::istringstream words(line);
    if (words >> p.name >> p.dim >> p.causal >> p.rows >> p.columns >> p.threads >> p.shared_bytes >> p.persistent >> p.shortest >> p.longest) probes.push_back(p);
    else throw folder + "/probes.txt: cannot read the line '" + line + "'";
  }
  return probes;
}

ProbeRun::Map ProbeRun::map(const Tensor& tensor, int box_rows) const {
  const auto length = static_cast<std::uint64_t>(length_), dim = static_cast<std::uint64_t>(probe_.dim);
  const std::uint64_t sizes[] = {64, length, dim / 64, static_cast<std::uint64_t>(heads_)}, strides[] = {dim * 2, 128, length * dim * 2};
  const std::uint32_t box[] = {64, static_cast<std::uint32_t>(box_rows), static_cast<std::uint32_t>(dim / 64), 1}, steps[] = {1, 1, 1, 1};
  Map result;
  using Encode = int(void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int, int);
  constexpr int bf16_type = 9, swizzle_128 = 3, promote_256 = 3;
  check(driver_function<Encode>("cuTensorMapEncodeTiled")(result.bytes, bf16_type, 4, const_cast<bf16*>(tensor.data()), sizes, strides, box, steps, 0, swizzle_128, promote_256, 0),
        "cuTensorMapEncodeTiled");
  return result;
}

ProbeRun::ProbeRun(const std::string& folder, const Probe& probe, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out)
    : probe_(probe), q_(q), k_(k), v_(v), out_(out), heads_(static_cast<int>(q.size(0))), length_(static_cast<int>(q.size(1))) {
  const Device device = q.device();
  lse_ = empty<f32>(device, {heads_, length_});
  counter_ = full<i32>(device, {1}, 0);
  std::ifstream file(folder + "/" + probe.name + ".cubin", std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  if (image.empty()) throw "cannot read " + folder + "/" + probe.name + ".cubin";
  void *context = nullptr, *module = nullptr;
  check(driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device.index()), "cuDevicePrimaryCtxRetain");
  check(driver_function<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  check(driver_function<int(void**, const void*)>("cuModuleLoadData")(&module, image.data()), "cuModuleLoadData");
  check(driver_function<int(void**, void*, const char*)>("cuModuleGetFunction")(&function_, module, "fa"), "cuModuleGetFunction");
  constexpr int most_dynamic_shared = 8;
  check(driver_function<int(void*, int, int)>("cuFuncSetAttribute")(function_, most_dynamic_shared, probe.shared_bytes), "cuFuncSetAttribute");
  maps_[0] = map(q_, 64);
  maps_[1] = map(k_, probe.columns);
  maps_[2] = map(v_, probe.columns);
  maps_[3] = map(out_, 64);
  blocks_ = (length_ + probe.rows - 1) / probe.rows;
  // Causal rows: heads go in sections whose keys and values fit the cache.
  if (probe.causal) section_ = std::clamp(usual_cache / (length_ * probe.dim * 4), 1, heads_);
  while (heads_ % section_ != 0) --section_;
  programs_ = probe.persistent ? std::min(blocks_ * heads_, device.properties().multiprocessors) : 0;
}

void ProbeRun::launch(const Stream& stream) {
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  static Launch* const start = driver_function<Launch>("cuLaunchKernel");
  static auto* const clear = driver_function<int(std::uint64_t, unsigned, std::size_t, void*)>("cuMemsetD32Async");
  float* lse = lse_.data();
  i32* counter = counter_.data();
  float factor = 1.4426950408889634f / std::sqrt(static_cast<float>(probe_.dim));
  int programs = blocks_ * heads_;
  void* arguments[] = {&maps_[0], &maps_[1], &maps_[2], &maps_[3], &lse, &counter, &factor, &length_, &blocks_, &heads_, &section_, &programs};
  if (probe_.persistent) check(clear(reinterpret_cast<std::uint64_t>(counter), 0, 1, stream.native()), "cuMemsetD32Async");
  const unsigned grid[3] = {static_cast<unsigned>(probe_.persistent ? programs_ : section_), static_cast<unsigned>(probe_.persistent ? 1 : blocks_),
                            static_cast<unsigned>(probe_.persistent ? 1 : heads_ / section_)};
  check(start(function_, grid[0], grid[1], grid[2], static_cast<unsigned>(probe_.threads), 1, 1, static_cast<unsigned>(probe_.shared_bytes), stream.native(), arguments, nullptr), "cuLaunchKernel");
}

}  // namespace versus
