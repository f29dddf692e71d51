// How the elements of an index follow from their place in a tile [M, N]: which reads of a tensor at computed indices are those of a
// window of it.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// What is added, less what is subtracted, the constant, and the coordinates times -1, 0 or 1. Sums are those of i32, which wrap.
struct TileIndex {
  std::vector<ir::Value> added, subtracted;    // scalars
  std::int64_t constant = 0;
  std::array<int, 2> steps{};                  // of row and column
  bool operator==(const TileIndex&) const = default;
};

/// Of an i32 scalar or of a tile with two axes; none where it is more than that.
std::optional<TileIndex> tile_index(const ir::Function& function, ir::Value index);

/// The indices of a gather without a mask from a tile [M, N]: one for each axis of its view. Empty where one is none.
std::vector<TileIndex> gathered_indices(const ir::Function& function, const ir::Operation& gather);

/// The index at row 0 and column 0. binary(opcode, a, b) and number(constant) make scalars; `renamed` gives what stands for a scalar.
template <class Binary, class Number, class Renamed>
ir::Value first_of(const TileIndex& index, Binary binary, Number number, Renamed renamed) {
  ir::Value result;
  for (const ir::Value scalar : index.added) result = result ? binary(ir::Opcode::add, result, renamed(scalar)) : renamed(scalar);
  if (!result || index.constant != 0) result = result ? binary(ir::Opcode::add, result, number(index.constant)) : number(index.constant);
  for (const ir::Value scalar : index.subtracted) result = binary(ir::Opcode::sub, result, renamed(scalar));
  return result;
}

}  // namespace flextile::backend
