// A tensor as the layers below the runtime see it: an address with sizes and strides, kept alive.
#pragma once
#include <array>
#include <cstdint>

#include <flextile/ir/type.hpp>

namespace flextile::ir {

/// What a mod captures and what a launch binds. Retains its storage; plain to copy.
/// `storage`, `retain` and `release` belong to the runtime; this header only counts.
class TensorHandle {
 public:
  void* data = nullptr;                                // address of element 0, in the device's memory
  ElementType element = ElementType::f32;
  std::uint8_t rank = 0;
  bool read_only = false;
  bool learnable = false;                              // backward makes a gradient for it
  std::int32_t device = -1;                            // -1: host; else the CUDA ordinal
  std::array<std::int64_t, max_view_rank> sizes{};
  std::array<std::int64_t, max_view_rank> strides{};   // in elements

  TensorHandle() = default;
  TensorHandle(void* storage, void (*retain)(void*), void (*release)(void*)) : storage_(storage), retain_(retain), release_(release) {
    if (storage_) retain_(storage_);
  }
  TensorHandle(const TensorHandle& other) { *this = other; }
  TensorHandle& operator=(const TensorHandle& other) {
    if (other.storage_) other.retain_(other.storage_);
    if (storage_) release_(storage_);
    data = other.data, element = other.element, rank = other.rank, read_only = other.read_only, learnable = other.learnable, device = other.device;
    sizes = other.sizes, strides = other.strides;
    storage_ = other.storage_, retain_ = other.retain_, release_ = other.release_;
    return *this;
  }
  ~TensorHandle() {
    if (storage_) release_(storage_);
  }

  /// Identity of the memory: equal for two handles of one tensor.
  void* storage() const { return storage_; }

 private:
  void* storage_ = nullptr;
  void (*retain_)(void*) = nullptr;
  void (*release_)(void*) = nullptr;
};

}  // namespace flextile::ir
