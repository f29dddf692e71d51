// Elements that change their place: convert_layout, reshape and transpose. Where every thread already holds what it needs,
// registers are renamed; where another lane does, lanes shuffle; else the tile goes through shared memory, in the scratch space that
// allocate_shared gave it.
#include <algorithm>
#include <map>
#include <numeric>

#include <flextile/ir/error.hpp>

#include "nvptx/lowering.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/shared.hpp"

namespace flextile::backend {
namespace {

using ir::Opcode;

struct Place {
  const Layout& layout;
  Shape shape;
  int registers;
};

Place place_of(Lowering& l, ir::Value value) {
  const Layout& layout = layout_of(l, value);
  return {layout, l.type(value).shape(), register_count(layout)};
}

/// Byte address in scratch of the element that register `index` holds; `strides` in elements.
llvm::Value* element_address(Lowering& l, const Place& place, const std::vector<int>& strides, int index, int bytes, std::int64_t base, llvm::Value* thread) {
  const Shape offset = digit_offset(place.layout.registers, index, static_cast<int>(place.shape.size()));
  std::int64_t fixed = 0;
  for (std::size_t axis = 0; axis < offset.size(); ++axis) fixed += offset[axis] * strides[axis];
  return l.b.CreateGEP(l.b.getInt8Ty(), shared_address(l, base, thread), l.b.getInt32(static_cast<int>(fixed * bytes)));
}

llvm::Value* thread_bytes(Lowering& l, const Place& place, const std::vector<int>& strides, int bytes) {
  llvm::Value* sum = l.b.getInt32(0);
  for (std::size_t axis = 0; axis < place.shape.size(); ++axis) {
    llvm::Value* offset = thread_offset(l, place.layout, static_cast<int>(axis));
    sum = l.b.CreateAdd(sum, l.b.CreateMul(offset, l.b.getInt32(strides[axis] * bytes)));
  }
  return sum;
}

void through_shared(Lowering& l, const ir::Operation& operation, ir::Value from, ir::Value to) {
  const Place source = place_of(l, from), target = place_of(l, to);
  const ScratchShape scratch = move_scratch(l.f, operation);
  const bool pointer = l.type(from).is_pointer();
  const int bytes = scratch.element_bytes;
  llvm::Type* unit = pointer ? l.b.getInt64Ty() : element_type(l, l.type(from).element);
  if (unit->isIntegerTy(1)) unit = l.b.getInt8Ty();
  const std::int64_t base = operation.attributes.integer(ir::AttributeName::offset);

  llvm::Value* thread = thread_bytes(l, source, scratch.source_strides, bytes);
  const int run = scratch.source_run;
  for (int i = 0; i < source.registers; i += run) {
    llvm::Value* address = element_address(l, source, scratch.source_strides, i, bytes, base, thread);
    auto stored = [&](int k) {
      llvm::Value* value = l.of(from)[i + k];
      return pointer ? l.b.CreatePtrToInt(value, unit) : to_memory(l, value);
    };
    llvm::Value* value = run == 1 ? stored(0) : llvm::PoisonValue::get(llvm::FixedVectorType::get(unit, run));
    for (int k = 0; run > 1 && k < run; ++k) value = l.b.CreateInsertElement(value, stored(k), static_cast<std::uint64_t>(k));
    l.b.CreateAlignedStore(value, address, llvm::Align(run * bytes));
  }
  barrier(l);
  thread = thread_bytes(l, target, scratch.target_strides, bytes);
  Registers& out = l.of(to);
  out.resize(target.registers);
  const int width = scratch.target_run;
  for (int i = 0; i < target.registers; i += width) {
    llvm::Value* address = element_address(l, target, scratch.target_strides, i, bytes, base, thread);
    llvm::Type* type = width == 1 ? unit : llvm::FixedVectorType::get(unit, width);
    llvm::Value* loaded = l.b.CreateAlignedLoad(type, address, llvm::Align(width * bytes));
    for (int k = 0; k < width; ++k) {
      llvm::Value* value = width == 1 ? loaded : l.b.CreateExtractElement(loaded, static_cast<std::uint64_t>(k));
      out[i + k] = pointer ? l.b.CreateIntToPtr(value, register_type(l, l.type(to))) : from_memory(l, value, l.type(to).element);
    }
  }
}

/// Lane l of four holds columns 2l and 2l + 1 of each of four blocks of eight and is to hold all of block l: words of two numbers are
/// transposed among the four, first between neighbours, then between pairs.
void exchange_in_fours(Lowering& l, ir::Value from, ir::Value to) {
  const Place source = place_of(l, from), target = place_of(l, to);
  const int rank = static_cast<int>(source.shape.size()), axis = source.layout.registers.front().axis;
  std::map<Shape, int> at;
  for (int i = 0; i < source.registers; ++i) at[digit_offset(source.layout.registers, i, rank)] = i;
  llvm::Type* word = l.b.getInt32Ty();
  llvm::Type* element = l.of(from).front()->getType();
  auto* pair = llvm::FixedVectorType::get(element, 2);
  llvm::Value* odd = l.b.CreateICmpNE(l.b.CreateAnd(l.lane, l.b.getInt32(1)), l.b.getInt32(0));
  llvm::Value* upper = l.b.CreateICmpNE(l.b.CreateAnd(l.lane, l.b.getInt32(2)), l.b.getInt32(0));
  // A lane keeps one of two words and gets the other one's counterpart.
  auto exchange = [&](llvm::Value*& a, llvm::Value*& b, llvm::Value* second, int mask) {
    llvm::Value* received = shuffle_xor(l, l.b.CreateSelect(second, a, b), mask);
    llvm::Value* first_word = l.b.CreateSelect(second, received, a);
    b = l.b.CreateSelect(second, b, received);
    a = first_word;
  };
  Registers& out = l.of(to);
  out.assign(static_cast<std::size_t>(target.registers), nullptr);
  for (int r = 0; r < target.registers; r += 8) {
    const Shape first = digit_offset(target.layout.registers, r, rank);
    llvm::Value* words[4];
    for (int block = 0; block < 4; ++block) {
      llvm::Value* both = llvm::PoisonValue::get(pair);
      for (int k : {0, 1}) {
        Shape place = first;
        place[axis] += 8 * block + k;
        both = l.b.CreateInsertElement(both, l.of(from)[at.at(place)], static_cast<std::uint64_t>(k));
      }
      words[block] = l.b.CreateBitCast(both, word);
    }
    exchange(words[0], words[1], odd, 1);
    exchange(words[2], words[3], odd, 1);
    exchange(words[0], words[2], upper, 2);
    exchange(words[1], words[3], upper, 2);
    for (int i = 0; i < 8; ++i) out[r + i] = l.b.CreateExtractElement(l.b.CreateBitCast(words[i / 2], pair), static_cast<std::uint64_t>(i % 2));
  }
}

void between_lanes(Lowering& l, const LaneMove& move, ir::Value from, ir::Value to) {
  Registers& out = l.of(to);
  out.clear();
  for (const LaneMove::Source& source : move.source) out.push_back(shuffle_from(l, l.of(from)[source.reg], source.lane, move.kept));
}

}  // namespace

void lower_move(Lowering& l, const ir::Operation& operation) {
  const ir::Value from = operation.operands[0], to = operation.results[0];
  if (l.type(from).rank == 0) return l.of(to).assign(register_count(layout_of(l, to)), l.scalar(from)), void();
  if (l.type(to).rank == 0) {   // reshape to a scalar: all threads hold the one element
    l.of(to) = {l.of(from).front()};
    return;
  }
  if (operation.opcode == Opcode::transpose && is_read_by_fragments(l.f, operation)) return;
  if (widens_rows(l.f, operation)) return exchange_in_fours(l, from, to);
  const std::vector<int> map = move_map(l.f, operation);
  if (map.empty()) {
    if (const std::optional<LaneMove> move = lane_move_of(l.f, operation)) return between_lanes(l, *move, from, to);
    return through_shared(l, operation, from, to);
  }
  Registers& out = l.of(to);
  out.clear();
  for (int index : map) out.push_back(l.of(from)[index]);
}

}  // namespace flextile::backend
