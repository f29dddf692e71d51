// A stage has two mbarriers. Full: one arrival, which announces the bytes, and the bytes; its phase ends when they have landed.
// Empty: an arrival of each warp that reads it.
#include "nvptx/rings.hpp"

#include <algorithm>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/resident_programs.hpp"
#include "nvptx/shared.hpp"
#include "nvptx/tensor_maps.hpp"
#include "nvptx/turns.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using llvm::Value;

constexpr int barrier_size = 8;

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
  if (l.in_producer) {   // one thread of the warp is here
    assembly(l, l.b.getVoidTy(), "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {barrier}, true);
    return;
  }
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
          const std::int64_t readers = l.f.defining(buffer)->attributes.integer(AttributeName::readers, l.f.num_warps);
          const std::string arrivals = std::to_string(which == Barrier::full ? 1 : readers);
          assembly(l, l.b.getVoidTy(), "mbarrier.init.shared::cta.b64 [$0], " + arrivals + ";", "r", {barrier_address(l, buffer, which, l.b.getInt32(stage))}, true);
        }
      }
    }
    assembly(l, l.b.getVoidTy(), "fence.mbarrier_init.release.cluster;", "", {}, true);   // also for the copy engine
  });
  // The stages' bytes may have been somebody's scratch space: those writes come before the copy engine's.
  if (!l.async_proxy) assembly(l, l.b.getVoidTy(), "fence.proxy.async.shared::cta;", "", {}, true);
  barrier_of_all(l);
  if (l.f.block(operation.blocks[0]).operations.size() > 1) in_one_thread([&] { lower_block(l, operation.blocks[0]); });
}

/// Empty, an arrival of each warp that reads it; then, where the kernel's own warps fetch, the last of them fills it again.
void lower_release(Lowering& l, const ir::Operation& operation) {
  const Slot slot = slot_of(l, operation);
  Value* empty = barrier_address(l, operation.operands[0], Barrier::empty, slot.stage);
  arrive_once_per_warp(l, empty);
  if (is_resident(l.f)) return;
  when(l, l.b.CreateICmpEQ(l.warp, l.b.getInt32(l.f.num_warps - 1)), [&] {
    wait(l, empty, slot.parity);
    when(l, elected(l), [&] { lower_block(l, operation.blocks[0]); });
  });
}

/// In one thread of the producer's warp.
void lower_refill(Lowering& l, const ir::Operation& operation) {
  const int warp = l.f.num_warps + static_cast<int>(operation.attributes.integer(AttributeName::warp));
  const Slot slot = slot_of(l, operation);
  when(l, l.b.CreateICmpEQ(l.warp, l.b.getInt32(warp)), [&] {
    wait(l, barrier_address(l, operation.operands[0], Barrier::empty, slot.stage), l.b.CreateXor(slot.parity, l.b.getInt32(1)));   // of the phase before
    lower_block(l, operation.blocks[0]);
  });
}

/// Programs from the number of workers on are handed out by a counter in memory. Each program that was done asks once for another;
/// after as many requests as there are programs the counter is 0 again, for the next launch.
void lower_take_program(Lowering& l, const ir::Operation& operation) {
  Value* total = l.b.CreateMul(l.b.CreateMul(l.programs[0], l.programs[1]), l.programs[2]);
  Value* before = assembly(l, l.b.getInt32Ty(), "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r", {l.counter, l.b.CreateSub(total, l.b.getInt32(1))}, true);
  l.of(operation.results[0]) = {l.b.CreateAdd(before, call(l, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}))};
}

/// Scalars of a stage follow one another in words, wide ones in two of them.
template <class Visit> void for_each_scalar(Lowering& l, const std::vector<ir::Value>& scalars, std::size_t first, Visit visit) {
  int word = 0;
  for (std::size_t i = first; i < scalars.size(); ++i) {
    const int words = bit_width(l.type(scalars[i]).element) > 32 ? 2 : 1;
    visit(scalars[i], 4 * word, words);
    word += words;
  }
}

Value* stage_address(Lowering& l, const ir::Operation& operation, Value* stage) {
  const SharedShape shape = shared_shape(l.f, operation.operands[0]);
  return shared_address(l, shape.base, l.b.CreateMul(stage, l.b.getInt32(shape.stage_bytes)));
}

