// BlockMask as text.
#include <algorithm>
#include <ostream>

#include <flextile/attention/block_mask.hpp>

#include "tile_table.hpp"

namespace flextile {
namespace {

std::string percent(double value) {
  const auto hundredths = static_cast<long long>(value * 100 + 0.5);
  const std::string digits = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (digits.size() < 2 ? ".0" : ".") + digits + " %";
}

std::string product(std::initializer_list<std::int64_t> numbers) {
  std::string text;
  for (std::int64_t number : numbers) text += (text.empty() ? "" : " x ") + std::to_string(number);
  return text;
}

/// A cell covers several tiles: full when all are, skipped when all are.
void draw(std::string& text, const attention::TileTable& table, std::int64_t first_row, std::int64_t height, std::int64_t width, std::int64_t rows,
          std::int64_t columns) {
  const std::int64_t tall = (rows + height - 1) / height, wide = (columns + width - 1) / width;
  std::vector<std::int64_t> visible(width), full(width);
  for (std::int64_t top = 0; top < rows; top += tall) {
    std::fill(visible.begin(), visible.end(), 0);
    std::fill(full.begin(), full.end(), 0);
    const std::int64_t bottom = std::min(rows, top + tall);
    for (std::int64_t row = top; row < bottom; ++row)
      table.for_each(first_row + row, [&](std::int64_t column, bool partial) {
        ++visible[column / wide];
        full[column / wide] += !partial;
      });
    text += "  ";
    for (std::int64_t cell = 0; cell * wide < columns; ++cell) {
      const std::int64_t all = (bottom - top) * (std::min(columns, (cell + 1) * wide) - cell * wide);
      text += full[cell] == all ? '#' : visible[cell] ? '+' : '.';
    }
    text += '\n';
  }
}

}  // namespace

std::string BlockMask::to_string(int grid, int limit) const {
  if (empty()) return "BlockMask that was never built\n";
  const attention::TileTable table(rows_);
  const std::int64_t rows = q_tiles(), columns = kv_tiles(), all = batch_ * heads_ * rows * columns;
  const std::int64_t visible = table.visible(), partial = table.partial();
  std::string text = "BlockMask of " + product({batch_, heads_, q_len_, kv_len_}) + " (batch, heads, queries, keys), tiles of " +
                     product({q_block_, kv_block_}) + "\n  " + std::to_string(visible) + " of " + std::to_string(all) + " tiles are visited (" +
                     std::to_string(visible - partial) + " full, " + std::to_string(partial) + " partial); " +
                     percent(100.0 * static_cast<double>(all - visible) / static_cast<double>(all)) + " are skipped\n";
  const std::int64_t pictures = std::min<std::int64_t>(batch_ * heads_, std::max(limit, 0));
  for (std::int64_t i = 0; i < pictures; ++i) {
    if (batch_ * heads_ > 1) text += "  batch " + std::to_string(i / heads_) + ", head " + std::to_string(i % heads_) + "\n";
    draw(text, table, i * rows, grid < 1 ? rows : std::min<std::int64_t>(grid, rows), grid < 1 ? columns : std::min<std::int64_t>(grid, columns), rows, columns);
  }
  if (pictures < batch_ * heads_) text += "  and " + std::to_string(batch_ * heads_ - pictures) + " more\n";
  return text + "  # full   + partial   . skipped\n";
}

std::ostream& operator<<(std::ostream& stream, const BlockMask& mask) { return stream << mask.to_string(); }

}  // namespace flextile
