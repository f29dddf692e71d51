// Conversion from and to PyTorch's padded tables.
#include <algorithm>

#include <flextile/attention/block_mask.hpp>

#include "argument_checks.hpp"
#include "mask_arguments.hpp"
#include "tile_table.hpp"

namespace flextile {
namespace {

using attention::describe;
using attention::refuse;
using attention::text;

const std::string caller = "from_kv_blocks";

/// Two tables, on the host: how many tiles each row lists, and which.
struct PaddedLists {
  std::vector<i32> counts, indices;
};

void check_pair(const ir::TensorHandle& counts, const ir::TensorHandle& indices, const std::string& counts_name, const std::string& indices_name) {
  if (counts.rank != 3) refuse(caller, counts_name + " is " + describe(counts) + ": it must have 3 axes (batch, heads, query tiles)");
  if (indices.rank != 4) refuse(caller, indices_name + " is " + describe(indices) + ": it must have 4 axes (batch, heads, query tiles, key tiles)");
  for (int axis = 0; axis < 3; ++axis)
    if (counts.sizes[axis] != indices.sizes[axis])
      refuse(caller, indices_name + " is " + describe(indices) + ", " + counts_name + " is " + describe(counts) + ": the first three axes must agree");
}

PaddedLists download(const Tensor<i32>& counts, const Tensor<i32>& indices) {

  return {counts.to_host(), indices.to_host()};
}

/// Adds the lists' entries to `classes`, one row of `columns` at a time; says which row and entry is wrong.
void mark_row(const PaddedLists& lists, std::int64_t row, std::int64_t width, bool partial, std::vector<std::int8_t>& marks, const std::string& counts_name,
              const std::string& indices_name) {
  const auto columns = static_cast<std::int64_t>(marks.size());
  const std::int64_t count = lists.counts[row];
  if (count < 0 || count > width)
    refuse(caller, counts_name + " has " + text(count) + " at row " + text(row) + ": it must be from 0 to " + text(width));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t column = lists.indices[row * width + i];
    const std::string where = indices_name + " has " + text(column) + " at row " + text(row) + ", entry " + text(i);
    if (column < 0 || column >= columns) refuse(caller, where + ": it must be from 0 to " + text(columns - 1));
    if (marks[column] >= 0) refuse(caller, where + ": each tile must be listed once, in the partial or in the full list");
    marks[column] = partial;
  }
}

}  // namespace

