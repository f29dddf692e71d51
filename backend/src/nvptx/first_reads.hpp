// Where programs stay on the device, what decides the first iteration of a loop (the tile's entry in a list) is read before the
// program before has stored its result, and carried into the loop's program: a read from memory takes some 500 clocks, and the
// iteration's first product would be started behind it.
#pragma once
#include <set>
#include <vector>

#include "nvptx/product_loops.hpp"

namespace flextile::backend {

class FirstReads : ProductLoops {
 public:
  /// `loop` stands in the body of a loop over programs; `reads` are operations of its body that need no more than its index, what comes
  /// from outside, and the scalars of a program; `decides` are they and what computes their operands.
  FirstReads(ir::Function& function, ir::OperationId loop, ir::BlockId programs_body, const std::set<std::uint32_t>& decides, const std::vector<ir::OperationId>& reads);

  /// True where the reads can go ahead.
  bool plan();
  /// Reads for the next program behind the point where its scalars are known, and for the first one in front of the loop over
  /// programs, which is made anew: `programs` becomes the new one. Gives what was read for the program that is begun.
  std::vector<ir::Value> transform(ir::BlockId programs_block, ir::OperationId& programs);

 private:
  bool collect(Value value);
  /// The reads of a program whose scalars `names` holds; where its loop does not run, zeros.
  std::vector<Value> read(BlockId block, Values names);

  const Operation loop_;
  const std::set<std::uint32_t>& decides_;
  const std::vector<OperationId>& reads_;
  std::set<std::uint32_t> slice_;   // operations of the program's body and the loop's that the reads need, and they
};

}  // namespace flextile::backend
