// Tiles in scratch memory: where an element lies in its slot, and loads and stores of lanes.
#include "host/lowering.hpp"

namespace flextile::backend::host {

namespace {

struct Stored {
  ElementType element = ElementType::i8;
  bool pointer = false;
  bool wide = false;
};

Stored stored_form(const Lowering& l, ir::Value value) {
  const ir::Type& type = l.type(value);
  return {type.element, type.is_pointer(), static_cast<bool>(l.plan.wide[value.index])};
}

llvm::Type* stored_type(Lowering& l, const Stored& form) {
  if (form.pointer) return l.builder.getPtrTy();
  if (form.wide) return is_integer(form.element) ? static_cast<llvm::Type*>(l.builder.getInt32Ty()) : l.builder.getFloatTy();
  return memory_type(l, form.element);
}

llvm::Value* from_stored(Lowering& l, const Stored& form, llvm::Value* value) {
  if (form.pointer) return value;
  if (form.wide) return is_integer(form.element) ? l.builder.CreateTrunc(value, vector_of(l.builder.getInt8Ty(), lanes_of(value))) : value;
  return decode(l, form.element, value);
}

llvm::Value* to_stored(Lowering& l, const Stored& form, llvm::Value* value) {
  if (form.pointer) return value;
  if (form.wide) return is_integer(form.element) ? l.builder.CreateIntCast(value, vector_of(l.builder.getInt32Ty(), lanes_of(value)), !is_unsigned(form.element)) : value;
  return encode(l, form.element, value);
}

/// Elements from the tile's start to the point, and the distance between lanes.
llvm::Value* linear_index(Lowering& l, const ir::Shape& shape, const Point& point, std::int64_t panel, std::int64_t& lane_stride) {
  llvm::IRBuilder<>& b = l.builder;
  if (panel > 0) {                               // a vector never crosses a panel: both begin at multiples of the vector's width
    llvm::Value* width = index_constant(l, panel);
    llvm::Value* column = point.index[1];
    llvm::Value* before = b.CreateMul(b.CreateUDiv(column, width), index_constant(l, panel * shape[0]));
    lane_stride = point.vector_axis == 0 ? panel : 1;
    return b.CreateAdd(before, b.CreateAdd(b.CreateMul(point.index[0], width), b.CreateURem(column, width)));
  }
  llvm::Value* index = index_constant(l, 0);
  std::int64_t stride = 1;
  lane_stride = 0;
  for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (axis == point.vector_axis) lane_stride = stride;
    if (shape[a] > 1) index = b.CreateAdd(index, b.CreateMul(point.index[a], index_constant(l, stride)));
    stride *= shape[a];
  }
  return index;
}

}  // namespace

llvm::Value* slot_pointer(Lowering& l, int slot) {
  const std::int64_t offset = l.plan.slots[static_cast<std::size_t>(slot)].offset;
  return offset == 0 ? l.scratch : l.builder.CreateConstInBoundsGEP1_64(l.builder.getInt8Ty(), l.scratch, static_cast<std::uint64_t>(offset));
}

Lane load_slot(Lowering& l, ir::Value stored, const ir::Shape& shape, const Point& point) {
  llvm::IRBuilder<>& b = l.builder;
  const Stored form = stored_form(l, stored);
  llvm::Type* element = stored_type(l, form);
  std::int64_t lane_stride = 0;
  llvm::Value* index = linear_index(l, shape, point, l.plan.panel[stored.index], lane_stride);
  llvm::Value* address = b.CreateInBoundsGEP(element, slot_pointer(l, l.plan.slot[stored.index]), index);
  const llvm::Align align(element->isPointerTy() ? 8 : element->getScalarSizeInBits() / 8);
  if (point.vector_axis < 0 || point.lanes == 1) {
    Lane lane;
    lane.value = from_stored(l, form, b.CreateAlignedLoad(element, address, align));
    lane.uniform = point.vector_axis < 0;
    return lane;
  }
  if (lane_stride == 1) return {.value = from_stored(l, form, b.CreateAlignedLoad(vector_of(element, point.lanes), address, align))};
  llvm::Value* vector = llvm::PoisonValue::get(vector_of(element, point.lanes));
  for (int lane = 0; lane < point.lanes; ++lane) {
    llvm::Value* at = b.CreateConstInBoundsGEP1_64(element, address, static_cast<std::uint64_t>(lane * lane_stride));
    vector = b.CreateInsertElement(vector, b.CreateAlignedLoad(element, at, align), static_cast<std::uint64_t>(lane));
  }
  return {.value = from_stored(l, form, vector)};
}

void store_slot(Lowering& l, ir::Value value, const Point& point, const Lane& lane, int slot) {
  llvm::IRBuilder<>& b = l.builder;
  const Stored form = stored_form(l, value);
  llvm::Type* element = stored_type(l, form);
  std::int64_t lane_stride = 0;
  llvm::Value* index = linear_index(l, l.type(value).shape(), point, l.plan.panel[value.index], lane_stride);
  llvm::Value* address = b.CreateInBoundsGEP(element, slot_pointer(l, slot), index);
  const llvm::Align align(element->isPointerTy() ? 8 : element->getScalarSizeInBits() / 8);
  const int lanes = point.vector_axis < 0 ? 1 : point.lanes;
  llvm::Value* stored = to_stored(l, form, as_vector(l, lane, lanes, l.type(value).element));
  if (lanes == 1 || lane_stride == 1) {
    b.CreateAlignedStore(stored, address, align);
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    llvm::Value* at = b.CreateConstInBoundsGEP1_64(element, address, static_cast<std::uint64_t>(i * lane_stride));
    b.CreateAlignedStore(b.CreateExtractElement(stored, static_cast<std::uint64_t>(i)), at, align);
  }
}

}  // namespace flextile::backend::host
