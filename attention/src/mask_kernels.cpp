#include "mask_kernels.hpp"

#include <flextile/dsl/dsl.hpp>

#include "kernel_families.hpp"
#include "kernel_parameters.hpp"
#include "mod_arguments.hpp"

namespace flextile::attention {
namespace {

/// Rows that are evaluated at once.
constexpr int strip = 16;
/// Tiles of a list that are handled at once.
constexpr int list_step = 32;

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Columns that a tile takes in registers.
int padded(int kv_block) { return round_up(kv_block, 8); }

ir::Parameter scalar(const char* name, ElementType element) { return {.name = name, .type = ir::Type::scalar(element)}; }
ir::Parameter view(const char* name, ElementType element, int rank, bool read_only) {
  return {.name = name, .type = ir::Type::view(element, rank), .read_only = read_only};
}
ir::Parameter pointer(const char* name, ElementType element) { return {.name = name, .type = ir::Type::pointer(element)}; }

}  // namespace

std::uint64_t ClassifyKernel::hash() const {
  return Hash().add(reinterpret_cast<std::uintptr_t>(mask)).add(q_block).add(kv_block).value();
}

/// As many whole tiles as make about 256 columns, a power of two.
int ClassifyKernel::tiles_per_program() const {
  int tiles = 1;
  while (2 * tiles * padded(kv_block) <= 256) tiles *= 2;
  return tiles;
}

std::vector<ir::Parameter> ClassifyKernel::signature() const {
  std::vector<ir::Parameter> parameters = {view("classes", ElementType::u8, 3, false), scalar("heads", ElementType::i32),
                                           scalar("q_len", ElementType::i32),          scalar("kv_len", ElementType::i32),
                                           scalar("first_group", ElementType::i32),    scalar("first_row", ElementType::i32)};
  append_parameters(parameters, mask, mask_indices, "mask");
  return parameters;
}

// One program: some neighbouring tiles of one row of tiles. Columns lie side by side, strips of rows are added up, so that
// each column counts its visible scores; a tile's count against the number of its scores tells its class.
ir::Function ClassifyKernel::trace(const std::vector<ir::Parameter>& facts) const {
  const int tiles = tiles_per_program(), width = padded(kv_block), columns_at_once = tiles * width;
  return flextile::trace("classify_tiles", [&](Parameters& declared) {
    KernelParameters p(declared, facts);
    AnyView classes = p.loose_view();
    AnyTile heads = p.scalar(), q_len = p.scalar(), kv_len = p.scalar(), first_group = p.scalar(), first_row = p.scalar();
    const std::vector<CallArgument> captured = p.rest();

    AnyTile programs_per_row = (classes.size(2) + (tiles - 1)) / tiles;
    AnyTile first_tile = program_id(0) % programs_per_row * tiles;
    AnyTile row_in_chunk = program_id(0) / programs_per_row % classes.size(1);
    AnyTile group_in_chunk = program_id(0) / programs_per_row / classes.size(1);
    AnyTile batch = (first_group + group_in_chunk) / heads;
    AnyTile head = (first_group + group_in_chunk) % heads;
    AnyTile top = (first_row + row_in_chunk) * q_block;

    // Where a column of registers lies: its tile, and its place within.
    AnyTile lane = arange(columns_at_once);
    AnyTile column = (first_tile + lane / width) * kv_block + lane % width;
    AnyTile column_exists = lane % width < kv_block && column < kv_len;
    AnyTile mod_column = expand_dims(min(column, kv_len - 1), 0);      // mods see existing positions only

    AnyVar visible_in_column = full(ElementType::i32, {columns_at_once}, 0);
    for (auto offset : range(0, q_block, strip)) {
      AnyTile row_in_tile = offset + arange(strip);
      AnyTile row = top + row_in_tile;
      AnyTile row_exists = row_in_tile < q_block && row < q_len;
      AnyTile shown = call(*mask, with({batch, head, expand_dims(min(row, q_len - 1), 1), mod_column}, captured));
      visible_in_column = visible_in_column + sum(cast(shown && expand_dims(row_exists, 1), ElementType::i32), 0);
    }

    AnyTile tile = first_tile + arange(tiles);
    AnyTile visible = sum(reshape(where(column_exists, visible_in_column, 0), {tiles, width}), 1);
    AnyTile block_rows = q_block, block_columns = kv_block;
    AnyTile scores = min(kv_len - tile * kv_block, block_columns) * min(q_len - top, block_rows);
    AnyTile kind = where(visible == 0, int(TileClass::absent), where(visible == scores, int(TileClass::full), int(TileClass::partial)));
    store(classes, cast(kind, ElementType::u8), {group_in_chunk, row_in_chunk, first_tile});
  });
}

std::uint64_t CompactKernel::hash() const { return Hash().add(count_only).add(packed).value(); }

std::vector<ir::Parameter> CompactKernel::signature() const {
  return {view("classes", ElementType::u8, 3, true), pointer("starts", ElementType::i64),      pointer("counts", ElementType::i32),
          pointer("entries", ElementType::i32),      scalar("pitch", ElementType::i64),        scalar("first_group", ElementType::i32),
          scalar("first_list", ElementType::i32),    scalar("first_tile", ElementType::i32),   scalar("total_lists", ElementType::i32)};
}

// One program: one list. Of some neighbouring tiles at once, a visible tile's place is the number of visible ones before it.
ir::Function CompactKernel::trace(const std::vector<ir::Parameter>& facts) const {
  return flextile::trace(count_only ? "count_tiles" : "list_tiles", [&](Parameters& declared) {
    KernelParameters p(declared, facts);
    AnyView classes = p.loose_view();
    AnyPointer starts = p.pointer(), counts = p.pointer(), entries = p.pointer();
    AnyTile pitch = p.scalar();
    AnyTile first_group = p.scalar(), first_list = p.scalar(), first_tile = p.scalar(), total_lists = p.scalar();

    AnyTile group = program_id(0) / classes.size(1), list = program_id(0) % classes.size(1);
    AnyTile index = cast(first_group + group, ElementType::i64) * total_lists + (first_list + list);
    AnyTile before = expand_dims(arange(list_step), 1) < expand_dims(arange(list_step), 0);
    AnyVar start = index * pitch;
    if (packed) start = load(starts + index);
    AnyVar found = load(counts + index);
    for (auto offset : range(0, classes.size(2), list_step)) {
      AnyTile kind = load(classes, {group, list, offset}, {list_step});      // absent beyond the end
      AnyTile listed = kind != int(TileClass::absent);
      if (!count_only) {
        AnyTile place = sum(cast(before && expand_dims(listed, 1), ElementType::i32), 0);
        AnyTile tile = first_tile + offset + arange(list_step);
        AnyTile entry = 2 * tile + cast(kind == int(TileClass::partial), ElementType::i32);
        store(entries + (start + (found + place)), entry, listed);
      }
      found = found + sum(cast(listed, ElementType::i32), 0);
    }
    if (!packed) store(starts + index, start);
    store(counts + index, found);
  }, {.num_warps = 1});
}

std::vector<ir::Parameter> OrderKernel::signature() const {
  ir::Parameter counts = pointer("counts", ElementType::i32);
  counts.read_only = true;
  ir::Parameter starts = pointer("starts", ElementType::i64);
  starts.read_only = true;
  return {starts, counts, pointer("order", ElementType::i64), scalar("lists", ElementType::i32)};
}

// One program: some lists of a group. A list's place is the number of lists that go before it: by count, but counts of one
// half octave are alike (exponent and first bit of the count as a float), and those lists stay neighbours in the caches, the last
// one first: under a causal mask that is by count again.
ir::Function OrderKernel::trace(const std::vector<ir::Parameter>& facts) const {
  constexpr int others_at_once = 128;
  return flextile::trace("order_lists", [&](Parameters& declared) {
    KernelParameters p(declared, facts);
    AnyPointer starts = p.pointer(), counts = p.pointer(), order = p.pointer();
    AnyTile lists = p.scalar();
    AnyTile programs = (lists + (lists_per_program - 1)) / lists_per_program;
    AnyTile first = cast(program_id(0) / programs, ElementType::i64) * lists;        // of the group
    AnyTile list = program_id(0) % programs * lists_per_program + arange(lists_per_program);
    auto rank = [](const AnyTile& count) { return AnyTile(bitcast(cast(count, ElementType::f32), ElementType::i32) >> 22); };
    AnyTile count = expand_dims(rank(load(counts + (first + list), list < lists, 0)), 1);
    AnyVar place = full(ElementType::i32, {lists_per_program}, 0);
    for (auto offset : range(0, lists, others_at_once)) {
      AnyTile other = offset + arange(others_at_once);
      AnyTile exists = expand_dims(other < lists, 0);
      AnyTile others = expand_dims(rank(load(counts + (first + other), other < lists, 0)), 0);
      AnyTile later = expand_dims(other, 0) > expand_dims(list, 1);
      place = place + sum(cast(exists && (others > count || (others == count && later)), ElementType::i32), 1);
    }
    AnyTile exists = list < lists;
    AnyPointer at = order + (first + place) * 3;
    store(at, cast(list, ElementType::i64), exists);
    store(at + 1, cast(load(counts + (first + list), exists, 0), ElementType::i64), exists);
    store(at + 2, load(starts + (first + list), exists, 0), exists);
  });
}

}  // namespace flextile::attention
