// A tensor of the tests: what the front end asks of one (element_type, handle, indexing by the capture hook).
#pragma once
#include <cstdlib>
#include <cstring>
#include <flextile/dsl/dsl.hpp>
#include <vector>

namespace flextile {

template <class T>
class HostTensor {
 public:
  using element_type = T;
  HostTensor(std::vector<std::int64_t> sizes, const std::vector<T>& values) : handle_(make(values), &retain, &release) {
    static_cast<Storage*>(handle_.storage())->count = 1;  // the handle's own
    handle_.data = static_cast<Storage*>(handle_.storage()) + 1;
    handle_.element = element_type_of<T>;
    handle_.rank = static_cast<std::uint8_t>(sizes.size());
    std::int64_t stride = 1;
    for (int axis = handle_.rank - 1; axis >= 0; --axis) {
      handle_.sizes[axis] = sizes[axis], handle_.strides[axis] = stride;
      stride *= sizes[axis];
    }
  }
  ir::TensorHandle handle() const { return handle_; }
  template <class Index>
  auto operator[](Index index) const {
    return capture(*this, index);
  }
  template <class... Index>
  auto operator()(Index... index) const {
    return capture(*this, index...);
  }
  T& at(std::int64_t i) const { return static_cast<T*>(handle_.data)[i]; }
  int owners() const { return static_cast<Storage*>(handle_.storage())->count; }

 private:
  struct alignas(16) Storage {
    int count = 0;
  };
  static void retain(void* storage) { ++static_cast<Storage*>(storage)->count; }
  static void release(void* storage) {
    if (--static_cast<Storage*>(storage)->count == 0) std::free(storage);
  }
  static void* make(const std::vector<T>& values) {
    void* memory = std::malloc(sizeof(Storage) + values.size() * sizeof(T) + 1);
    new (memory) Storage;
    T* elements = reinterpret_cast<T*>(static_cast<Storage*>(memory) + 1);
    for (std::size_t i = 0; i < values.size(); ++i) elements[i] = values[i];
    return memory;
  }
  ir::TensorHandle handle_;
};

template <class T>
HostTensor<T> vector_of(const std::vector<T>& values) {
  return HostTensor<T>({static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace flextile
