#include "tile_table.hpp"

namespace flextile::attention {

TileTable::TileTable(const TileLists& lists)
    : starts(lists.starts.to_host()), counts(lists.counts.to_host()), entries(lists.entries.to_host()) {}

std::int64_t TileTable::visible() const {
  std::int64_t sum = 0;
  for (std::int32_t count : counts) sum += count;
  return sum;
}

std::int64_t TileTable::partial() const {
  std::int64_t sum = 0;
  for (std::int64_t row = 0; row < row_count(); ++row) for_each(row, [&](std::int64_t, bool partial) { sum += partial; });
  return sum;
}

TileTable transpose(const TileTable& table, std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  TileTable result;
  result.counts.assign(groups * columns, 0);
  for (std::int64_t row = 0; row < groups * rows; ++row)
    table.for_each(row, [&](std::int64_t column, bool) { ++result.counts[row / rows * columns + column]; });
  std::int64_t total = 0;
  for (std::int32_t count : result.counts) result.starts.push_back(total), total += count;
  result.entries.resize(total);
  std::vector<std::int64_t> next = result.starts;
  for (std::int64_t row = 0; row < groups * rows; ++row)
    table.for_each(row, [&](std::int64_t column, bool partial) {
      result.entries[next[row / rows * columns + column]++] = entry_of(row % rows, partial);
    });
  return result;
}

TileLists upload(const TileTable& table, std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns, const Device& device) {
  const std::int64_t lists = batch * heads * rows;
  TileLists result;
  result.packed = lists * columns * 4 > pitched_bytes;
  std::vector<i64> starts(lists);
  std::vector<i32> entries;
  if (!result.packed) entries.resize(lists * columns);
  for (std::int64_t row = 0; row < lists; ++row) {
    const i32* from = table.entries.data() + table.starts[row];
    starts[row] = result.packed ? static_cast<std::int64_t>(entries.size()) : row * columns;
    if (result.packed)
      entries.insert(entries.end(), from, from + table.counts[row]);
    else
      for (std::int32_t i = 0; i < table.counts[row]; ++i) entries[starts[row] + i] = from[i];
  }
  if (entries.empty()) entries.push_back(0);
  result.starts = from_host<i64>(device, starts, {batch, heads, rows});
  result.counts = from_host<i32>(device, table.counts, {batch, heads, rows});
  result.entries = from_host<i32>(device, entries);
  order_lists(result);
  return result;
}

}  // namespace flextile::attention
