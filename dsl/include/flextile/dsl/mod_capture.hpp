// Tensors and scalars that a mod reads: captured tensors, dynamic(x) and learnable(t).
#pragma once
#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/unpack.hpp>
#include <flextile/dsl/operators.hpp>

namespace flextile {

/// What can be captured: it has an element type and a handle of its memory.
template <class T>
concept Capturable = requires(const T& tensor) {
  typename T::element_type;
  tensor.handle().data;
};

template <class I>
concept ModIndex = ModNode<I> || std::is_integral_v<std::remove_cvref_t<I>>;

/// tensor[i], tensor(i, j, ...): always a lazy node, also where all indices are plain numbers, so that no value is baked
/// by accident. Floats of 8 and 16 bits are f32 in a mod. Further [k] add indices; there must be one per axis.
template <class T, class... Indices>
struct CaptureNode : ModValue<CaptureNode<T, Indices...>> {
  static constexpr int memory_code = element_code<T>;
  static constexpr bool half = memory_code == element_code<f16> || memory_code == element_code<bf16> || memory_code == element_code<f8e4m3> || memory_code == element_code<f8e5m2>;
  static constexpr int mod_code = half ? element_code<f32> : memory_code;
  static constexpr bool closed = (... && Indices::closed);
  static_assert((... && rules::is_an_index<Indices::mod_code>()));

  ir::TensorHandle handle;
  boost::hana::basic_tuple<Indices...> indices;

  CaptureNode(const ir::TensorHandle& handle, const Indices&... indices) : handle(handle), indices(indices...) {}

  template <class Domain, class Environment>
  auto evaluate(Domain& domain, const Environment& environment) const {
    return boost::hana::unpack(indices,
                               [&](const auto&... index) { return domain.capture(*this, index.evaluate(domain, environment)...); });
  }
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    visitor.capture(*this, sizeof...(Indices));
    boost::hana::unpack(indices, [&](const auto&... index) { (index.visit(visitor), ...); });
  }
  template <ModIndex I>
  auto operator[](const I& next) const {
    return boost::hana::unpack(
        indices, [&](const auto&... index) { return CaptureNode<T, Indices..., node_of<I>>(handle, index..., as_node(next)); });
  }
};

/// The hook that a tensor's operator[] and operator() call.
template <Capturable Tensor, class... I>
auto capture(const Tensor& tensor, const I&... index) {
  static_assert((... && ModIndex<I>), "[index] an index into a captured tensor must be an integer or an expression of a mod; cast<i32> it");
  return CaptureNode<std::remove_const_t<typename Tensor::element_type>, node_of<I>...>(tensor.handle(), as_node(index)...);
}

/// A captured tensor that backward makes a gradient for.
template <Capturable Tensor>
class Learnable {
 public:
  using element_type = typename Tensor::element_type;
  explicit Learnable(const Tensor& tensor) : tensor_(tensor) {}
  ir::TensorHandle handle() const {
    ir::TensorHandle handle = tensor_.handle();
    handle.learnable = true;
    return handle;
  }
  const Tensor& tensor() const { return tensor_; }
  template <class I>
  auto operator[](const I& index) const {
    return capture(*this, index);
  }
  template <class... I>
  auto operator()(const I&... index) const {
    return capture(*this, index...);
  }

 private:
  Tensor tensor_;
};

/// [bias = learnable(bias)](auto score, auto b, auto h, auto q, auto kv) { return score + bias(h, q - kv + T); }
template <Capturable Tensor>
Learnable<Tensor> learnable(const Tensor& tensor) {
  return Learnable<Tensor>(tensor);
}

/// A number that the compiled form takes as an argument: another value compiles nothing new. Floating numbers are f32.
template <PlainNumber T>
auto dynamic(T value) {
  using Kept = std::conditional_t<std::is_integral_v<T>, element_of_code<number_code<T>>, float>;
  static std::uint64_t count = 0;
  return DynamicNode<Kept>(static_cast<Kept>(value),
                           __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) * 16 + static_cast<std::uint64_t>(element_type_of<Kept>));
}

}  // namespace flextile
