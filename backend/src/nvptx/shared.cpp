// Shared buffers: stores, loads, asynchronous copies and their waits.
#include <algorithm>
#include <map>
#include <numeric>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/bulk_stores.hpp"
#include "nvptx/rings.hpp"
#include "nvptx/shared.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

/// Row number of a coordinate: all axes but the last, row-major.
RowColumn row_and_column(Lowering& l, const Layout& layout, const Shape& shape, int index) {
  const int rank = static_cast<int>(shape.size());
  llvm::Value* row = l.b.getInt32(0);
  for (int axis = 0; axis + 1 < rank; ++axis) {
    row = l.b.CreateAdd(l.b.CreateMul(row, l.b.getInt32(shape[axis])), coordinate(l, layout, rank, index, axis));
  }
  return {row, coordinate(l, layout, rank, index, rank - 1)};
}

struct SharedAccess {
  SharedShape shape;
  Shape extents;
  const Layout& layout;
  llvm::Type* unit;
  llvm::Value* stage;
  int run;
  int count;
};

SharedAccess access_of(Lowering& l, const ir::Operation& operation, ir::Value tile) {
  const Layout& layout = layout_of(l, tile);
  const SharedShape shape = shared_shape(l.f, operation.operands[0]);
  llvm::Type* unit = element_type(l, l.type(tile).element);
  if (unit->isIntegerTy(1)) unit = l.b.getInt8Ty();
  const int aligned = std::gcd(16, shape.pitch) / shape.element_bytes;
  return {shape, l.type(tile).shape(), layout, unit, stage_bytes(l, shape, operation.operands[1]),
          register_run(layout, l.type(tile).rank - 1, std::max(1, aligned)), register_count(layout)};
}

void lower_shared_store(Lowering& l, const ir::Operation& operation) {
  const SharedAccess access = access_of(l, operation, operation.operands[2]);
  const Registers& values = l.of(operation.operands[2]);
  for (int i = 0; i < access.count; i += access.run) {
    llvm::Value* value = to_memory(l, values[i]);
    if (access.run > 1) {
      llvm::Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(access.unit, access.run));
      for (int k = 0; k < access.run; ++k) vector = l.b.CreateInsertElement(vector, to_memory(l, values[i + k]), static_cast<std::uint64_t>(k));
      value = vector;
    }
    llvm::Value* address = element_address(l, access.shape, access.stage, row_and_column(l, access.layout, access.extents, i));
    l.b.CreateAlignedStore(value, address, llvm::Align(access.run * access.shape.element_bytes));
  }
}

/// Registers of one diagonal are read once.
void lower_diagonals(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  const Layout& layout = layout_of(l, result);
  const SharedShape shape = shared_shape(l.f, operation.operands[0]);
  const ir::Type& tile = l.type(result);
  const bool down = operation.attributes.integer(AttributeName::diagonals) > 0;
  const int from = down ? 0 : 1, to = 1 - from;   // the axes that are added and subtracted
  llvm::Value* thread = l.b.CreateSub(thread_offset(l, layout, from), thread_offset(l, layout, to));
  llvm::Value* bytes = l.b.CreateAdd(l.b.CreateMul(thread, l.b.getInt32(shape.element_bytes)), stage_bytes(l, shape, operation.operands[1]));
  bytes = l.b.CreateAdd(bytes, l.b.CreateMul(l.scalar(operation.operands[2]), l.b.getInt32(shape.element_bytes)));
  std::map<int, llvm::Value*> known;
  Registers& out = l.of(result);
  out.clear();
  for (int i = 0; i < register_count(layout); ++i) {
    const Shape at = coordinates(layout, tile.rank, i, 0, 0);
    const int number = at[static_cast<std::size_t>(from)] - at[static_cast<std::size_t>(to)] + tile.extents[to] - 1;
    llvm::Value*& value = known[number];
    if (!value) {
      llvm::Value* address = shared_address(l, shape.base + std::int64_t{number} * shape.element_bytes, bytes);
      value = l.b.CreateAlignedLoad(element_type(l, tile.element), address, llvm::Align(static_cast<std::uint64_t>(shape.element_bytes)));
    }
    out.push_back(value);
  }
}

