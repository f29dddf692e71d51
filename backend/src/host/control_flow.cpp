// Blocks: groups in order, loops and branches. Carried scalars are stack slots that LLVM turns into registers; carried
// tiles live in the slots that the plan gave them.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {

/// Where a carried value is between iterations, or a branch's result.
struct Home {
  Value value;                                  // the block's argument or the operation's result
  llvm::AllocaInst* scalar = nullptr;
};

std::vector<Home> make_homes(Lowering& l, const std::vector<Value>& values) {
  std::vector<Home> homes;
  for (Value value : values) homes.push_back({value, is_tile(l.type(value)) ? nullptr : local(l, compute_type(l, l.type(value)), "carried")});
  return homes;
}

void read_homes(Lowering& l, const std::vector<Home>& homes, const std::vector<Value>& names, std::size_t skip = 0) {
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i].scalar) l.scalars[names[i + skip].index] = l.builder.CreateLoad(homes[i].scalar->getAllocatedType(), homes[i].scalar);
  }
}

/// All values at once: what reads another home is first written aside.
void write_homes(Lowering& l, const std::vector<Home>& homes, const std::vector<Value>& values, std::size_t skip, const std::vector<int>* aside) {
  const auto temporary = [&](std::size_t i) { return aside && i + skip < aside->size() ? (*aside)[i + skip] : -1; };
  const auto in_place = [&](std::size_t i) {
    const Value value = values[i + skip];
    return !l.plan.lazy[value.index] && l.plan.slot[value.index] == l.plan.slot[homes[i].value.index];
  };
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i].scalar) l.builder.CreateStore(l.scalars[values[i + skip].index], homes[i].scalar);
    else if (temporary(i) >= 0) copy_tile(l, values[i + skip], homes[i].value, temporary(i));
  }
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i].scalar || temporary(i) >= 0 || in_place(i)) continue;
    copy_tile(l, values[i + skip], homes[i].value, l.plan.slot[homes[i].value.index]);
  }
  for (std::size_t i = 0; i < homes.size(); ++i) {
    if (homes[i].scalar || temporary(i) < 0) continue;
    const std::int64_t bytes = l.type(homes[i].value).elements() * stored_bytes(l.function, l.plan, homes[i].value);
    l.builder.CreateMemCpy(slot_pointer(l, l.plan.slot[homes[i].value.index]), llvm::Align(64), slot_pointer(l, temporary(i)), llvm::Align(64),
                           static_cast<std::uint64_t>(bytes));
  }
}

OperationId last_of(Lowering& l, ir::BlockId block) { return l.function.block(block).operations.back(); }

/// Runs a block's operations, then hands its terminator's values to the homes.
void emit_into_homes(Lowering& l, ir::BlockId block, const std::vector<Home>& homes, std::size_t skip = 0) {
  emit_block(l, block);
  const OperationId last = last_of(l, block);
  const Operation& terminator = l.function.operation(last);
  set_location(l, terminator);
  write_homes(l, homes, terminator.operands, skip, &l.plan.temporaries[last.index]);
}

llvm::BasicBlock* new_block(Lowering& l, const char* name) { return llvm::BasicBlock::Create(l.context, name, l.program); }

llvm::Value* wide_index(Lowering& l, Value value) {
  llvm::Value* scalar = l.scalars[value.index];
  return is_unsigned(l.type(value).element) ? l.builder.CreateZExt(scalar, l.builder.getInt64Ty()) : l.builder.CreateSExt(scalar, l.builder.getInt64Ty());
}

/// index < upper for a step up, index > upper for a step down; a step of 0 runs nothing.
llvm::Value* more_to_do(Lowering& l, llvm::Value* index, llvm::Value* upper, llvm::Value* step) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Value* zero = index_constant(l, 0);
  llvm::Value* up = b.CreateAnd(b.CreateICmpSGT(step, zero), b.CreateICmpSLT(index, upper));
  llvm::Value* down = b.CreateAnd(b.CreateICmpSLT(step, zero), b.CreateICmpSGT(index, upper));
  return b.CreateOr(up, down);
}

void emit_for(Lowering& l, const Operation& operation) {
  llvm::IRBuilder<>& b = l.builder;
  const std::vector<Value>& arguments = l.function.block(operation.blocks[0]).arguments;
  const std::vector<Home> homes = make_homes(l, {arguments.begin() + 1, arguments.end()});
  llvm::Value* lower = wide_index(l, operation.operands[0]);
  llvm::Value* upper = wide_index(l, operation.operands[1]);
  llvm::Value* step = wide_index(l, operation.operands[2]);
  write_homes(l, homes, operation.operands, 3, nullptr);
  llvm::BasicBlock* body = new_block(l, "for");
  llvm::BasicBlock* after = new_block(l, "after_for");
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(more_to_do(l, lower, upper, step), body, after);
  b.SetInsertPoint(body);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
  index->addIncoming(lower, before);
  l.scalars[arguments[0].index] = b.CreateTrunc(index, compute_type(l, l.type(arguments[0])));
  read_homes(l, homes, arguments, 1);
  emit_into_homes(l, operation.blocks[0], homes);
  set_location(l, operation);
  llvm::Value* next = b.CreateAdd(index, step);
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(more_to_do(l, next, upper, step), body, after);
  b.SetInsertPoint(after);
  read_homes(l, homes, operation.results);
}

