// Loads, stores and gathers. A vector that is known to be inside and contiguous is one plain access; else lanes outside or
// masked off are neither read nor written.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {

llvm::Align natural(ElementType element) { return llvm::Align(static_cast<std::uint64_t>(byte_size(element))); }

llvm::Value* splat(Lowering& l, llvm::Value* scalar, int lanes) {
  return lanes == 1 || is_vector(scalar) ? scalar : l.builder.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

/// What an access of `lanes` elements needs: contiguous from `pointer`, or a vector of pointers.
struct Address {
  llvm::Value* pointer = nullptr;               // scalar: contiguous lanes (or the one element of all lanes)
  llvm::Value* pointers = nullptr;              // vector
};

llvm::Value* load_lanes(Lowering& l, ElementType element, const Address& address, int lanes, llvm::Value* mask, llvm::Value* other) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Type* memory = memory_type(l, element);
  if (lanes == 1) {
    llvm::Value* pointer = mask ? b.CreateSelect(mask, address.pointer, l.nowhere) : address.pointer;
    llvm::Value* value = decode(l, element, b.CreateAlignedLoad(memory, pointer, natural(element)));
    return mask ? b.CreateSelect(mask, value, other) : value;
  }
  llvm::Type* vector = vector_of(memory, lanes);
  if (!mask && address.pointer) return decode(l, element, b.CreateAlignedLoad(vector, address.pointer, natural(element)));
  llvm::Value* fill = other ? encode(l, element, other) : llvm::Constant::getNullValue(vector);
  llvm::Value* stored = address.pointer ? b.CreateMaskedLoad(vector, address.pointer, natural(element), mask, fill)
                                        : b.CreateMaskedGather(vector, address.pointers, natural(element), mask, fill);
  return decode(l, element, stored);
}

void store_lanes(Lowering& l, ElementType element, const Address& address, int lanes, llvm::Value* mask, llvm::Value* value) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Value* stored = encode(l, element, value);
  if (lanes == 1) {
    b.CreateAlignedStore(stored, mask ? b.CreateSelect(mask, address.pointer, l.nowhere) : address.pointer, natural(element));
  } else if (address.pointer && !mask) {
    b.CreateAlignedStore(stored, address.pointer, natural(element));
  } else if (address.pointer) {
    b.CreateMaskedStore(stored, address.pointer, natural(element), mask);
  } else {
    b.CreateMaskedScatter(stored, address.pointers, natural(element), mask);
  }
}

// ---- conditions

/// A scalar that says that an i1 tile is true in all lanes; nullopt where that cannot be told from its ends.
std::optional<llvm::Value*> all_true(Lowering& l, Value mask, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const Operation* operation = l.function.defining(mask);
  if (l.type(mask).rank == 0) return l.scalars[mask.index];
  if (!operation) return std::nullopt;
  const Opcode opcode = operation->opcode;
  if (opcode == Opcode::broadcast || opcode == Opcode::expand_dims ||
      (opcode == Opcode::reshape && reshapes_ones_only(l.type(operation->operands[0]).shape(), l.type(mask).shape()))) {
    const Value operand = operation->operands[0];
    if (l.type(operand).rank == 0) return l.scalars[operand.index];
    const Point before = operand_point(l, *operation, point);
    if (before.vector_axis < 0 && (l.plan.lazy[operand.index] || l.plan.slot[operand.index] >= 0)) return evaluate(l, operand, before).value;
    return all_true(l, operand, before);
  }
  if (opcode == Opcode::bit_and) {
    const auto left = all_true(l, operation->operands[0], point), right = all_true(l, operation->operands[1], point);
    if (!left || !right) return std::nullopt;
    return b.CreateAnd(*left, *right);
  }
  if (opcode != Opcode::lt && opcode != Opcode::le && opcode != Opcode::gt && opcode != Opcode::ge) return std::nullopt;
  for (Value operand : operation->operands) {
    if (!l.plan.lazy[operand.index] && l.type(operand).rank > 0) return std::nullopt;   // computed in the sweep, not known before it
  }
  const Lane x = evaluate(l, operation->operands[0], point), y = evaluate(l, operation->operands[1], point);
  if (!x.base || !y.base || !x.base->getType()->isIntegerTy()) return std::nullopt;
  const auto at = [&](const Lane& lane, std::int64_t i) {
    return lane.uniform || lane.step == 0 ? lane.base : b.CreateAdd(lane.base, llvm::ConstantInt::getSigned(lane.base->getType(), lane.step * i));
  };
  const ir::Type& type = l.type(operation->operands[0]);
  llvm::Value* first = emit_elementwise(l, *operation, {at(x, 0), at(y, 0)}, type, l.type(mask));
  llvm::Value* last = emit_elementwise(l, *operation, {at(x, point.lanes - 1), at(y, point.lanes - 1)}, type, l.type(mask));
  return b.CreateAnd(first, last);
}

