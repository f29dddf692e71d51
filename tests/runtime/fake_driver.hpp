// What tests ask of the fake driver (support/fake_cuda.cpp).
#pragma once
#include <dlfcn.h>

#include <cstdlib>

#include <doctest/doctest.h>

#include <flextile/runtime/device.hpp>

namespace flextile::test {

inline void* fake_symbol(const char* name) {
  const char* file = std::getenv("FLEXTILE_LIBCUDA");
  void* library = file && Device::count() > 0 ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  return library ? dlsym(library, name) : nullptr;
}

inline bool is_fake() {
  if (fake_symbol("fake_cuda_watch")) return true;
  MESSAGE("[SKIP] the fake driver is not open: FLEXTILE_LIBCUDA");
  return false;
}

inline std::size_t ask(const char* name) { return reinterpret_cast<std::size_t (*)()>(fake_symbol(name))(); }

/// What the driver says of code that is loaded from now on and has `text` in it.
inline void assembles(const char* text, int local_bytes, const char* log) {
  reinterpret_cast<void (*)(const char*, int, const char*)>(fake_symbol("fake_cuda_assembles"))(text, local_bytes, log);
}

}  // namespace flextile::test