void lower_shared_load(Lowering& l, const ir::Operation& operation) {
  if (is_read_by_fragments(l.f, operation)) return;
  if (operation.attributes.integer(AttributeName::diagonals) != 0) return lower_diagonals(l, operation);
  const ir::Value result = operation.results[0];
  const SharedAccess access = access_of(l, operation, result);
  Registers& out = l.of(result);
  out.clear();
  for (int i = 0; i < access.count; i += access.run) {
    llvm::Value* address = element_address(l, access.shape, access.stage, row_and_column(l, access.layout, access.extents, i));
    llvm::Type* type = access.run == 1 ? access.unit : llvm::FixedVectorType::get(access.unit, access.run);
    llvm::Value* loaded = l.b.CreateAlignedLoad(type, address, llvm::Align(access.run * access.shape.element_bytes));
    for (int k = 0; k < access.run; ++k) {
      out.push_back(from_memory(l, access.run == 1 ? loaded : l.b.CreateExtractElement(loaded, static_cast<std::uint64_t>(k)), l.type(result).element));
    }
  }
}

}  // namespace

llvm::Value* swizzle_key(Lowering& l, const SharedShape& shape, llvm::Value* row) {
  return l.b.CreateMul(l.b.CreateURem(l.b.CreateUDiv(row, l.b.getInt32(shape.divisor)), l.b.getInt32(shape.group)), l.b.getInt32(16));
}

llvm::Value* stage_bytes(Lowering& l, const SharedShape& shape, ir::Value stage) {
  return l.b.CreateMul(l.scalar(stage), l.b.getInt32(shape.stage_bytes));
}

llvm::Value* element_address(Lowering& l, const SharedShape& shape, llvm::Value* stage, RowColumn at) {
  llvm::Value* bytes = l.b.CreateMul(at.column, l.b.getInt32(shape.element_bytes));
  if (shape.panels > 1) {
    llvm::Value* panel = l.b.CreateMul(l.b.CreateUDiv(bytes, l.b.getInt32(shape.pitch)), l.b.getInt32(shape.panel_bytes));
    stage = l.b.CreateAdd(stage, panel);
    bytes = l.b.CreateURem(bytes, l.b.getInt32(shape.pitch));
  }
  if (shape.group > 1) bytes = l.b.CreateXor(bytes, swizzle_key(l, shape, at.row));
  bytes = l.b.CreateAdd(l.b.CreateAdd(bytes, l.b.CreateMul(at.row, l.b.getInt32(shape.pitch))), stage);
  return shared_address(l, shape.base, bytes);
}

SharedShape shared_shape(const ir::Function& function, ir::Value buffer) {
  const ir::Type& type = function.type(buffer);
  const ir::Operation& alloc = *function.defining(buffer);
  SharedShape result;
  result.base = alloc.attributes.integer(AttributeName::offset);
  result.element_bytes = byte_size(type.element);
  result.pitch = type.extents[type.rank - 1] * result.element_bytes;
  result.stage_bytes = static_cast<int>((type.elements() * result.element_bytes + 15) / 16 * 16);
  if (alloc.attributes.integer(AttributeName::swizzle) != 0 && result.pitch % 16 == 0) {
    result.group = std::gcd(result.pitch / 16, 8);
    result.divisor = 8 / result.group;
    if (result.pitch % 128 == 0) {
      result.panels = result.pitch / 128;
      result.panel_bytes = static_cast<int>(type.elements() * result.element_bytes) / result.panels;
      result.pitch = 128;
    }
  }
  return result;
}

StageBoxes stage_boxes(const ir::Function& function, ir::Value buffer) {
  const SharedShape shape = shared_shape(function, buffer);
  if (const auto swizzle = function.defining(buffer)->attributes.integer(AttributeName::swizzle); swizzle != 0)
    return {shape.panels, panel_columns(function.type(buffer).element), shape.panel_bytes, static_cast<int>(swizzle)};
  const int columns = shape.pitch / shape.element_bytes, count = (columns + most_box_extent - 1) / most_box_extent;
  return {count, columns / count, shape.pitch / count, 0};
}

int boxed_columns(int count, ElementType element) {
  const int boxes = (count + most_box_extent - 1) / most_box_extent, panel = panel_columns(element);
  const int each = (count + boxes - 1) / boxes;
  return boxes * ((each + panel - 1) / panel * panel);
}

void lower_shared(Lowering& l, const ir::Operation& operation) {
  switch (operation.opcode) {
    case Opcode::alloc_shared: return;   // its place is an attribute
    case Opcode::shared_load: return lower_shared_load(l, operation);
    case Opcode::shared_store: return lower_shared_store(l, operation);
    case Opcode::async_copy: return lower_async_copy(l, operation);
    case Opcode::async_wait:
      call(l, llvm::Intrinsic::nvvm_cp_async_wait_group, {l.b.getInt32(static_cast<int>(operation.attributes.integer(AttributeName::pending)))});
      return;
    case Opcode::barrier: return barrier(l);
    case Opcode::ring_start:
    case Opcode::ring_wait:
    case Opcode::ring_release:
    case Opcode::ring_refill:
    case Opcode::take_program:
    case Opcode::ring_put:
    case Opcode::ring_get:
    case Opcode::roles:
    case Opcode::bulk_copy: return lower_ring(l, operation);
    case Opcode::matrix_store:
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
    case Opcode::bulk_store:
    case Opcode::bulk_wait: return lower_bulk_store(l, operation);
    default: throw CompileError("flextile: compile error in kernel \"" + l.f.name + "\"\n  [" + std::string(ir::name(operation.opcode)) + "] is not made for " + l.target.name());
  }
}