// ---- views

int leading_axes(Lowering& l, const Operation& operation, const ir::Type& tile) { return l.type(operation.operands[0]).rank - tile.rank; }

const ir::Type& view_tile(Lowering& l, const Operation& operation) {
  return operation.opcode == Opcode::view_load ? l.type(operation.results[0]) : l.type(operation.operands[1]);
}

llvm::Value* view_offset(Lowering& l, const Operation& operation, int axis) {
  const std::size_t first = operation.opcode == Opcode::view_load ? 1 : 2;
  return l.builder.CreateSExt(l.scalars[operation.operands[first + static_cast<std::size_t>(axis)].index], l.builder.getInt64Ty());
}

llvm::Value* advance(Lowering& l, ElementType element, llvm::Value* pointer, llvm::Value* elements) {
  return l.builder.CreateGEP(memory_type(l, element), pointer, elements);
}

const ViewValue& view_of(Lowering& l, const Operation& operation) { return l.views.at(operation.operands[0].index); }

llvm::Value* below(Lowering& l, llvm::Value* index, llvm::Value* size) { return l.builder.CreateICmpULT(index, size); }

/// Lanes of the current row that are inside the view: low <= column < row_high.
llvm::Value* column_mask(Lowering& l, const ViewAccess& access, const Point& point, llvm::Value* columns) {
  llvm::Value* low = splat(l, access.low, point.lanes);
  llvm::Value* high = splat(l, access.row_high, point.lanes);
  return l.builder.CreateAnd(l.builder.CreateICmpSGE(columns, low), l.builder.CreateICmpSLT(columns, high));
}

Lane access_view(Lowering& l, OperationId id, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const Operation& operation = l.function.operation(id);
  const bool load = operation.opcode == Opcode::view_load;
  const ElementType element = l.type(operation.operands[0]).element;
  const ViewAccess& access = l.sweep->views.at(id.index);
  llvm::Value* column = point.index[static_cast<std::size_t>(point.vector_axis)];
  Address address;
  llvm::Value* mask = nullptr;
  if (point.whole || access.unit || point.lanes == 1) {
    llvm::Value* elements = access.unit || point.whole ? column : b.CreateMul(column, access.stride);
    address.pointer = advance(l, element, access.row, elements);
  }
  if (!point.whole) {
    llvm::Value* columns = splat(l, column, point.lanes);
    if (point.lanes > 1) columns = b.CreateAdd(columns, iota(l, b.getInt64Ty(), point.lanes));
    mask = column_mask(l, access, point, columns);
    if (!address.pointer) address.pointers = advance(l, element, access.row, b.CreateMul(columns, splat(l, access.stride, point.lanes)));
  }
  if (load) {
    llvm::Value* other = nullptr;
    if (mask) {
      const double number = operation.attributes.number(AttributeName::other);
      llvm::Type* type = compute_type(l, l.type(operation.results[0]));
      other = type->isFloatingPointTy() ? static_cast<llvm::Value*>(llvm::ConstantFP::get(type, number))
                                        : llvm::ConstantInt::getSigned(type, element == ElementType::i1 ? (number != 0 ? -1 : 0) : static_cast<std::int64_t>(number));
      if (type->isFloatingPointTy()) other = round_to(l, element, other);
      other = splat(l, other, point.lanes);
    }
    return {.value = load_lanes(l, element, address, point.lanes, mask, other)};
  }
  store_lanes(l, element, address, point.lanes, mask, as_vector(l, evaluate(l, operation.operands[1], point), point.lanes, element));
  return {};
}

// ---- gather

struct GatherIndices {
  std::vector<Lane> lanes;
  bool contiguous = true;                       // all but the last index are the same in all lanes, the last counts up by one
};

GatherIndices gather_indices(Lowering& l, const Operation& operation, const Point& point) {
  GatherIndices indices;
  const std::size_t rank = l.type(operation.operands[0]).rank;
  const ViewValue& view = view_of(l, operation);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    indices.lanes.push_back(evaluate(l, operation.operands[1 + axis], point));
    const Lane& lane = indices.lanes.back();
    indices.contiguous = indices.contiguous && (axis + 1 < rank ? lane.uniform : !lane.uniform && lane.base && lane.step == 1);
  }
  const auto* stride = rank > 0 ? llvm::dyn_cast<llvm::ConstantInt>(view.strides.back()) : nullptr;
  indices.contiguous = indices.contiguous && stride && stride->isOne();
  return indices;
}

