// The kernels that this library has made so far, found by what they were made for.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <flextile/runtime/kernel_family.hpp>

namespace flextile::attention {

/// Mixes numbers into one hash.
class Hash {
 public:
  Hash& add(std::uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3u;
};

/// Key has operator== and hash(). Kernels stay until the process ends.
template <class Key> class KernelFamilies {
 public:
  /// The family for `key`; make() is called once. Thread-safe.
  template <class Make> const KernelFamily& get(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    auto& family = families_[key];
    if (!family) family = std::make_unique<KernelFamily>(make());
    return *family;
  }

 private:
  struct Hasher {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.hash()); }
  };
  std::mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<KernelFamily>, Hasher> families_;
};

}  // namespace flextile::attention
