// A stage has two mbarriers. Full: one arrival, which announces the bytes, and the bytes; its phase ends when they have landed.
// Empty: an arrival of each warp; when all have read the stage, the last warp fills it again. Where warpgroups multiply in turn
// the last one is the last to be done with a stage anyway, and its warp hardly waits.
#include "nvptx/rings.hpp"

#include <algorithm>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/shared.hpp"
#include "nvptx/turns.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using llvm::Value;

constexpr int barrier_size = 8;
constexpr int panel_columns = 64;   // of 16-bit numbers: 128 bytes

template <class Visit> void for_each_bulk_copy(const ir::Function& function, Visit visit) {
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (ir::OperationId id : function.block({block}).operations) {
      if (function.operation(id).opcode == Opcode::bulk_copy) visit(function.operation(id));
    }
  }
}

TensorMap tensor_map_of(const ir::Function& function, const ir::Operation& bulk_copy) {
  const ir::Type& buffer = function.type(bulk_copy.operands[0]);
  TensorMap map;
  map.parameter = function.definition(bulk_copy.operands[2]).position;
  map.box.assign(static_cast<std::size_t>(function.type(bulk_copy.operands[2]).rank), 1);
  for (int axis = 0; axis < buffer.rank; ++axis) map.box[map.box.size() - static_cast<std::size_t>(buffer.rank - axis)] = buffer.extents[axis];
  map.box.back() = panel_columns;
  return map;
}

Slot slot_of(Lowering& l, const ir::Operation& operation) { return slot_of(l, operation.operands[1], l.type(operation.operands[0]).stages); }

Value* address(Lowering& l, Value* pointer) { return l.b.CreatePtrToInt(pointer, l.b.getInt32Ty()); }

enum class Barrier { full, empty };

Value* barrier_address(Lowering& l, ir::Value buffer, Barrier which, Value* stage) {
  const SharedShape shape = shared_shape(l.f, buffer);
  const int stages = l.type(buffer).stages;
  const std::int64_t first = shape.base + static_cast<std::int64_t>(shape.stage_bytes) * stages + (which == Barrier::empty ? barrier_size * stages : 0);
  return address(l, shared_address(l, first, l.b.CreateMul(stage, l.b.getInt32(barrier_size))));
}

/// Until the phase of this parity has ended.
void wait(Lowering& l, Value* barrier, Value* parity) {
  assembly(l, l.b.getVoidTy(),
           "{\n\t.reg .pred %landed;\n$$wait_${:uid}:\n\tmbarrier.try_wait.parity.shared::cta.b64 %landed, [$0], $1;\n\t@!%landed bra $$wait_${:uid};\n\t}",
           "r,r", {barrier, parity}, true);
}

/// One lane of each warp arrives, without a branch: the assembler keeps what a warp agrees on in uniform registers only where
/// its lanes stay together.
void arrive_once_per_warp(Lowering& l, Value* barrier) {
  assembly(l, l.b.getVoidTy(), "{\n\t.reg .pred %first;\n\tsetp.eq.u32 %first, $1, 0;\n\t@%first mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}", "r,r", {barrier, l.lane}, true);
}

/// True in one lane; all lanes of the warp must be there.
Value* elected(Lowering& l) { return l.b.CreateExtractValue(call(l, llvm::Intrinsic::nvvm_elect_sync, {l.b.getInt32(-1)}), 1); }

void lower_start(Lowering& l, const ir::Operation& operation) {
  Value* first_warp = l.b.CreateICmpEQ(l.warp, l.b.getInt32(0));
  auto in_one_thread = [&](auto body) { when(l, first_warp, [&] { when(l, elected(l), body); }); };
  in_one_thread([&] {
    for (ir::Value buffer : operation.operands) {
      for (int stage = 0; stage < l.type(buffer).stages; ++stage) {
        for (const Barrier which : {Barrier::full, Barrier::empty}) {
          const std::string arrivals = std::to_string(which == Barrier::full ? 1 : l.f.num_warps);
          assembly(l, l.b.getVoidTy(), "mbarrier.init.shared::cta.b64 [$0], " + arrivals + ";", "r", {barrier_address(l, buffer, which, l.b.getInt32(stage))}, true);
        }
      }
    }
    assembly(l, l.b.getVoidTy(), "fence.mbarrier_init.release.cluster;", "", {}, true);   // also for the copy engine
  });
  // The stages' bytes may have been somebody's scratch space: those writes come before the copy engine's.
  if (!l.async_proxy) assembly(l, l.b.getVoidTy(), "fence.proxy.async.shared::cta;", "", {}, true);
  barrier(l);
  in_one_thread([&] { lower_block(l, operation.blocks[0]); });
}