// ---- fragments

FragmentReader::FragmentReader(Lowering& l, FragmentSource source, const Layout& layout, bool left)
    : l_(l), transposed_(source.transposed), shape_(shared_shape(l.f, source.load->operands[0])) {
  llvm::IRBuilder<>& b = l.b;
  // Lane 8 j + i gives the address of row i of matrix j; matrices lie in a 2 x 2 arrangement over (outer, K).
  llvm::Value* line = b.CreateAnd(l.lane, b.getInt32(7));
  llvm::Value* low = b.CreateAnd(b.CreateLShr(l.lane, b.getInt32(3)), b.getInt32(1));
  llvm::Value* high = b.CreateLShr(l.lane, b.getInt32(4));
  llvm::Value* outer_block = left ? low : high;
  llvm::Value* inner_block = left ? high : low;
  llvm::Value* row_block = transposed_ ? inner_block : outer_block;
  llvm::Value* column_block = transposed_ ? outer_block : inner_block;
  const int outer_axis = left ? 0 : 1;
  Layout warps;
  warps.warps = layout.warps;   // what the warp adds to the outer coordinate
  warps.lanes = {{lanes_per_warp, -1, 0}};
  llvm::Value* warp_outer = thread_offset(l, warps, outer_axis);
  llvm::Value* row = b.CreateAdd(b.CreateMul(row_block, b.getInt32(8)), line);
  key_ = shape_.group > 1 ? swizzle_key(l, shape_, row) : b.getInt32(0);
  column_ = b.CreateMul(column_block, b.getInt32(16));
  const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(warp_outer);
  const bool shared_by_warps = fixed && fixed->isZero();
  // A warp's first row is a multiple of 8 and leaves the key alone.
  if (!transposed_) row = b.CreateAdd(row, warp_outer);
  else if (!shared_by_warps) column_ = b.CreateAdd(column_, b.CreateMul(warp_outer, b.getInt32(2)));
  if (!transposed_ || shared_by_warps) chunk_ = b.CreateXor(column_, key_);
  llvm::Value* stage = b.CreateMul(l.scalar(source.load->operands[1]), b.getInt32(shape_.stage_bytes));
  row_start_ = b.CreateAdd(b.CreateMul(row, b.getInt32(shape_.pitch)), stage);
}

Registers FragmentReader::read(int outer, int inner, bool pair) {
  llvm::IRBuilder<>& b = l_.b;
  const int row = transposed_ ? inner : outer;
  const int column = 2 * (transposed_ ? outer : inner);
  const int span = 16 * shape_.group;
  llvm::Value* place = nullptr;
  std::int64_t fixed = shape_.base + static_cast<std::int64_t>(row) * shape_.pitch;
  if (chunk_) {
    place = b.CreateXor(chunk_, b.getInt32(column % span));
    fixed += shape_.panels > 1 ? static_cast<std::int64_t>(column / shape_.pitch) * shape_.panel_bytes : column - column % span;
  } else {
    llvm::Value* bytes = b.CreateAdd(column_, b.getInt32(column));
    llvm::Value* panel = nullptr;
    if (shape_.panels > 1) {
      panel = b.CreateMul(b.CreateUDiv(bytes, b.getInt32(shape_.pitch)), b.getInt32(shape_.panel_bytes));
      bytes = b.CreateURem(bytes, b.getInt32(shape_.pitch));
    }
    place = b.CreateXor(bytes, key_);
    if (panel) place = b.CreateAdd(place, panel);
  }
  llvm::Value* address = shared_address(l_, fixed, b.CreateAdd(row_start_, place));
  using namespace llvm::Intrinsic;
  const ID id = pair ? (transposed_ ? nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16 : nvvm_ldmatrix_sync_aligned_m8n8_x4_b16)
                     : (transposed_ ? nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16 : nvvm_ldmatrix_sync_aligned_m8n8_x2_b16);
  llvm::Value* loaded = call(l_, id, {address}, {address->getType()});
  Registers result;
  for (unsigned i = 0; i < (pair ? 4u : 2u); ++i) result.push_back(b.CreateExtractValue(loaded, i));
  return result;
}

}  // namespace flextile::backend
