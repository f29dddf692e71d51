#include "nvptx/launch_overlap.hpp"

#include <algorithm>

#include <flextile/ir/error.hpp>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

using ir::Opcode;
using ir::Operation;
using ir::OperationId;

bool may_overlap_launches(const Target& target) { return target.sm >= 90; }

OperationId first_touch(const ir::Function& function) {
  for (OperationId id : function.block(function.body()).operations) {
    const Operation& operation = function.operation(id);
    const bool makes_barriers = operation.opcode == Opcode::ring_start && function.block(operation.blocks[0]).operations.size() == 1;   // it fills no stage
    const bool stays_inside = operation.opcode == Opcode::alloc_shared || makes_barriers || (ir::has(operation.opcode, ir::pure) && operation.blocks.empty());
    if (!stays_inside) return id;
  }
  return {};
}

void wait_for_launch_before(Lowering& l) {
  assembly(l, l.b.getVoidTy(), "griddepcontrol.wait;", "", {}, true);
  assembly(l, l.b.getVoidTy(), "griddepcontrol.launch_dependents;", "", {}, true);
}

namespace {

/// The instruction on a line of PTX, without what it is predicated on.
std::string_view instruction_on(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.starts_with("@")) {
    line.remove_prefix(std::min(line.find_first_of(" \t"), line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  }
  return line;
}

bool touches_global_memory(std::string_view instruction) {
  for (const std::string_view start : {"ld.global", "st.global", "atom.", "red.", "cp.async", "cp.reduce", "prefetch.global"}) {
    if (instruction.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

void require_wait_first(std::string_view ptx) {
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size());
    const std::string_view instruction = instruction_on(ptx.substr(at, end - at));
    if (instruction.starts_with("griddepcontrol.wait")) return;
    if (touches_global_memory(instruction)) throw InternalError("flextile: internal error: \"" + std::string(instruction) + "\" comes before the wait for the launch before");
    at = end + 1;
  }
  throw InternalError("flextile: internal error: the kernel does not wait for the launch before it");
}

}  // namespace flextile::backend
