#include "nvptx/tile_index.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // of an operation that is not listed nothing is known

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using ir::Value;

/// The axes of the tile that a value's axes are; -1: along this one the value is asked at 0 alone.
using Axes = std::vector<int>;

TileIndex sum(TileIndex a, const TileIndex& b, int sign) {
  const auto& added = sign > 0 ? b.added : b.subtracted;
  const auto& subtracted = sign > 0 ? b.subtracted : b.added;
  a.added.insert(a.added.end(), added.begin(), added.end());
  a.subtracted.insert(a.subtracted.end(), subtracted.begin(), subtracted.end());
  a.constant = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.constant + sign * b.constant));
  for (std::size_t axis = 0; axis < a.steps.size(); ++axis) a.steps[axis] += sign * b.steps[axis];
  return a;
}

std::optional<TileIndex> index_of(const ir::Function& function, Value value, const Axes& axes) {
  const ir::Type& type = function.type(value);
  if (type.element != ElementType::i32) return std::nullopt;
  const ir::Operation* operation = function.defining(value);
  if (type.rank == 0 && !(operation && operation->opcode == Opcode::constant)) return TileIndex{.added = {value}, .subtracted = {}};
  if (!operation) return std::nullopt;
  auto of_operand = [&](std::size_t number, const Axes& its) { return index_of(function, operation->operands[number], its); };
  switch (operation->opcode) {
    case Opcode::constant: return TileIndex{.added = {}, .subtracted = {}, .constant = operation->attributes.integer(AttributeName::value)};
    case Opcode::arange: {
      TileIndex result{.added = {}, .subtracted = {}, .constant = operation->attributes.integer(AttributeName::start)};
      if (axes[0] >= 0) result.steps[static_cast<std::size_t>(axes[0])] = 1;
      return result;
    }
    case Opcode::broadcast: {
      const ir::Type& from = function.type(operation->operands[0]);
      if (from.rank == 0) return of_operand(0, {});
      if (from.rank != type.rank) return std::nullopt;
      Axes its = axes;
      for (std::size_t axis = 0; axis < its.size(); ++axis) {
        if (from.extents[axis] != type.extents[axis]) its[axis] = -1;
      }
      return of_operand(0, its);
    }
    case Opcode::expand_dims: {
      Axes its = axes;
      its.erase(its.begin() + operation->attributes.integer(AttributeName::axis));
      return of_operand(0, its);
    }
    case Opcode::add:
    case Opcode::sub: {
      const auto a = of_operand(0, axes), b = of_operand(1, axes);
      if (!a || !b) return std::nullopt;
      return sum(*a, *b, operation->opcode == Opcode::add ? 1 : -1);
    }
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<TileIndex> tile_index(const ir::Function& function, Value index) {
  const int rank = function.type(index).rank;
  if (rank != 0 && rank != 2) return std::nullopt;
  return index_of(function, index, rank == 0 ? Axes{} : Axes{0, 1});
}

std::vector<TileIndex> gathered_indices(const ir::Function& function, const ir::Operation& gather) {
  const ir::Type& type = function.type(gather.results[0]);
  if (type.rank != 2 || type.element == ElementType::i1 || gather.attributes.integer(AttributeName::has_mask) != 0) return {};
  std::vector<TileIndex> result;
  for (std::size_t i = 1; i < gather.operands.size(); ++i) {
    std::optional<TileIndex> index = tile_index(function, gather.operands[i]);
    if (!index) return {};
    result.push_back(std::move(*index));
  }
  return result;
}

}  // namespace flextile::backend
