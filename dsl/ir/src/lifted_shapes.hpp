// Which shape each value of a scalar fragment has once its arguments are tiles.
#pragma once
#include <flextile/ir/builder.hpp>
#include <vector>

namespace flextile::ir {

/// How an operation of a fragment is lifted.
enum class Lifting {
  elementwise,  // acts on the broadcast shape of its operands
  uniform,      // stays a scalar
  identity,     // a change of shape that on a scalar does nothing
  gather,
  load,
  loop,
  choice,
  repeat,   // while
  ending,   // yield, condition, return
  refused,  // has an effect, or needs tiles
};
Lifting lifting(Opcode opcode);

/// By fragment value. Fails on `builder` where shapes do not broadcast or an operation cannot be lifted.
std::vector<Shape> lifted_shapes(Builder& builder, const Function& fragment, const std::vector<Shape>& arguments);

}  // namespace flextile::ir
