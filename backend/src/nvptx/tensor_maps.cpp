#include "nvptx/tensor_maps.hpp"

#include <algorithm>

#include "nvptx/bulk_stores.hpp"
#include "nvptx/shared.hpp"

namespace flextile::backend {

using ir::Opcode;

namespace {

/// Both take a buffer, a turn or stage, a view and its offsets.
TensorMap map_of(const ir::Function& function, const ir::Operation& operation) {
  const ir::Type& buffer = function.type(operation.operands[0]);
  TensorMap map;
  map.parameter = function.definition(operation.operands[2]).position;
  map.writes = operation.opcode == Opcode::bulk_store;
  map.box.assign(static_cast<std::size_t>(function.type(operation.operands[2]).rank), 1);
  for (int axis = 0; axis < buffer.rank; ++axis) map.box[map.box.size() - static_cast<std::size_t>(buffer.rank - axis)] = buffer.extents[axis];
  const StageBoxes boxes = stage_boxes(function, operation.operands[0]);
  map.box.back() = boxes.columns;
  map.swizzle = boxes.swizzle;
  map.tf32 = operation.attributes.string(ir::AttributeName::precision) == "tf32";
  if (map.writes) map.box[map.box.size() - 2] = rows_of_warpgroup(function, operation.operands[0]);
  return map;
}

}  // namespace

std::vector<TensorMap> tensor_maps(const ir::Function& function) {
  std::vector<TensorMap> maps;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (ir::OperationId id : function.block({block}).operations) {
      const ir::Operation& operation = function.operation(id);
      if (operation.opcode != Opcode::bulk_copy && operation.opcode != Opcode::bulk_store) continue;
      const TensorMap map = map_of(function, operation);
      if (std::find(maps.begin(), maps.end(), map) == maps.end()) maps.push_back(map);
    }
  }
  return maps;
}

llvm::Value* tensor_map(Lowering& l, const ir::Operation& operation) {
  const std::vector<TensorMap> maps = tensor_maps(l.f);
  const auto number = std::find(maps.begin(), maps.end(), map_of(l.f, operation)) - maps.begin();
  return l.kernel->getArg(static_cast<unsigned>(l.kernel->arg_size() - maps.size() + static_cast<std::size_t>(number)));
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

std::string box_corner(Lowering& l, const ir::Operation& operation, int box, llvm::Value* rows, Registers& arguments, std::string& constraints) {
  const int rank = l.type(operation.operands[2]).rank;
  std::string coordinates;
  for (int axis = rank - 1; axis >= 0; --axis) {
    llvm::Value* offset = l.scalar(operation.operands[3 + static_cast<std::size_t>(axis)]);
    if (axis == rank - 1) offset = l.b.CreateAdd(offset, l.b.getInt32(stage_boxes(l.f, operation.operands[0]).columns * box));
    if (axis == rank - 2 && rows) offset = l.b.CreateAdd(offset, rows);
    coordinates += (coordinates.empty() ? "$" : ", $") + std::to_string(arguments.size());
    arguments.push_back(offset);
    constraints += ",r";
  }
  return coordinates;
}

}  // namespace flextile::backend
