// What a mod's expression holds beside its type: literals, captured tensors and dynamic scalars.
#pragma once
#include <flextile/dsl/mod_number.hpp>
#include <flextile/ir/mod.hpp>

namespace flextile {

/// What one call of a mod adds to its type: literals, captured tensors, dynamic scalars, and which of them are the same.
class ModLeaves {
 public:
  ModLeaves() {
    key.reserve(16);
    tensors.reserve(4);
    tensor_of.reserve(8);
  }
  std::vector<std::uint64_t> key;         ///< literals, identity pattern
  std::vector<ir::TensorHandle> tensors;  ///< distinct ones
  std::vector<ir::ScalarValue> scalars;   ///< distinct ones
  /// The parameter of each occurrence in the expression, by the node's address.
  std::vector<std::pair<const void*, int>> tensor_of, scalar_of;

  void number(const Number& value) {
    std::uint64_t bits = 0;
    if (value.floating)
      __builtin_memcpy(&bits, &value.real, sizeof bits);
    else
      bits = static_cast<std::uint64_t>(value.integer);
    key.push_back(bits);
  }
  template <class T>
  void scalar(const DynamicNode<T>& node) {
    std::size_t index = 0;
    while (index < identities_.size() && identities_[index] != node.identity) ++index;
    if (index == identities_.size()) {
      identities_.push_back(node.identity);
      ir::ScalarValue value{element_type_of<T>, 0};
      __builtin_memcpy(&value.bits, &node.value, sizeof(T));
      scalars.push_back(value);
    }
    add(scalar_of, &node, index);
  }
  template <class T, class... I>
  void capture(const CaptureNode<T, I...>& node, int indices) {
    tensor(&node, node.handle, indices);
  }

 private:
  static bool same(const ir::TensorHandle& a, const ir::TensorHandle& b) {
    return a.storage() == b.storage() && a.data == b.data && a.element == b.element && a.rank == b.rank && a.device == b.device &&
           a.sizes == b.sizes && a.strides == b.strides;
  }
  void tensor(const void* node, const ir::TensorHandle& handle, int indices) {
    require_capture(handle, indices);
    std::size_t index = 0;
    while (index < tensors.size() && !same(tensors[index], handle)) ++index;
    if (index == tensors.size())
      tensors.push_back(handle);
    else
      tensors[index].learnable |= handle.learnable;
    add(tensor_of, node, index);
  }
  void add(std::vector<std::pair<const void*, int>>& places, const void* node, std::size_t index) {
    places.push_back({node, static_cast<int>(index)});
    key.push_back(index);
  }
  std::vector<std::uint64_t> identities_;
};

}  // namespace flextile
