// A kernel of sm_90 and above begins while the launch before it on its stream still runs, where the runtime asks for that: its programs
// are placed, make their barriers, and wait (griddepcontrol.wait) before the first operation that may touch global memory.
#pragma once
#include <string_view>

#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

struct Lowering;

bool may_overlap_launches(const Target& target);
/// The first operation of the body that may touch memory of another launch.
ir::OperationId first_touch(const ir::Function& function);
/// All that was launched before on the stream is done, and seen; and the launch behind this one may be placed.
void wait_for_launch_before(Lowering& l);
/// Throws InternalError where the PTX touches global memory before it waits.
void require_wait_first(std::string_view ptx);

}  // namespace flextile::backend
