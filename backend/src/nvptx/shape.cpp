// Constants, indices and shape operations: they rename registers, or need the thread's coordinate.
#include <algorithm>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/bit_masks.hpp"
#include "nvptx/lowering.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

llvm::Constant* constant(Lowering& l, const ir::Operation& operation) {
  const ElementType element = l.type(operation.results[0]).element;
  llvm::Type* type = element_type(l, element);
  const ir::AttributeValue* value = operation.attributes.find(AttributeName::value);
  if (is_float(element)) return float_constant(l, element, operation.attributes.number(AttributeName::value));
  if (value && std::holds_alternative<double>(*value)) return llvm::ConstantInt::get(type, static_cast<std::int64_t>(std::get<double>(*value)), true);
  const std::int64_t number = operation.attributes.integer(AttributeName::value);
  return llvm::ConstantInt::get(type, element == ElementType::i1 ? number != 0 : number, true, true);
}

llvm::Value* grid_value(Lowering& l, const ir::Operation& operation) {
  using namespace llvm::Intrinsic;
  constexpr ID program[] = {nvvm_read_ptx_sreg_ctaid_x, nvvm_read_ptx_sreg_ctaid_y, nvvm_read_ptx_sreg_ctaid_z};
  constexpr ID count[] = {nvvm_read_ptx_sreg_nctaid_x, nvvm_read_ptx_sreg_nctaid_y, nvvm_read_ptx_sreg_nctaid_z};
  const std::int64_t axis = operation.attributes.integer(AttributeName::axis);
  if (operation.opcode == Opcode::num_programs && l.programs[axis]) return l.programs[axis];
  return call(l, (operation.opcode == Opcode::program_id || operation.opcode == Opcode::worker_id ? program : count)[axis], {});
}

/// Register of `layout` that adds exactly `offset`.
int register_at(const Layout& layout, int rank, const Shape& offset) {
  const int count = register_count(layout);
  for (int i = 0; i < count; ++i) {
    if (digit_offset(layout.registers, i, rank) == offset) return i;
  }
  throw InternalError("flextile: internal error: a layout has no register at an offset that its neighbour has: " + to_string(layout));
}

void lower_broadcast(Lowering& l, const ir::Operation& operation) {
  const ir::Value from = operation.operands[0], to = operation.results[0];
  const int count = register_count(layout_of(l, to)), rank = l.type(to).rank;
  Registers& out = l.of(to);
  out.resize(count);
  if (l.type(from).rank == 0) {
    std::fill(out.begin(), out.end(), l.scalar(from));
    return fill_bits(l, operation);
  }
  const Shape shape = l.type(from).shape();
  const Layout& source = layout_of(l, from);
  std::vector<int> sources;
  for (int i = 0; i < count; ++i) {
    Shape offset = digit_offset(layout_of(l, to).registers, i, rank);
    for (int axis = 0; axis < rank; ++axis) {
      if (shape[axis] == 1) offset[axis] = 0;
    }
    sources.push_back(register_at(source, rank, offset));
    out[i] = l.of(from)[sources.back()];
  }
  broadcast_bits(l, operation, sources);
}

}  // namespace

void lower_shape(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  switch (operation.opcode) {
    case Opcode::constant: l.of(result).assign(register_count(layout_of(l, result)), constant(l, operation)); return;
    case Opcode::program_id:
    case Opcode::worker_id:
    case Opcode::num_workers:
    case Opcode::num_programs: l.of(result) = {grid_value(l, operation)}; return;
    case Opcode::arange: {
      const Layout& layout = layout_of(l, result);
      const int start = static_cast<int>(operation.attributes.integer(AttributeName::start));
      llvm::Value* thread = thread_offset(l, layout, 0);
      l.of(result).clear();
      for (int i = 0; i < register_count(layout); ++i) {
        l.of(result).push_back(l.b.CreateAdd(thread, l.b.getInt32(digit_offset(layout.registers, i, 1)[0] + start)));
      }
      return;
    }
    case Opcode::broadcast: return lower_broadcast(l, operation);
    case Opcode::expand_dims:   // the operand's layout has the same registers
      if (l.type(operation.operands[0]).rank == 0) l.of(result).assign(register_count(layout_of(l, result)), l.scalar(operation.operands[0]));
      else l.of(result) = l.of(operation.operands[0]);
      return;
    default: return lower_move(l, operation);
  }
}

}  // namespace flextile::backend