void lower_put(Lowering& l, const ir::Operation& operation) {
  const Slot slot = slot_of(l, operation);
  Value* stage = stage_address(l, operation, slot.stage);
  for_each_scalar(l, operation.operands, 2, [&](ir::Value scalar, int offset, int) {
    l.b.CreateAlignedStore(to_memory(l, l.scalar(scalar)), l.b.CreateGEP(l.b.getInt8Ty(), stage, l.b.getInt32(offset)), llvm::Align(4));
  });
  assembly(l, l.b.getVoidTy(), "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {barrier_address(l, operation.operands[0], Barrier::full, slot.stage)}, true);
}

void lower_get(Lowering& l, const ir::Operation& operation) {
  Value* stage = address(l, stage_address(l, operation, slot_of(l, operation).stage));
  for_each_scalar(l, operation.results, 0, [&](ir::Value scalar, int offset, int words) {
    llvm::Type* type = element_type(l, l.type(scalar).element);
    auto word = [&](int bytes) { return assembly(l, l.b.getInt32Ty(), "ld.shared.b32 $0, [$1+" + std::to_string(bytes) + "];", "=r,r", {stage}, true); };
    Value* bits = word(offset);
    if (words == 2) bits = l.b.CreateOr(l.b.CreateZExt(bits, l.b.getInt64Ty()), l.b.CreateShl(l.b.CreateZExt(word(offset + 4), l.b.getInt64Ty()), 32));
    bits = l.b.CreateTrunc(bits, l.b.getIntNTy(static_cast<unsigned>(type->getPrimitiveSizeInBits())));
    l.of(scalar) = {type->isIntegerTy() ? bits : l.b.CreateBitCast(bits, type)};
  });
}

/// The producer's warps, then the program's own. A budget says how many registers each of a role's threads keeps.
void lower_roles(Lowering& l, const ir::Operation& operation) {
  const std::vector<std::int64_t>& budgets = operation.attributes.list(AttributeName::registers);
  auto* producer = llvm::BasicBlock::Create(l.b.getContext(), "producer", l.kernel);
  auto* consumer = llvm::BasicBlock::Create(l.b.getContext(), "consumer", l.kernel);
  auto keep = [&](llvm::Intrinsic::ID id, std::int64_t registers) {
    if (registers > 0) call(l, id, {l.b.getInt32(static_cast<int>(registers))});
  };
  l.b.CreateCondBr(l.b.CreateICmpUGE(l.warp, l.b.getInt32(l.f.num_warps)), producer, consumer);
  l.b.SetInsertPoint(producer);
  keep(llvm::Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32, budgets[0]);
  l.in_producer = true;
  when(l, elected(l), [&] { lower_block(l, operation.blocks[0]); });
  l.in_producer = false;
  l.b.CreateRetVoid();   // the roles never meet again
  l.b.SetInsertPoint(consumer);
  keep(llvm::Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32, budgets[1]);
  lower_block(l, operation.blocks[1]);
}

void lower_bulk_copy(Lowering& l, const ir::Operation& operation) {
  const ir::Value buffer = operation.operands[0];
  const SharedShape shape = shared_shape(l.f, buffer);
  const Slot slot = slot_of(l, operation);
  Value* map = tensor_map(l, operation);
  Value* full = barrier_address(l, buffer, Barrier::full, slot.stage);
  assembly(l, l.b.getVoidTy(), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(shape.stage_bytes) + ";", "r", {full}, true);
  const int rank = l.type(operation.operands[2]).rank;
  const StageBoxes boxes = stage_boxes(l.f, buffer);
  for (int box = 0; box < boxes.count; ++box) {
    Value* bytes = l.b.CreateAdd(l.b.CreateMul(slot.stage, l.b.getInt32(shape.stage_bytes)), l.b.getInt32(box * boxes.bytes));
    Registers arguments{address(l, shared_address(l, shape.base, bytes)), map, full};
    std::string constraints = "r,l,r";
    const std::string coordinates = box_corner(l, operation, box, nullptr, arguments, constraints);
    assembly(l, l.b.getVoidTy(), "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {" + coordinates + "}], [$2];",
             constraints, arguments, true);
  }
}

}  // namespace

std::int64_t barrier_bytes(const ir::Function& function, const ir::Operation& alloc_shared) {
  return alloc_shared.attributes.integer(AttributeName::barriers) == 0 ? 0 : 2 * barrier_size * function.type(alloc_shared.results[0]).stages;
}

void lower_ring(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case Opcode::ring_start: return lower_start(l, operation);
    case Opcode::ring_release: return lower_release(l, operation);
    case Opcode::ring_refill: return lower_refill(l, operation);
    case Opcode::take_program: return lower_take_program(l, operation);
    case Opcode::ring_put: return lower_put(l, operation);
    case Opcode::ring_get: return lower_get(l, operation);
    case Opcode::roles: return lower_roles(l, operation);
    case Opcode::bulk_copy: return lower_bulk_copy(l, operation);
    case Opcode::ring_wait: {
      const Slot slot = slot_of(l, operation);
      return wait(l, barrier_address(l, operation.operands[0], Barrier::full, slot.stage), slot.parity);
    }
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(operation.opcode)) + "] is no operation on a ring");
  }
}

}  // namespace flextile::backend