void emit_while(Lowering& l, const Operation& operation) {
  llvm::IRBuilder<>& b = l.builder;
  const ir::BlockId before = operation.blocks[0], body = operation.blocks[1];
  const std::vector<Home> homes = make_homes(l, l.function.block(before).arguments);
  write_homes(l, homes, operation.operands, 0, nullptr);
  llvm::BasicBlock* head = new_block(l, "while");
  llvm::BasicBlock* repeat = new_block(l, "repeat");
  llvm::BasicBlock* after = new_block(l, "after_while");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  read_homes(l, homes, l.function.block(before).arguments);
  emit_into_homes(l, before, homes, 1);
  llvm::Value* keep_going = l.scalars[l.function.operation(last_of(l, before)).operands[0].index];
  b.CreateCondBr(keep_going, repeat, after);
  b.SetInsertPoint(repeat);
  read_homes(l, homes, l.function.block(body).arguments);
  emit_into_homes(l, body, homes);
  set_location(l, operation);
  b.CreateBr(head);
  b.SetInsertPoint(after);
  read_homes(l, homes, operation.results);
}

void emit_if(Lowering& l, const Operation& operation) {
  llvm::IRBuilder<>& b = l.builder;
  const std::vector<Home> homes = make_homes(l, operation.results);
  llvm::BasicBlock* then = new_block(l, "then");
  llvm::BasicBlock* otherwise = new_block(l, "else");
  llvm::BasicBlock* after = new_block(l, "after_if");
  b.CreateCondBr(l.scalars[operation.operands[0].index], then, otherwise);
  b.SetInsertPoint(then);
  emit_into_homes(l, operation.blocks[0], homes);
  b.CreateBr(after);
  b.SetInsertPoint(otherwise);
  emit_into_homes(l, operation.blocks[1], homes);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  read_homes(l, homes, operation.results);
}

llvm::Value* program_index(Lowering& l, const Operation& operation, std::int64_t first) {
  const std::int64_t axis = operation.attributes.integer(AttributeName::axis);
  llvm::Value* pointer = l.builder.CreateConstInBoundsGEP1_64(l.builder.getInt32Ty(), l.program->getArg(1), static_cast<std::uint64_t>(first + axis));
  return l.builder.CreateAlignedLoad(l.builder.getInt32Ty(), pointer, llvm::Align(4));
}

/// A tile of one element as a scalar.
llvm::Value* only_element(Lowering& l, Value tile) {
  if (l.type(tile).rank == 0) return l.scalars[tile.index];
  Sweep sweep;
  Sweep* outer = l.sweep;
  l.sweep = &sweep;
  Point point;
  point.rank = l.type(tile).rank;
  for (int axis = 0; axis < point.rank; ++axis) point.index[static_cast<std::size_t>(axis)] = index_constant(l, 0);
  llvm::Value* value = evaluate(l, tile, point).value;
  l.sweep = outer;
  return value;
}

void emit_scalar(Lowering& l, OperationId id) {
  const Operation& operation = l.function.operation(id);
  const Opcode opcode = operation.opcode;
  set_location(l, operation);
  llvm::Value* value = nullptr;
  const auto axis = static_cast<std::size_t>(operation.attributes.integer(AttributeName::axis));
  if (opcode == Opcode::constant) {
    value = constant_value(l, operation);
  } else if (opcode == Opcode::program_id) {
    value = program_index(l, operation, 0);
  } else if (opcode == Opcode::num_programs) {
    value = program_index(l, operation, 3);
  } else if (opcode == Opcode::view_size) {
    value = l.builder.CreateTrunc(l.views.at(operation.operands[0].index).sizes[axis], l.builder.getInt32Ty());
  } else if (opcode == Opcode::view_stride) {
    value = l.views.at(operation.operands[0].index).strides[axis];
  } else if (opcode == Opcode::view_base) {
    value = l.views.at(operation.operands[0].index).base;
  } else if (opcode == Opcode::broadcast || opcode == Opcode::reshape || opcode == Opcode::transpose) {
    value = only_element(l, operation.operands[0]);
  } else if (opcode == Opcode::offset) {
    llvm::Value* elements = wide_index(l, operation.operands[1]);
    value = l.builder.CreateGEP(memory_type(l, l.type(operation.results[0]).element), l.scalars[operation.operands[0].index], elements);
  } else if (ir::has(opcode, ir::reads) || ir::has(opcode, ir::writes)) {
    value = emit_scalar_access(l, id);
  } else if (ir::has(opcode, ir::elementwise)) {
    std::vector<llvm::Value*> operands;
    for (Value operand : operation.operands) operands.push_back(l.scalars[operand.index]);
    value = emit_elementwise(l, operation, operands, l.type(operation.operands.back()), l.type(operation.results[0]));
  } else {
    fail(l, operation, "has no meaning on a CPU: it belongs to a GPU's schedule");
  }
  if (!operation.results.empty()) l.scalars[operation.results[0].index] = value;
}

void emit_single(Lowering& l, OperationId id) {
  const Operation& operation = l.function.operation(id);
  set_location(l, operation);
  if (operation.opcode == Opcode::for_) return emit_for(l, operation);
  if (operation.opcode == Opcode::while_) return emit_while(l, operation);
  if (operation.opcode == Opcode::if_) return emit_if(l, operation);
  if (operation.opcode == Opcode::dot) return emit_dot(l, id);
  if (operation.opcode == Opcode::reduce) return emit_custom_reduce(l, operation);
  if (ir::has(operation.opcode, ir::terminator)) return;   // the operation that owns the block reads it
  fail(l, operation, "has no meaning on a CPU: it belongs to a GPU's schedule");
}

}  // namespace

void emit_block(Lowering& l, ir::BlockId block) {
  for (const Group& group : l.plan.blocks[block.index]) {
    if (group.kind == Group::Kind::sweep) {
      emit_group_sweep(l, group);
      continue;
    }
    for (OperationId id : group.operations) {
      if (group.kind == Group::Kind::scalars) emit_scalar(l, id);
      else emit_single(l, id);
    }
  }
}

}  // namespace flextile::backend::host
