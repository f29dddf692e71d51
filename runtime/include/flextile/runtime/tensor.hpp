// Tensor<T>: memory on a device with a shape.
#pragma once
#include <type_traits>
#include <utility>

#include <flextile/runtime/tensor_ref.hpp>

namespace flextile {

/// Throws ArgumentError unless the two are equal.
void require_element(const TensorRef& tensor, ElementType expected);
/// Throws ArgumentError unless `given` values are as many as the tensor has elements.
void require_count(const TensorRef& tensor, std::size_t given, const char* caller = "copy_from");

/// Owns (shares) its memory. Copies and views share; clone() copies. Elements that are bool are read as std::uint8_t.
///
///   Tensor x = random_normal<f32>(device, {4, 8});
///   Tensor<f32> column = x.select(1, 3);
template <Element T>
class Tensor : public TensorRef {
 public:
  using element_type = T;
  using HostElement = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

  Tensor() = default;
  /// Throws ArgumentError where the reference holds another element type.
  explicit Tensor(const TensorRef& tensor) : TensorRef(tensor) { require_element(tensor, element_type_of<T>); }

  T* data() const { return static_cast<T*>(handle_.data); }

  /// All elements in row-major order. Waits for the device.
  std::vector<HostElement> to_host() const {
    std::vector<HostElement> values(static_cast<std::size_t>(elements()));
    read(values.data());
    return values;
  }
  void fill(T value) const { fill_bytes(&value); }
  /// Row-major; as many values as elements.
  void copy_from(const std::vector<HostElement>& values) const {
    require_count(*this, values.size());
    write(values.data());
  }
  void copy_from(const TensorRef& source) const { TensorRef::copy_from(source); }

  Tensor slice(int axis, std::int64_t lo, std::int64_t hi) const { return Tensor(TensorRef::slice(axis, lo, hi)); }
  Tensor select(int axis, std::int64_t index) const { return Tensor(TensorRef::select(axis, index)); }
  Tensor transpose(int a, int b) const { return Tensor(TensorRef::transpose(a, b)); }
  Tensor permute(const std::vector<int>& order) const { return Tensor(TensorRef::permute(order)); }
  Tensor reshape(const TensorShape& shape) const { return Tensor(TensorRef::reshape(shape)); }
  Tensor view(const TensorShape& shape) const { return Tensor(TensorRef::view(shape)); }
  Tensor expand(const TensorShape& shape) const { return Tensor(TensorRef::expand(shape)); }
  Tensor unsqueeze(int axis) const { return Tensor(TensorRef::unsqueeze(axis)); }
  Tensor contiguous() const { return Tensor(TensorRef::contiguous()); }
  Tensor clone() const { return Tensor(TensorRef::clone()); }
  Tensor as_read_only() const { return Tensor(TensorRef::as_read_only()); }
  Tensor to(const Device& device) const { return Tensor(TensorRef::to(device)); }

  /// In a mod: the element at a symbolic index, or at a number (see capture in the front end).
  template <class Index>
  auto operator[](Index index) const {
    return capture(*this, index);
  }
  template <class... Index>
  auto operator()(Index... index) const {
    return capture(*this, index...);
  }
};

template <Element T>
Tensor<T> empty(const Device& device, const TensorShape& shape) {
  return Tensor<T>(empty(element_type_of<T>, device, shape));
}

template <Element T>
Tensor<T> full(const Device& device, const TensorShape& shape, T value) {
  Tensor<T> tensor = empty<T>(device, shape);
  tensor.fill(value);
  return tensor;
}

template <Element T>
Tensor<T> zeros(const Device& device, const TensorShape& shape) {
  return full<T>(device, shape, T{});
}

template <Element T>
Tensor<T> empty_like(const Tensor<T>& tensor) {
  return empty<T>(tensor.device(), tensor.shape());
}

template <Element T>
Tensor<T> zeros_like(const Tensor<T>& tensor) {
  return zeros<T>(tensor.device(), tensor.shape());
}

/// Row-major values; the shape is {count} where it is not given.
template <class T>
  requires Element<T>
Tensor<T> from_host(const Device& device, const std::vector<T>& values, const TensorShape& shape) {
  Tensor<T> tensor = empty<T>(device, shape);
  require_count(tensor, values.size(), "from_host");
  tensor.copy_from(values);
  return tensor;
}
template <class T>
  requires Element<T>
Tensor<T> from_host(const Device& device, const std::vector<T>& values) {
  return from_host(device, values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace flextile
