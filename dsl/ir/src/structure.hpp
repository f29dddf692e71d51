// The check that the verifier and the parser share.
#pragma once
#include <flextile/ir/function.hpp>
#include <string>

namespace flextile::ir {

/// The first fault of a function: a sentence, and the operation it is about (none: the function itself).
struct Fault {
  std::string sentence;
  OperationId operation;
};

/// An empty sentence where everything is right: dominance, terminators, arity, each operation's rule.
Fault find_fault(const Function& function);

}  // namespace flextile::ir