bool has_mask(const Operation& operation) { return operation.attributes.integer(AttributeName::has_mask) != 0; }

std::optional<llvm::Value*> gather_condition(Lowering& l, const Operation& operation, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  for (std::size_t axis = 0; axis < l.type(operation.operands[0]).rank; ++axis) {
    const Value index = operation.operands[1 + axis];
    if (!l.plan.lazy[index.index] && l.type(index).rank > 0) return std::nullopt;   // computed in the sweep, not known before it
  }
  const GatherIndices indices = gather_indices(l, operation, point);
  if (!indices.contiguous) return std::nullopt;
  const ViewValue& view = view_of(l, operation);
  llvm::Value* condition = nullptr;
  const auto require = [&](llvm::Value* value) { condition = condition ? b.CreateAnd(condition, value) : value; };
  for (std::size_t axis = 0; axis < indices.lanes.size(); ++axis) {
    const Lane& lane = indices.lanes[axis];
    llvm::Value* first = b.CreateSExt(lane.base ? lane.base : lane.value, b.getInt64Ty());
    require(below(l, first, view.sizes[axis]));
    if (!lane.uniform) require(below(l, b.CreateAdd(first, index_constant(l, point.lanes - 1)), view.sizes[axis]));
  }
  if (has_mask(operation)) {
    const std::optional<llvm::Value*> mask = all_true(l, operation.operands.back(), point);
    if (!mask) return std::nullopt;
    require(*mask);
  }
  return condition;
}

Lane access_gather(Lowering& l, OperationId id, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const Operation& operation = l.function.operation(id);
  const ViewValue& view = view_of(l, operation);
  const ElementType element = l.type(operation.operands[0]).element;
  const GatherIndices indices = gather_indices(l, operation, point);
  const int lanes = point.lanes;
  Address address;
  if (point.whole && l.sweep->conditional[id.index] && indices.contiguous) {
    address.pointer = view.base;
    for (std::size_t axis = 0; axis < indices.lanes.size(); ++axis) {
      const Lane& lane = indices.lanes[axis];
      llvm::Value* index = b.CreateSExt(lane.base ? lane.base : lane.value, b.getInt64Ty());
      address.pointer = advance(l, element, address.pointer, b.CreateMul(index, view.strides[axis]));
    }
    return {.value = load_lanes(l, element, address, lanes, nullptr, nullptr)};
  }
  llvm::Value* mask = has_mask(operation) ? as_vector(l, evaluate(l, operation.operands.back(), point), lanes) : nullptr;
  llvm::Value* offset = splat(l, index_constant(l, 0), lanes);
  llvm::Value* live = mask;
  for (std::size_t axis = 0; axis < indices.lanes.size(); ++axis) {
    llvm::Value* index = b.CreateSExt(as_vector(l, indices.lanes[axis], lanes), vector_of(b.getInt64Ty(), lanes));
    check_index(l, operation, view, static_cast<int>(axis), index, live);
    llvm::Value* inside = below(l, index, splat(l, view.sizes[axis], lanes));
    mask = mask ? b.CreateAnd(mask, inside) : inside;
    offset = b.CreateAdd(offset, b.CreateMul(index, splat(l, view.strides[axis], lanes)));
  }
  llvm::Type* type = vector_of(compute_type(l, l.type(operation.results[0])), lanes);
  if (!mask) mask = splat(l, b.getTrue(), lanes);
  (lanes == 1 ? address.pointer : address.pointers) = advance(l, element, view.base, offset);
  return {.value = load_lanes(l, element, address, lanes, mask, llvm::Constant::getNullValue(type))};
}

// ---- pointers

Value mask_operand(const Operation& operation) {
  const std::size_t position = operation.opcode == Opcode::load ? 1 : 2;
  return operation.operands.size() > position ? operation.operands[position] : Value{};
}

Address pointer_address(Lowering& l, const Lane& pointer, const Point& point, ElementType element) {
  if (point.lanes == 1) return {.pointer = as_vector(l, pointer, 1, element)};
  if (!pointer.uniform && pointer.base && pointer.step == 1) return {.pointer = pointer.base};
  return {.pointers = as_vector(l, pointer, point.lanes, element)};
}

