// What becomes of the operations of a bulk store. A warpgroup's threads write its rows with stmatrix, fence, and meet at a barrier of
// their own; one of them, always the same, starts the copies and waits for them.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/bulk_stores.hpp"
#include "nvptx/shared.hpp"
#include "nvptx/tensor_maps.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using llvm::Value;

constexpr int threads_per_warpgroup = 4 * lanes_per_warp;
constexpr int first_barrier = 8;        // of the warpgroups; below are those of turns

Value* warpgroup(Lowering& l) { return l.b.CreateLShr(l.warp, l.b.getInt32(2)); }

/// Two neighbouring columns of 16 bits in a word.
Value* packed(Lowering& l, Value* low, Value* high) {
  Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(low->getType(), 2));
  pair = l.b.CreateInsertElement(pair, low, std::uint64_t{0});
  return l.b.CreateBitCast(l.b.CreateInsertElement(pair, high, std::uint64_t{1}), l.b.getInt32Ty());
}

/// An instruction stores four matrices of 8 x 8: rows 0 to 7 and 8 to 15 of the first eight columns, then of the next eight, which is the
/// order of a thread's registers. Lane 8 m + r gives the address of row r of matrix m. A warp's first row is a multiple of 8, so the
/// swizzle depends on r alone.
void lower_matrix_store(Lowering& l, const ir::Operation& operation) {
  const ir::Value buffer = operation.operands[0], value = operation.operands[2];
  const SharedShape shape = shared_shape(l.f, buffer);
  const int columns = l.type(buffer).extents[1], width = l.type(value).extents[1], blocks = rows_of_warpgroup(l.f, buffer) / 64;
  const auto start = static_cast<int>(operation.attributes.integer(AttributeName::start));
  const Registers& registers = l.of(value);
  auto number = [&](int n) { return l.b.getInt32(n); };
  Value* line = l.b.CreateAnd(l.lane, number(7));
  Value* lower_rows = l.b.CreateAnd(l.b.CreateLShr(l.lane, number(3)), number(1));
  Value* chunk = l.b.CreateXor(l.b.CreateLShr(l.lane, number(4)), line);            // of 16 bytes
  Value* row = l.b.CreateAdd(l.b.CreateMul(warpgroup(l), number(64 * blocks)), l.b.CreateMul(l.b.CreateAnd(l.warp, number(3)), number(16)));
  row = l.b.CreateAdd(row, l.b.CreateAdd(l.b.CreateMul(lower_rows, number(8)), line));
  Value* first = l.b.CreateAdd(l.b.CreateMul(row, number(shape.pitch)), stage_bytes(l, shape, operation.operands[1]));
  constexpr int panel = panel_columns(ElementType::bf16), pieces = panel / 16;    // of a panel's row
  Value* places[pieces];
  for (int piece = 0; piece < pieces; ++piece) places[piece] = l.b.CreateAdd(first, l.b.CreateMul(l.b.CreateXor(chunk, number(2 * piece)), number(16)));
  for (int block = 0; block < blocks; ++block) {
    for (int column = 0; column < columns; column += 16) {
      const int from = block * width / 2 + (start + column) / 2;                      // a thread holds a quarter of two rows
      const std::int64_t fixed = shape.base + std::int64_t{64} * block * shape.pitch + std::int64_t{column / panel} * shape.panel_bytes;
      Value* address = shared_address(l, fixed, places[column / 16 % pieces]);
      Registers words{address};
      for (int i = 0; i < 8; i += 2) words.push_back(packed(l, registers[static_cast<std::size_t>(from + i)], registers[static_cast<std::size_t>(from + i + 1)]));
      call(l, llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16, words, {address->getType()});
    }
  }
}

void lower_warpgroup_barrier(Lowering& l) {
  Value* own = l.b.CreateAdd(warpgroup(l), l.b.getInt32(first_barrier));
  assembly(l, l.b.getVoidTy(), "bar.sync $0, " + std::to_string(threads_per_warpgroup) + ";", "r", {own}, true);
}

/// A box of each panel: the warpgroup's rows.
void lower_store_of_boxes(Lowering& l, const ir::Operation& operation) {
  const SharedShape shape = shared_shape(l.f, operation.operands[0]);
  const int rank = l.type(operation.operands[2]).rank;
  Value* rows = l.b.CreateMul(warpgroup(l), l.b.getInt32(rows_of_warpgroup(l.f, operation.operands[0])));
  Value* first = l.b.CreateAdd(l.b.CreateMul(rows, l.b.getInt32(shape.pitch)), stage_bytes(l, shape, operation.operands[1]));
  Value* map = tensor_map(l, operation);
  when(l, l.b.CreateICmpEQ(l.b.CreateAnd(l.thread, l.b.getInt32(threads_per_warpgroup - 1)), l.b.getInt32(0)), [&] {
    for (int panel = 0; panel < shape.panels; ++panel) {
      Value* source = l.b.CreatePtrToInt(shared_address(l, shape.base + std::int64_t{panel} * shape.panel_bytes, first), l.b.getInt32Ty());
      Registers arguments{map, source};
      std::string constraints = "l,r";
      const std::string corner = box_corner(l, operation, panel, rows, arguments, constraints);
      assembly(l, l.b.getVoidTy(), "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta.tile.bulk_group [$0, {" + corner + "}], [$1];", constraints, arguments, true);
    }
    assembly(l, l.b.getVoidTy(), "cp.async.bulk.commit_group;", "", {}, true);
  });
}

}  // namespace

void lower_bulk_store(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case Opcode::matrix_store: return lower_matrix_store(l, operation);
    case Opcode::proxy_fence: assembly(l, l.b.getVoidTy(), "fence.proxy.async.shared::cta;", "", {}, true); return;
    case Opcode::warpgroup_barrier: return lower_warpgroup_barrier(l);
    case Opcode::bulk_store: return lower_store_of_boxes(l, operation);
    case Opcode::bulk_wait:   // by all threads: those that started nothing go on at once
      assembly(l, l.b.getVoidTy(), "cp.async.bulk.wait_group.read " + std::to_string(operation.attributes.integer(AttributeName::pending)) + ";", "", {}, true);
      return;
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(operation.opcode)) + "] is no part of a bulk store");
  }
}

}  // namespace flextile::backend
