// What a launch binds to a kernel's parameter: a tensor or a number, with its own type.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <flextile/runtime/tensor_ref.hpp>

namespace flextile {

/// Plain and small; refers to the tensor, which must outlive the call that it is passed to.
struct Argument {
  enum class Kind : std::uint8_t { none, tensor, integer, real };

  Kind kind = Kind::none;
  ElementType element = ElementType::i32;    // of the number
  union {
    const ir::TensorHandle* tensor = nullptr;
    std::int64_t integer;                    // u64: the same bits
    double real;
  };

  Argument() = default;
  Argument(const TensorRef& reference) : kind(Kind::tensor), tensor(&reference.handle()) {}
  Argument(const ir::TensorHandle& handle) : kind(Kind::tensor), tensor(&handle) {}
  Argument(const TensorRef&&) = delete;          // it would refer to a tensor that is gone: name the tensor first
  Argument(const ir::TensorHandle&&) = delete;
  /// An absent tensor: accepted for pointer parameters, which are then null.
  Argument(std::nullptr_t) : kind(Kind::tensor), tensor(nullptr) {}
  Argument(f16 value) : kind(Kind::real), element(ElementType::f16), real(static_cast<float>(value)) {}
  Argument(f8e4m3 value) : kind(Kind::real), element(ElementType::f8e4m3), real(static_cast<float>(value)) {}
  Argument(f8e5m2 value) : kind(Kind::real), element(ElementType::f8e5m2), real(static_cast<float>(value)) {}
  Argument(bf16 value) : kind(Kind::real), element(ElementType::bf16), real(static_cast<float>(value)) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Argument(T value) : kind(std::is_floating_point_v<T> ? Kind::real : Kind::integer), element(element_of<T>()) {
    if constexpr (std::is_floating_point_v<T>)
      real = static_cast<double>(value);
    else
      integer = static_cast<std::int64_t>(value);
  }

 private:
  template <class T>
  static constexpr ElementType element_of() {
    if (std::is_same_v<T, bool>) return ElementType::i1;
    if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? ElementType::f32 : ElementType::f64;
    const int width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<ElementType>(static_cast<int>(std::is_unsigned_v<T> ? ElementType::u8 : ElementType::i8) + width);
  }
};

/// What a kernel may know of a view of this tensor: the facts `aligned` and `unit_stride` (docs/architecture.md, "Parameters of a kernel").
bool is_aligned(const ir::TensorHandle& tensor);
bool has_unit_stride(const ir::TensorHandle& tensor);

}  // namespace flextile