Lane access_pointer(Lowering& l, OperationId id, const Point& point) {
  const Operation& operation = l.function.operation(id);
  const ElementType element = l.type(operation.operands[0]).element;
  const Lane pointer = evaluate(l, operation.operands[0], point);
  const Address address = pointer_address(l, pointer, point, element);
  const Value mask_value = mask_operand(operation);
  llvm::Value* mask = nullptr;
  if (mask_value && !(point.whole && l.sweep->conditional[id.index])) mask = as_vector(l, evaluate(l, mask_value, point), point.lanes);
  if (!mask && address.pointers) mask = splat(l, l.builder.getTrue(), point.lanes);
  if (operation.opcode == Opcode::store) {
    store_lanes(l, element, address, point.lanes, mask, as_vector(l, evaluate(l, operation.operands[1], point), point.lanes, element));
    return {};
  }
  llvm::Value* other = llvm::Constant::getNullValue(vector_of(compute_type(l, l.type(operation.results[0])), point.lanes));
  if (operation.operands.size() > 2 && mask) other = as_vector(l, evaluate(l, operation.operands[2], point), point.lanes, element);
  return {.value = load_lanes(l, element, address, point.lanes, mask, other)};
}

Lane access_atomic(Lowering& l, OperationId id, const Point& point) {
  const Operation& operation = l.function.operation(id);
  std::vector<llvm::Value*> values;
  for (Value operand : operation.operands) values.push_back(as_vector(l, evaluate(l, operand, point), 1, l.type(operand).element));
  const bool cas = operation.opcode == Opcode::atomic_cas;
  llvm::Value* third = values.size() > 2 ? values[2] : nullptr;
  return {.value = emit_atomic(l, operation, values[0], values[1], cas ? third : nullptr, cas ? nullptr : third)};
}

}  // namespace

bool begin_access(Lowering& l, OperationId id, const Point& anywhere) {
  llvm::IRBuilder<>& b = l.builder;
  const Operation& operation = l.function.operation(id);
  if (operation.opcode != Opcode::view_load && operation.opcode != Opcode::view_store) return false;
  set_location(l, operation);
  const ir::Type& tile = view_tile(l, operation);
  const ViewValue& view = view_of(l, operation);
  const int leading = leading_axes(l, operation, tile);
  ViewAccess access;
  access.inside = b.getTrue();
  access.origin = view.base;
  for (int axis = 0; axis < leading + tile.rank; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    llvm::Value* offset = view_offset(l, operation, axis);
    if (axis < leading) {
      check_index(l, operation, view, axis, offset, nullptr);
      access.inside = b.CreateAnd(access.inside, below(l, offset, view.sizes[a]));
    }
    access.origin = advance(l, l.type(operation.operands[0]).element, access.origin, b.CreateMul(offset, view.strides[a]));
  }
  const auto vector_axis = static_cast<std::size_t>(leading + anywhere.vector_axis);
  llvm::Value* offset = view_offset(l, operation, static_cast<int>(vector_axis));
  llvm::Value* zero = index_constant(l, 0);
  access.low = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, zero, b.CreateNeg(offset));
  access.high = b.CreateSub(view.sizes[vector_axis], offset);
  access.stride = view.strides[vector_axis];
  const auto* stride = llvm::dyn_cast<llvm::ConstantInt>(access.stride);
  access.unit = stride && stride->isOne();
  l.sweep->views[id.index] = access;
  return true;
}

void begin_access_row(Lowering& l, OperationId id, const Point& row) {
  const auto found = l.sweep->views.find(id.index);
  if (found == l.sweep->views.end()) return;
  llvm::IRBuilder<>& b = l.builder;
  const Operation& operation = l.function.operation(id);
  const ir::Type& tile = view_tile(l, operation);
  const ViewValue& view = view_of(l, operation);
  const int leading = leading_axes(l, operation, tile);
  ViewAccess& access = found->second;
  llvm::Value* inside = access.inside;
  access.row = access.origin;
  for (int axis = 0; axis < tile.rank; ++axis) {
    if (axis == row.vector_axis) continue;
    const auto view_axis = static_cast<std::size_t>(leading + axis);
    llvm::Value* index = row.index[static_cast<std::size_t>(axis)];
    inside = b.CreateAnd(inside, below(l, b.CreateAdd(view_offset(l, operation, leading + axis), index), view.sizes[view_axis]));
    access.row = advance(l, l.type(operation.operands[0]).element, access.row, b.CreateMul(index, view.strides[view_axis]));
  }
  access.row_high = b.CreateSelect(inside, access.high, index_constant(l, 0));
}