/// The last warp waits until the stage is empty; one of its threads runs the block.
void refill(Lowering& l, const ir::Operation& operation, const Slot& slot) {
  Value* empty = barrier_address(l, operation.operands[0], Barrier::empty, slot.stage);
  when(l, l.b.CreateICmpEQ(l.warp, l.b.getInt32(l.f.num_warps - 1)), [&] {
    wait(l, empty, slot.parity);
    when(l, elected(l), [&] { lower_block(l, operation.blocks[0]); });
  });
}

void lower_release(Lowering& l, const ir::Operation& operation) {
  const Slot slot = slot_of(l, operation);
  arrive_once_per_warp(l, barrier_address(l, operation.operands[0], Barrier::empty, slot.stage));
  refill(l, operation, slot);
}

void lower_bulk_copy(Lowering& l, const ir::Operation& operation) {
  const ir::Value buffer = operation.operands[0];
  const SharedShape shape = shared_shape(l.f, buffer);
  const Slot slot = slot_of(l, operation);
  const std::vector<TensorMap> maps = tensor_maps(l.f);
  const auto number = std::find(maps.begin(), maps.end(), tensor_map_of(l.f, operation)) - maps.begin();
  Value* map = l.kernel->getArg(static_cast<unsigned>(l.kernel->arg_size() - maps.size() + static_cast<std::size_t>(number)));
  Value* full = barrier_address(l, buffer, Barrier::full, slot.stage);
  assembly(l, l.b.getVoidTy(), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(shape.stage_bytes) + ";", "r", {full}, true);
  const int rank = l.type(operation.operands[2]).rank;
  for (int panel = 0; panel < shape.panels; ++panel) {
    Value* bytes = l.b.CreateAdd(l.b.CreateMul(slot.stage, l.b.getInt32(shape.stage_bytes)), l.b.getInt32(panel * shape.panel_bytes));
    Registers arguments{address(l, shared_address(l, shape.base, bytes)), map, full};
    std::string constraints = "r,l,r", coordinates;
    for (int axis = rank - 1; axis >= 0; --axis) {   // innermost first
      Value* offset = l.scalar(operation.operands[3 + static_cast<std::size_t>(axis)]);
      if (axis == rank - 1) offset = l.b.CreateAdd(offset, l.b.getInt32(panel_columns * panel));
      coordinates += (coordinates.empty() ? "$" : ", $") + std::to_string(arguments.size());
      arguments.push_back(offset);
      constraints += ",r";
    }
    assembly(l, l.b.getVoidTy(), "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {" + coordinates + "}], [$2];",
             constraints, arguments, true);
  }
}

}  // namespace

std::vector<TensorMap> tensor_maps(const ir::Function& function) {
  std::vector<TensorMap> maps;
  for_each_bulk_copy(function, [&](const ir::Operation& operation) {
    const TensorMap map = tensor_map_of(function, operation);
    if (std::find(maps.begin(), maps.end(), map) == maps.end()) maps.push_back(map);
  });
  return maps;
}

void prefetch_tensor_maps(Lowering& l) {
  const auto count = static_cast<unsigned>(tensor_maps(l.f).size());
  if (count == 0) return;
  when(l, l.b.CreateICmpEQ(l.thread, l.b.getInt32(0)), [&] {
    for (unsigned i = 0; i < count; ++i) {
      assembly(l, l.b.getVoidTy(), "prefetch.tensormap [$0];", "l", {l.kernel->getArg(static_cast<unsigned>(l.kernel->arg_size()) - count + i)}, true);
    }
  });
}

std::int64_t barrier_bytes(const ir::Function& function, const ir::Operation& alloc_shared) {
  return alloc_shared.attributes.integer(AttributeName::barriers) == 0 ? 0 : 2 * barrier_size * function.type(alloc_shared.results[0]).stages;
}

void lower_ring(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case Opcode::ring_start: return lower_start(l, operation);
    case Opcode::ring_release: return lower_release(l, operation);
    case Opcode::ring_refill: {
      const Slot slot = slot_of(l, operation);
      return refill(l, operation, {slot.stage, l.b.CreateXor(slot.parity, l.b.getInt32(1))});   // the phase before
    }
    case Opcode::bulk_copy: return lower_bulk_copy(l, operation);
    case Opcode::ring_wait: {
      const Slot slot = slot_of(l, operation);
      return wait(l, barrier_address(l, operation.operands[0], Barrier::full, slot.stage), slot.parity);
    }
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(operation.opcode)) + "] is no operation on a ring");
  }
}

}  // namespace flextile::backend
