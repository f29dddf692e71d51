// The domain that turns a mod's expression into IR.
#pragma once
#include <flextile/dsl/mod_leaves.hpp>

namespace flextile {

/// Evaluation into the IR, on scalars.
class IrDomain {
 public:
  IrDomain(ir::Builder& builder, const ModLeaves& leaves, int first_tensor)
      : builder_(builder), leaves_(leaves), first_tensor_(first_tensor) {}

  template <class T>
  Emitted number(T value) const {
    return {{}, Number(value)};
  }
  template <class T>
  Emitted scalar(const DynamicNode<T>& node) const {
    return {builder_.function().parameter(first_tensor_ + leaves_.tensors.size() + place(leaves_.scalar_of, &node)), {}};
  }
  template <Opcode opcode, int Computing>
  Emitted unary(const Emitted& a) const {
    return emit_unary(builder_, opcode, a);
  }
  template <Opcode opcode, int Computing>
  Emitted binary(const Emitted& a, const Emitted& b) const {
    return emit_binary(builder_, opcode, a, b);
  }
  template <int Code>
  Emitted fma(const Emitted& a, const Emitted& b, const Emitted& c) const {
    return emit_fma(builder_, a, b, c);
  }
  template <int Code>
  Emitted select(const Emitted& condition, const Emitted& a, const Emitted& b) const {
    return emit_select(builder_, condition, a, b);
  }
  template <int Code>
  Emitted cast(const Emitted& a) const {
    return {emit_as(builder_, a, static_cast<ElementType>(Code == floating_literal ? element_code<f32> : Code)), {}};
  }
  Emitted truth(const Emitted& a) const { return emit_truth(builder_, a); }
  template <class T, class... Nodes, class... I>
  Emitted capture(const CaptureNode<T, Nodes...>& node, const I&... index) const {
    ir::Value view = builder_.function().parameter(first_tensor_ + place(leaves_.tensor_of, &node));
    Emitted element{builder_.gather(view, {emit_index(builder_, index)...}), {}};
    return cast<CaptureNode<T, Nodes...>::mod_code>(element);
  }
  /// Short loops are unrolled: the passes then see constants.
  template <class Body>
  Emitted repeat(int count, Emitted value, Body&& body) const {
    constexpr int unrolled = 16;
    if (count <= unrolled) {
      for (std::int64_t i = 0; i < count; ++i) value = body(Emitted{{}, Number(static_cast<std::int32_t>(i))}, value);
      return value;
    }
    ir::Value lower = builder_.constant(ElementType::i32, std::int64_t{0});
    ir::Value upper = builder_.constant(ElementType::i32, std::int64_t{count});
    ir::OperationId loop = builder_.for_loop(lower, upper, builder_.constant(ElementType::i32, std::int64_t{1}), {value.value});
    ir::BlockId outside = builder_.insertion_block();
    builder_.set_insertion_block(builder_.function().operation(loop).blocks[0]);
    Emitted next = body(Emitted{builder_.argument(loop, 0, 0), {}}, Emitted{builder_.argument(loop, 0, 1), {}});
    builder_.yield({next.value});
    builder_.set_insertion_block(outside);
    return {builder_.results(loop)[0], {}};
  }

 private:
  static std::size_t place(const std::vector<std::pair<const void*, int>>& places, const void* node) {
    for (const auto& [address, index] : places) {
      if (address == node) return static_cast<std::size_t>(index);
    }
    throw InternalError("flextile: internal error: a leaf of a mod was not collected before it was emitted");
  }
  ir::Builder& builder_;
  const ModLeaves& leaves_;
  int first_tensor_;
};

}  // namespace flextile
