// A mod's value for plain numbers: the oracle of tests, and what a debugger steps into. Computes in the types that the
// compiled form computes in, and reads captured tensors that are on the host.
#pragma once
#include <flextile/dsl/functions.hpp>
#include <flextile/dsl/mod_capture.hpp>
#include <flextile/dsl/mod_loop.hpp>

namespace flextile {

/// Throws ArgumentError where the handle is no tensor, or not one with this number of axes.
inline void require_capture(const ir::TensorHandle& tensor, int indices) {
  const std::string axes = std::to_string(indices) + (indices == 1 ? " axis" : " axes");
  if (!tensor.data) {
    throw ArgumentError("flextile: [capture] the captured tensor is null (it was default-constructed or moved from) and must be a tensor of " +
                        axes + ", as it is indexed: make it before the mod captures it");
  }
  if (tensor.rank != indices) {
    throw ArgumentError("flextile: [capture] the captured tensor has " + std::to_string(tensor.rank) +
                        (tensor.rank == 1 ? " axis" : " axes") + ", it is indexed with " + std::to_string(indices) +
                        ": there must be one index per axis");
  }
}

/// Throws ArgumentError where the handle cannot be read on the host with these indices; gives the element's offset.
inline std::int64_t host_offset(const ir::TensorHandle& tensor, const std::int64_t* index, int count) {
  auto listed = [](auto at, int n) {
    std::string text;
    for (int axis = 0; axis < n; ++axis) text += (axis ? ", " : "") + std::to_string(at[axis]);
    return text;
  };
  require_capture(tensor, count);
  if (tensor.device >= 0) {
    throw ArgumentError("flextile: [capture] the captured tensor is on cuda:" + std::to_string(tensor.device) +
                        ": a mod's value for plain numbers reads tensors on the host; capture tensor.to(Device::host())");
  }
  std::int64_t offset = 0;
  for (int axis = 0; axis < count; ++axis) {
    if (index[axis] < 0 || index[axis] >= tensor.sizes[axis]) {
      throw ArgumentError("flextile: [capture] index (" + listed(index, count) + ") is outside the captured tensor of rank " +
                          std::to_string(tensor.rank) + " and sizes (" + listed(tensor.sizes, count) + "): axis " + std::to_string(axis) +
                          (tensor.sizes[axis] > 0 ? " has indices 0 to " + std::to_string(tensor.sizes[axis] - 1) : " has no elements"));
    }
    offset += index[axis] * tensor.strides[axis];
  }
  return offset;
}

/// Evaluation with plain numbers: bool, integers, float, double.
struct NumberDomain {
  template <class T>
  auto number(T value) const {
    return value;
  }
  template <class T>
  T scalar(const DynamicNode<T>& node) const {
    return node.value;
  }

  template <Opcode opcode, int Computing, class A>
  auto unary(A a) const {
    return host::unary<opcode>(as<Computing>(a));
  }
  template <Opcode opcode, int Computing, class A, class B>
  auto binary(A a, B b) const {
    return host::binary<opcode>(as<Computing>(a), as<Computing>(b));
  }
  template <int Code, class A, class B, class C>
  auto fma(A a, B b, C c) const {
    return host::fma(as<Code>(a), as<Code>(b), as<Code>(c));
  }
  template <int Code, class A, class B>
  auto select(bool condition, A a, B b) const {
    return condition ? as<Code>(a) : as<Code>(b);
  }
  template <int Code, class A>
  auto cast(A a) const {
    return as<Code>(a);
  }
  template <class A>
  bool truth(A a) const {
    return a != A{0};
  }

  template <class T, class... Nodes, class... I>
  auto capture(const CaptureNode<T, Nodes...>& node, I... index) const {
    std::int64_t at[] = {static_cast<std::int64_t>(index)..., 0};
    std::int64_t offset = host_offset(node.handle, at, sizeof...(I));
    using Value = element_of_code<CaptureNode<T, Nodes...>::mod_code>;
    if constexpr (std::is_same_v<T, bool>)
      return static_cast<const std::uint8_t*>(node.handle.data)[offset] != 0;
    else
      return static_cast<Value>(static_cast<const T*>(node.handle.data)[offset]);
  }
  template <class V, class Body>
  V repeat(int count, V value, Body&& body) const {
    for (std::int32_t i = 0; i < count; ++i) value = body(i, value);
    return value;
  }

 private:
  template <int Code, class A>
  static auto as(A a) {
    return host::convert<element_of_code<Code>>(a);
  }
};

template <class Node>
auto node_value(const Node& node) {
  NumberDomain domain;
  return host::convert<element_of_code<Node::mod_code>>(node.evaluate(domain, EmptyEnvironment{}));
}

}  // namespace flextile
