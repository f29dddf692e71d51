// Lanes: types, and the evaluation of a tile's elements at a point of a sweep.
#include "host/lowering.hpp"

#include <flextile/ir/error.hpp>

#include "llvm/float8.hpp"

namespace flextile::backend::host {

using ir::Opcode;
using ir::Operation;

void fail(const Lowering& l, const Operation& operation, const char* sentence) {
  throw InternalError("flextile: internal error: host back end, kernel \"" + l.function.name + "\": [" + std::string(ir::name(operation.opcode)) +
                      "] " + sentence);
}

llvm::Type* compute_type(Lowering& l, const ir::Type& type) {
  if (type.is_pointer()) return l.builder.getPtrTy();
  switch (type.element) {
    case ElementType::i1: return l.builder.getInt1Ty();
    case ElementType::f8e4m3:
    case ElementType::f8e5m2:
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::f32: return l.builder.getFloatTy();
    case ElementType::f64: return l.builder.getDoubleTy();
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64: break;
  }
  return l.builder.getIntNTy(static_cast<unsigned>(bit_width(type.element)));
}

llvm::Type* memory_type(Lowering& l, ElementType element) {
  if (element == ElementType::f16) return l.builder.getHalfTy();
  if (element == ElementType::f32) return l.builder.getFloatTy();
  if (element == ElementType::f64) return l.builder.getDoubleTy();
  return l.builder.getIntNTy(static_cast<unsigned>(byte_size(element)) * 8);
}

llvm::Type* vector_of(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

bool is_vector(const llvm::Value* value) { return value->getType()->isVectorTy(); }

int lanes_of(const llvm::Value* value) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? static_cast<int>(type->getNumElements()) : 1;
}

llvm::Value* decode(Lowering& l, ElementType element, llvm::Value* stored) {
  llvm::IRBuilder<>& b = l.builder;
  const int lanes = lanes_of(stored);
  if (element == ElementType::i1) return b.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
  if (element == ElementType::f16) return b.CreateFPExt(stored, vector_of(b.getFloatTy(), lanes));
  if (element == ElementType::bf16) {
    llvm::Value* bits = b.CreateShl(b.CreateZExt(stored, vector_of(b.getInt32Ty(), lanes)), 16);
    return b.CreateBitCast(bits, vector_of(b.getFloatTy(), lanes));
  }
  if (is_float8(element)) return float_of_float8(b, element, stored);
  return stored;
}

llvm::Value* encode(Lowering& l, ElementType element, llvm::Value* value) {
  llvm::IRBuilder<>& b = l.builder;
  const int lanes = lanes_of(value);
  if (element == ElementType::i1) return b.CreateZExt(value, vector_of(b.getInt8Ty(), lanes));
  if (element == ElementType::f16) return b.CreateFPTrunc(value, vector_of(b.getHalfTy(), lanes));
  if (element == ElementType::bf16) {
    llvm::Value* bits = b.CreateLShr(b.CreateBitCast(value, vector_of(b.getInt32Ty(), lanes)), 16);
    return b.CreateTrunc(bits, vector_of(b.getInt16Ty(), lanes));
  }
  if (is_float8(element)) return float8_of_float(b, element, value);
  return value;
}

llvm::Value* index_constant(Lowering& l, std::int64_t value) { return l.builder.getInt64(static_cast<std::uint64_t>(value)); }

llvm::Value* iota(Lowering&, llvm::Type* integer, int lanes, std::int64_t step) {
  std::vector<llvm::Constant*> values;
  for (int i = 0; i < lanes; ++i) {
    values.push_back(llvm::ConstantInt::getSigned(integer, llvm::SignExtend64(static_cast<std::uint64_t>(i * step), integer->getIntegerBitWidth())));
  }
  return lanes == 1 ? static_cast<llvm::Value*>(values[0]) : llvm::ConstantVector::get(values);
}

llvm::Value* as_vector(Lowering& l, const Lane& lane, int lanes, ElementType pointee) {
  llvm::IRBuilder<>& b = l.builder;
  if (lane.value && (is_vector(lane.value) || lanes == 1)) return lane.value;
  if (lane.uniform) return b.CreateVectorSplat(static_cast<unsigned>(lanes), lane.value);
  if (lanes == 1) return lane.base;
  if (lane.base->getType()->isPointerTy()) return b.CreateGEP(memory_type(l, pointee), lane.base, iota(l, b.getInt64Ty(), lanes, lane.step));
  return b.CreateAdd(b.CreateVectorSplat(static_cast<unsigned>(lanes), lane.base), iota(l, lane.base->getType(), lanes, lane.step));
}

llvm::AllocaInst* local(Lowering& l, llvm::Type* type, const char* name) {
  llvm::IRBuilder<> at(l.entry, l.entry->begin());
  return at.CreateAlloca(type, nullptr, name);
}

llvm::Value* constant_value(Lowering& l, const Operation& operation) {
  const ir::Type& type = l.type(operation.results[0]);
  llvm::Type* element = compute_type(l, type);
  if (type.is_pointer()) return llvm::ConstantPointerNull::get(l.builder.getPtrTy());
  const double number = operation.attributes.number(ir::AttributeName::value);
  if (type.element == ElementType::f16) return llvm::ConstantFP::get(element, static_cast<double>(static_cast<float>(f16(static_cast<float>(number)))));
  if (type.element == ElementType::bf16) return llvm::ConstantFP::get(element, static_cast<double>(static_cast<float>(bf16(static_cast<float>(number)))));
  if (type.element == ElementType::f8e4m3) return llvm::ConstantFP::get(element, static_cast<double>(static_cast<float>(f8e4m3(static_cast<float>(number)))));
  if (type.element == ElementType::f8e5m2) return llvm::ConstantFP::get(element, static_cast<double>(static_cast<float>(f8e5m2(static_cast<float>(number)))));
  if (is_float(type.element)) return llvm::ConstantFP::get(element, number);
  const ir::AttributeValue* attribute = operation.attributes.find(ir::AttributeName::value);
  const std::int64_t* integer = attribute ? std::get_if<std::int64_t>(attribute) : nullptr;
  std::int64_t value = integer ? *integer : static_cast<std::int64_t>(number);
  if (type.element == ElementType::i1) value = value != 0;
  return llvm::ConstantInt::get(l.context, llvm::APInt(element->getIntegerBitWidth(), static_cast<std::uint64_t>(value), false, true));
}

void set_location(Lowering& l, const Operation& operation) {
  if (!l.debug) return;
  const ir::Location& location = operation.location;
  if (location.line == 0 || location.file >= l.debug_files.size()) {
    l.builder.SetCurrentDebugLocation(llvm::DILocation::get(l.context, 0, 0, l.debug_function));
    return;
  }
  llvm::DIScope* scope = l.debug_function;
  if (l.debug_files[location.file] != l.debug_function->getFile()) scope = l.debug->createLexicalBlockFile(scope, l.debug_files[location.file]);
  l.builder.SetCurrentDebugLocation(llvm::DILocation::get(l.context, location.line, 1, scope));
}

// ---- evaluation

namespace {

LaneKey key_of(ir::Value value, const Point& point) { return {value.index, point.index, point.vector_axis, point.vector_axis < 0 ? 1 : point.lanes}; }

/// Where the elements of a broadcast's operand are.
Point before_broadcast(Lowering& l, const ir::Type& from, const ir::Type& to, Point point) {
  for (int axis = 0; axis < from.rank; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (from.extents[a] != 1 || to.extents[a] == 1) continue;
    point.index[a] = index_constant(l, 0);
    if (point.vector_axis == axis) point.vector_axis = -1;
  }
  return point;
}

Point before_expand_dims(const Point& point, int axis) {
  Point before = point;
  before.rank = point.rank - 1;
  for (int i = axis; i < before.rank; ++i) before.index[static_cast<std::size_t>(i)] = point.index[static_cast<std::size_t>(i + 1)];
  before.index[static_cast<std::size_t>(before.rank)] = nullptr;
  if (point.vector_axis == axis) before.vector_axis = -1;
  if (point.vector_axis > axis) before.vector_axis = point.vector_axis - 1;
  return before;
}

/// Extents of 1 come and go; the others keep their order.
Point before_reshape(Lowering& l, const ir::Shape& from, const ir::Shape& to, const Point& point) {
  Point before;
  before.rank = static_cast<int>(from.size());
  before.lanes = point.lanes;
  before.whole = point.whole;
  std::size_t axis = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    before.index[i] = index_constant(l, 0);
    if (from[i] == 1) continue;
    while (to[axis] == 1) ++axis;
    before.index[i] = point.index[axis];
    if (point.vector_axis == static_cast<int>(axis)) before.vector_axis = static_cast<int>(i);
    ++axis;
  }
  return before;
}

Point before_transpose(const std::vector<std::int64_t>& permutation, const Point& point) {
  Point before = point;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto axis = static_cast<std::size_t>(permutation[i]);
    before.index[axis] = point.index[i];
    if (point.vector_axis == static_cast<int>(i)) before.vector_axis = static_cast<int>(axis);
  }
  return before;
}

}  // namespace

