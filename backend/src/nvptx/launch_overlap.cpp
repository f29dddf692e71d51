#include "nvptx/launch_overlap.hpp"

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

void require_wait_first(std::string_view ptx) {
  const std::size_t wait = ptx.find("griddepcontrol.wait");
  if (wait == std::string_view::npos) throw InternalError("flextile: internal error: the kernel does not wait for the launch before it");
  for (const std::string_view touch : {"ld.global", "st.global", "atom.", "red.", "cp.async", "cp.reduce", "prefetch.global"}) {
    const std::size_t at = ptx.find(touch);
    if (at < wait) throw InternalError("flextile: internal error: \"" + std::string(ptx.substr(at, ptx.find('\n', at) - at)) + "\" comes before the wait for the launch before");
  }
}

}  // namespace flextile::backend