std::optional<llvm::Value*> access_condition(Lowering& l, OperationId id, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const Operation& operation = l.function.operation(id);
  set_location(l, operation);
  if (operation.opcode == Opcode::gather) return gather_condition(l, operation, point);
  if (operation.opcode == Opcode::load || operation.opcode == Opcode::store) {
    const Value mask = mask_operand(operation);
    if (!mask) return nullptr;                   // nothing to check
    return all_true(l, mask, point);
  }
  const auto found = l.sweep->views.find(id.index);
  if (found == l.sweep->views.end()) return std::nullopt;
  const ViewAccess& access = found->second;
  llvm::Value* column = point.index[static_cast<std::size_t>(point.vector_axis)];
  llvm::Value* end = b.CreateAdd(column, index_constant(l, point.lanes));
  llvm::Value* condition = b.CreateAnd(b.CreateICmpSGE(column, access.low), b.CreateICmpSLE(end, access.row_high));
  if (!access.unit) condition = b.CreateAnd(condition, b.CreateICmpEQ(access.stride, index_constant(l, 1)));
  return condition;
}

Lane emit_access(Lowering& l, OperationId id, const Point& point) {
  const Operation& operation = l.function.operation(id);
  set_location(l, operation);
  if (operation.opcode == Opcode::view_load || operation.opcode == Opcode::view_store) return access_view(l, id, point);
  if (operation.opcode == Opcode::gather) return access_gather(l, id, point);
  if (operation.opcode == Opcode::load || operation.opcode == Opcode::store) return access_pointer(l, id, point);
  if (operation.opcode == Opcode::atomic || operation.opcode == Opcode::atomic_cas) return access_atomic(l, id, point);
  fail(l, operation, "is no access to memory");
}

namespace {

/// A rank-0 view_load or view_store picks one element.
llvm::Value* scalar_view(Lowering& l, const Operation& operation) {
  llvm::IRBuilder<>& b = l.builder;
  const ViewValue& view = view_of(l, operation);
  const ElementType element = l.type(operation.operands[0]).element;
  llvm::Value* pointer = view.base;
  llvm::Value* inside = b.getTrue();
  for (std::size_t axis = 0; axis < view.sizes.size(); ++axis) {
    llvm::Value* index = nullptr;
    if (operation.opcode == Opcode::gather) index = b.CreateSExt(l.scalars[operation.operands[1 + axis].index], b.getInt64Ty());
    else index = view_offset(l, operation, static_cast<int>(axis));
    llvm::Value* live = operation.opcode == Opcode::gather && has_mask(operation) ? l.scalars[operation.operands.back().index] : nullptr;
    check_index(l, operation, view, static_cast<int>(axis), index, live);
    inside = b.CreateAnd(inside, below(l, index, view.sizes[axis]));
    pointer = advance(l, element, pointer, b.CreateMul(index, view.strides[axis]));
  }
  if (operation.opcode == Opcode::gather && has_mask(operation)) inside = b.CreateAnd(inside, l.scalars[operation.operands.back().index]);
  if (operation.opcode == Opcode::view_store) {
    store_lanes(l, element, {.pointer = pointer}, 1, inside, l.scalars[operation.operands[1].index]);
    return nullptr;
  }
  llvm::Type* type = compute_type(l, l.type(operation.results[0]));
  llvm::Value* other = llvm::Constant::getNullValue(type);
  if (const double number = operation.attributes.number(AttributeName::other); number != 0) {
    other = type->isFloatingPointTy() ? round_to(l, element, llvm::ConstantFP::get(type, number))
                                      : static_cast<llvm::Value*>(llvm::ConstantInt::getSigned(type, static_cast<std::int64_t>(number)));
  }
  return load_lanes(l, element, {.pointer = pointer}, 1, inside, other);
}

}  // namespace

llvm::Value* emit_scalar_access(Lowering& l, OperationId id) {
  const Operation& operation = l.function.operation(id);
  const ElementType element = l.type(operation.operands[0]).element;
  const auto scalar = [&](std::size_t i) { return operation.operands.size() > i ? l.scalars[operation.operands[i].index] : nullptr; };
  if (operation.opcode == Opcode::load) {
    llvm::Value* other = scalar(2);
    if (!other) other = llvm::Constant::getNullValue(compute_type(l, l.type(operation.results[0])));
    return load_lanes(l, element, {.pointer = scalar(0)}, 1, scalar(1), other);
  }
  if (operation.opcode == Opcode::store) {
    store_lanes(l, element, {.pointer = scalar(0)}, 1, scalar(2), scalar(1));
    return nullptr;
  }
  if (operation.opcode == Opcode::atomic) return emit_atomic(l, operation, scalar(0), scalar(1), nullptr, scalar(2));
  if (operation.opcode == Opcode::atomic_cas) return emit_atomic(l, operation, scalar(0), scalar(1), scalar(2), nullptr);
  return scalar_view(l, operation);
}

}  // namespace flextile::backend::host