Point operand_point(Lowering& l, const Operation& operation, const Point& point) {
  const ir::Type& from = l.type(operation.operands[0]);
  const ir::Type& to = l.type(operation.results[0]);
  if (operation.opcode == Opcode::broadcast) return from.rank == 0 ? point : before_broadcast(l, from, to, point);
  if (operation.opcode == Opcode::expand_dims) {
    const int axis = static_cast<int>(operation.attributes.integer(ir::AttributeName::axis));
    return before_expand_dims(point, axis < 0 ? axis + to.rank : axis);
  }
  if (operation.opcode == Opcode::transpose) return before_transpose(operation.attributes.list(ir::AttributeName::permutation), point);
  return before_reshape(l, from.shape(), to.shape(), point);
}

namespace {

Lane evaluate_reshape(Lowering& l, const Operation& operation, const Point& point) {
  const ir::Shape from = l.type(operation.operands[0]).shape(), to = l.type(operation.results[0]).shape();
  if (reshapes_ones_only(from, to)) return evaluate(l, operation.operands[0], operand_point(l, operation, point));
  ir::Value stored = operation.operands[0];     // row-major order is kept: the same slot under another shape
  while (l.plan.lazy[stored.index]) {
    const Operation* below = l.function.defining(stored);
    if (below->opcode != Opcode::reshape) fail(l, operation, "the operand of a reshape is not in memory");
    stored = below->operands[0];
  }
  return load_slot(l, stored, to, point);
}

Lane compute(Lowering& l, ir::Value value, const Point& point) {
  if (!l.plan.lazy[value.index]) {
    if (l.plan.slot[value.index] >= 0) return load_slot(l, value, l.type(value).shape(), point);
    if (const Operation* operation = l.function.defining(value)) fail(l, *operation, "the result is read where it is neither computed nor stored");
    throw InternalError("flextile: internal error: host back end: an argument is read before it is stored");
  }
  return evaluate_elementwise(l, *l.function.defining(value), point);
}

}  // namespace