BlockMask BlockMask::from_tables(const KvBlocks& tables, ir::Mod mod, const BlockMaskOptions& options) {
  if (!tables.kv_num_blocks) refuse(caller, "kv_num_blocks is empty: it must be given, with kv_indices");
  if (!tables.kv_indices) refuse(caller, "kv_indices is empty: it must be given, with kv_num_blocks");
  if (!tables.full_kv_num_blocks != !tables.full_kv_indices) refuse(caller, "full_kv_num_blocks and full_kv_indices must be given together");
  const ir::TensorHandle counts = tables.kv_num_blocks.handle(), indices = tables.kv_indices.handle();
  check_pair(counts, indices, "kv_num_blocks", "kv_indices");

  BlockMask mask;
  BlockMaskOptions filled = options;
  const MaskBlock block = attention::given_block(options);
  filled.q_block = block.q, filled.kv_block = block.kv;
  filled.batch = counts.sizes[0], filled.heads = counts.sizes[1];
  if (!filled.q_len) filled.q_len = counts.sizes[2] * filled.q_block;
  if (!filled.kv_len) filled.kv_len = indices.sizes[3] * filled.kv_block;
  attention::check_mask_options(filled, caller);
  mask.batch_ = filled.batch, mask.heads_ = filled.heads, mask.q_len_ = filled.q_len, mask.kv_len_ = filled.kv_len;
  mask.q_block_ = filled.q_block, mask.kv_block_ = filled.kv_block;
  mask.device_ = filled.device ? *filled.device : tables.kv_num_blocks.device();
  const std::int64_t rows = mask.q_tiles(), columns = mask.kv_tiles(), groups = mask.batch_ * mask.heads_;
  if (counts.sizes[2] != rows)
    refuse(caller, "kv_num_blocks is " + describe(counts) + ": " + text(mask.q_len_) + " query positions in tiles of " + text(mask.q_block_) + " make " +
                       text(rows) + " query tiles");

  const PaddedLists partial = download(tables.kv_num_blocks, tables.kv_indices);
  PaddedLists full;
  std::int64_t full_width = 0;
  if (tables.full_kv_num_blocks) {
    const ir::TensorHandle full_counts = tables.full_kv_num_blocks.handle(), full_indices = tables.full_kv_indices.handle();
    check_pair(full_counts, full_indices, "full_kv_num_blocks", "full_kv_indices");
    for (int axis = 0; axis < 3; ++axis)
      if (full_counts.sizes[axis] != counts.sizes[axis])
        refuse(caller, "full_kv_num_blocks is " + describe(full_counts) + ", kv_num_blocks is " + describe(counts) + ": they must have one shape");
    full_width = full_indices.sizes[3];
    full = download(tables.full_kv_num_blocks, tables.full_kv_indices);
  }

  attention::TileTable table;
  std::vector<std::int8_t> marks(columns);
  for (std::int64_t row = 0; row < groups * rows; ++row) {
    std::fill(marks.begin(), marks.end(), std::int8_t(-1));
    mark_row(partial, row, indices.sizes[3], true, marks, "kv_num_blocks", "kv_indices");
    if (tables.full_kv_num_blocks) mark_row(full, row, full_width, false, marks, "full_kv_num_blocks", "full_kv_indices");
    table.starts.push_back(static_cast<std::int64_t>(table.entries.size()));
    for (std::int64_t column = 0; column < columns; ++column)
      if (marks[column] >= 0) table.entries.push_back(attention::entry_of(column, marks[column] == 1));
    table.counts.push_back(static_cast<i32>(static_cast<std::int64_t>(table.entries.size()) - table.starts.back()));
  }
  attention::check_mod_device(mod, mask.device_, caller);
  mask.mod_ = static_cast<ir::Mod&&>(mod);
  mask.remember_versions();
  mask.rows_ = attention::upload(table, mask.batch_, mask.heads_, rows, columns, mask.device_);
  mask.columns_ = attention::upload(attention::transpose(table, groups, rows, columns), mask.batch_, mask.heads_, columns, rows, mask.device_);
  return mask;
}

namespace {

/// Both kinds of `lists` as padded tables of `width` columns.
void pad(const TileLists& lists, std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t width, const Device& device,
         Tensor<i32>& partial_counts, Tensor<i32>& partial_indices, Tensor<i32>& full_counts, Tensor<i32>& full_indices) {
  const attention::TileTable table(lists);
  Tensor<i32>* counts[] = {&full_counts, &partial_counts};
  Tensor<i32>* indices[] = {&full_indices, &partial_indices};
  for (int kind = 0; kind < 2; ++kind) {
    std::vector<i32> count(table.row_count()), index(table.row_count() * width);
    for (std::int64_t row = 0; row < table.row_count(); ++row) {
      std::vector<bool> listed(width);
      i32* next = index.data() + row * width;
      table.for_each(row, [&](std::int64_t tile, bool partial) {
        if (partial != (kind == 1)) return;
        *next++ = static_cast<i32>(tile);
        listed[tile] = true;
        ++count[row];
      });
      for (std::int64_t tile = 0; tile < width; ++tile)
        if (!listed[tile]) *next++ = static_cast<i32>(tile);      // in range, as PyTorch leaves them
    }
    *counts[kind] = from_host<i32>(device, count, {batch, heads, rows});
    *indices[kind] = from_host<i32>(device, index, {batch, heads, rows, width});
  }
}

}  // namespace

KvBlocks BlockMask::to_kv_blocks() const {
  if (empty()) attention::refuse("to_kv_blocks", "the mask was never built: make it with create_block_mask");
  KvBlocks tables;
  pad(rows_, batch_, heads_, q_tiles(), kv_tiles(), device_, tables.kv_num_blocks, tables.kv_indices, tables.full_kv_num_blocks, tables.full_kv_indices);
  pad(columns_, batch_, heads_, kv_tiles(), q_tiles(), device_, tables.q_num_blocks, tables.q_indices, tables.full_q_num_blocks, tables.full_q_indices);
  return tables;
}

}  // namespace flextile
