// The lists of a block mask on the host, for everything that walks them: pictures, counts, conversions.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include <flextile/attention/block_mask.hpp>

namespace flextile::attention {

/// A table at most this large has a fixed pitch; a larger one is packed.
inline constexpr std::int64_t pitched_bytes = 16 << 20;

/// An entry of a list: the tile's number, and whether some of its scores are hidden.
inline constexpr std::int32_t entry_of(std::int64_t tile, bool partial) { return static_cast<std::int32_t>(2 * tile + partial); }
inline constexpr std::int32_t tile_of(std::int32_t entry) { return entry >> 1; }
inline constexpr bool is_partial(std::int32_t entry) { return entry & 1; }

class TileTable {
 public:
  std::vector<std::int64_t> starts;
  std::vector<std::int32_t> counts;
  std::vector<std::int32_t> entries;

  TileTable() = default;
  /// Copies the lists from their device.
  explicit TileTable(const TileLists& lists);

  std::int64_t row_count() const { return static_cast<std::int64_t>(counts.size()); }
  /// visit(tile, partial), in order.
  template <class Visit> void for_each(std::int64_t row, Visit&& visit) const {
    for (std::int64_t i = starts[row]; i < starts[row] + counts[row]; ++i) visit(std::int64_t(tile_of(entries[i])), is_partial(entries[i]));
  }
  std::int64_t visible() const;
  std::int64_t partial() const;
};

/// The lists by column of a table whose rows come in `groups` of `rows` and hold tiles below `columns`.
TileTable transpose(const TileTable& table, std::int64_t groups, std::int64_t rows, std::int64_t columns);

/// The lists of a mask whose sizes, blocks and device are set, by its mod, with at most `workspace` bytes beside them. Null: rows alone.
void build_lists(const ir::Mod& mod, const BlockMask& mask, std::int64_t workspace, TileLists& rows, TileLists* columns);

/// Sets `order` from the counts, on their device.
void order_lists(TileLists& lists);

/// The table on `device` as [batch, heads, rows] lists of tiles below `columns`: pitched while that is at most 16 MiB.
TileLists upload(const TileTable& table, std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns, const Device& device);

}  // namespace flextile::attention