void remember(Lowering& l, ir::Value value, const Point& point, const Lane& lane) {
  (point.vector_axis < 0 ? l.sweep->row_memo : l.sweep->body_memo)[key_of(value, point)] = lane;
}

Lane evaluate(Lowering& l, ir::Value value, const Point& point) {
  if (l.type(value).rank == 0) {
    Lane lane;
    lane.value = lane.base = l.scalars[value.index];
    lane.uniform = true;
    return lane;
  }
  auto& memo = point.vector_axis < 0 ? l.sweep->row_memo : l.sweep->body_memo;
  const LaneKey key = key_of(value, point);
  if (const auto found = memo.find(key); found != memo.end()) return found->second;
  llvm::IRBuilderBase::InsertPointGuard guard(l.builder);
  if (point.vector_axis < 0 && l.sweep->row_block) {
    if (llvm::Instruction* end = l.sweep->row_block->getTerminator()) l.builder.SetInsertPoint(end);
    else l.builder.SetInsertPoint(l.sweep->row_block);
    set_location(l, l.function.defining(value) ? *l.function.defining(value) : Operation{});
  }
  const Lane lane = compute(l, value, point);
  memo[key] = lane;
  return lane;
}

namespace {

/// Integer lanes as base + l * step where they are that; sums, differences and products with what all lanes share.
std::optional<Lane> affine(Lowering& l, const Operation& operation, const std::vector<Lane>& operands) {
  llvm::IRBuilder<>& b = l.builder;
  if (operation.opcode == Opcode::cast && operands[0].base && !operands[0].uniform) {
    const ElementType from = l.type(operation.operands[0]).element, to = l.type(operation.results[0]).element;
    if (!is_integer(from) || !is_integer(to) || bit_width(to) < bit_width(from)) return std::nullopt;
    llvm::Type* type = compute_type(l, l.type(operation.results[0]));
    return Lane{.base = is_unsigned(from) ? b.CreateZExt(operands[0].base, type) : b.CreateSExt(operands[0].base, type), .step = operands[0].step};
  }
  if (operands.size() != 2 || !operands[0].base || !operands[1].base) return std::nullopt;
  if (operands[0].uniform && operands[1].uniform) return std::nullopt;
  const Lane& x = operands[0];
  const Lane& y = operands[1];
  Lane result;
  if (operation.opcode == Opcode::add) {
    result.base = b.CreateAdd(x.base, y.base), result.step = x.step + y.step;
  } else if (operation.opcode == Opcode::sub) {
    result.base = b.CreateSub(x.base, y.base), result.step = x.step - y.step;
  } else if (operation.opcode == Opcode::mul) {
    const Lane& varying = x.uniform ? y : x;
    const Lane& factor = x.uniform ? x : y;
    const auto* constant = factor.uniform ? llvm::dyn_cast<llvm::ConstantInt>(factor.base) : nullptr;
    if (!constant) return std::nullopt;
    result.base = b.CreateMul(x.base, y.base), result.step = varying.step * constant->getSExtValue();
  } else {
    return std::nullopt;
  }
  return result;
}

Lane evaluate_offset(Lowering& l, const Operation& operation, const Lane& pointer, const Lane& elements, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const ElementType pointee = l.type(operation.results[0]).element;
  llvm::Type* element = memory_type(l, pointee);
  const bool is_signed = !is_unsigned(l.type(operation.operands[1]).element);
  const auto widen = [&](llvm::Value* value) {
    llvm::Type* wide = vector_of(b.getInt64Ty(), lanes_of(value));
    return is_signed ? b.CreateSExt(value, wide) : b.CreateZExt(value, wide);
  };
  Lane result;
  if (pointer.uniform && elements.uniform) {
    result.value = result.base = b.CreateGEP(element, pointer.value, widen(elements.value));
    result.uniform = true;
  } else if (pointer.base && elements.base) {
    result.base = b.CreateGEP(element, pointer.base, widen(elements.base));
    result.step = pointer.step + elements.step;
  } else {
    llvm::Value* from = pointer.uniform ? pointer.value : as_vector(l, pointer, point.lanes, pointee);
    result.value = b.CreateGEP(element, from, widen(as_vector(l, elements, point.lanes)));
  }
  return result;
}

}  // namespace

