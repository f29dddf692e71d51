// The IR's arithmetic on single elements, exactly: what constants fold to.
#pragma once
#include <cstdint>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// One element. Integers, sign- or zero-extended as their type says, are in `integer`; floats, which double holds exactly, in `real`.
struct Element {
  ElementType type = ElementType::i32;
  std::int64_t integer = 0;
  double real = 0;
};

/// The element-wise operation on constants. False where the result is not exact in every back end: math functions,
/// division by zero, shifts past the width, floats outside the integer type, and double rounding from f64 to 16 bits.
bool fold(ir::Opcode opcode, ElementType result, const Element* operands, Element& folded);

/// The element that a constant holds everywhere; false for other operations.
bool constant_element(const ir::Function& function, ir::Value value, Element& element);

/// `element` as a constant's attribute.
ir::AttributeValue attribute(const Element& element);

/// Every value of `from` is one of `to`, so that a conversion loses nothing.
bool holds_every(ElementType to, ElementType from);

}  // namespace flextile::backend
