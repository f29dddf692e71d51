// What the parts of Builder share: operands are looked at before they are checked by an operation's rule, so these
// refuse what cannot be looked at.
#pragma once
#include <flextile/ir/builder.hpp>

#include "text.hpp"

namespace flextile::ir {

/// The type of an operand; fails where `value` is none or of another function.
inline Type operand_type(const Builder& builder, Opcode opcode, Value value, std::string_view role = "operand") {
  const Function& function = const_cast<Builder&>(builder).function();
  if (value.index >= function.value_count()) builder.fail(join("[", name(opcode), "] ", role, " is no value of this kernel"));
  return function.type(value);
}

/// `type` with another shape; fails where it has too many axes.
inline Type shaped_like(const Builder& builder, Opcode opcode, const Type& type, const Shape& shape) {
  if (shape.size() > max_tile_rank) {
    builder.fail(join("[", name(opcode), "] shape ", shape, " has ", shape.size(), " axes: a tile has at most ", max_tile_rank));
  }
  return type.with_shape(shape);
}

/// Broadcasts all values to the shape that they share. Leaves them as they are where there is none: the rule of the
/// operation that takes them then says why.
void broadcast_together(Builder& builder, Opcode opcode, std::initializer_list<Value*> values);

/// `value` as i32 where that loses nothing; else as it is.
Value as_index(Builder& builder, Opcode opcode, Value value);

}  // namespace flextile::ir