Lane evaluate_elementwise(Lowering& l, const Operation& operation, const Point& point) {
  set_location(l, operation);
  const ir::Type& result = l.type(operation.results[0]);
  Lane lane;
  const Opcode opcode = operation.opcode;
  if (opcode == Opcode::constant) {
    lane.value = constant_value(l, operation);
    if (lane.value->getType()->isIntegerTy()) lane.base = lane.value;
    lane.uniform = true;
    return lane;
  }
  if (opcode == Opcode::arange) {
    llvm::Type* type = compute_type(l, result);
    lane.base = l.builder.CreateAdd(l.builder.CreateTrunc(point.index[0], type),
                                    llvm::ConstantInt::getSigned(type, operation.attributes.integer(ir::AttributeName::start)));
    lane.step = 1;
    if (point.vector_axis < 0) lane.value = lane.base, lane.step = 0, lane.uniform = true;
    return lane;
  }
  if (opcode == Opcode::reshape) return evaluate_reshape(l, operation, point);
  if (opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::transpose) {
    return evaluate(l, operation.operands[0], operand_point(l, operation, point));
  }
  std::vector<Lane> operands;
  bool uniform = true;
  for (ir::Value operand : operation.operands) {
    operands.push_back(evaluate(l, operand, point));
    uniform = uniform && operands.back().uniform;
  }
  if (operation.opcode == Opcode::offset) return evaluate_offset(l, operation, operands[0], operands[1], point);
  if (result.is_number() && !is_float(result.element)) {
    if (std::optional<Lane> found = affine(l, operation, operands)) return *found;
  }
  std::vector<llvm::Value*> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    values.push_back(uniform ? operands[i].value : as_vector(l, operands[i], point.lanes, l.type(operation.operands[i]).element));
  }
  lane.value = emit_elementwise(l, operation, values, l.type(operation.operands.back()), result);
  lane.uniform = uniform;
  if (uniform && result.is_number() && !is_float(result.element)) lane.base = lane.value;
  return lane;
}

}  // namespace flextile::backend::host
