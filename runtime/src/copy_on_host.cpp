#include <algorithm>
#include <cstring>

#include "copy.hpp"
#include "thread_pool.hpp"

namespace flextile::runtime {
namespace {

template <class Unit>
void copy_row(Unit* destination, std::int64_t destination_stride, const Unit* source, std::int64_t source_stride, std::int64_t count) {
  if (destination_stride == 1 && source_stride == 1) {
    std::memmove(destination, source, static_cast<std::size_t>(count) * sizeof(Unit));
  } else if (destination_stride == 1 && source_stride == 0) {
    const Unit value = *source;
    for (std::int64_t i = 0; i < count; ++i) destination[i] = value;
  } else {
    for (std::int64_t i = 0; i < count; ++i) destination[i * destination_stride] = source[i * source_stride];
  }
}

/// A transposition: `destination` is dense along the innermost axis and `source` along another. Squares of 32 x 32 keep the
/// lines of both in the cache.
template <class Unit>
void copy_squares(const StridedCopy& plan, int across, Unit* destination, const Unit* source) {
  constexpr std::int64_t side = 32;
  const int inner = plan.rank - 1;
  const std::int64_t rows = (plan.sizes[across] + side - 1) / side, columns = (plan.sizes[inner] + side - 1) / side;
  std::int64_t squares = rows * columns;
  for (int axis = 0; axis < inner; ++axis)
    if (axis != across) squares *= plan.sizes[axis];
  parallel_for(squares, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t row = index / columns % rows * side, column = index % columns * side;
      std::int64_t rest = index / columns / rows;
      std::int64_t to = row * plan.destination_strides[across] + column, from = row + column * plan.source_strides[inner];
      for (int axis = inner - 1; axis >= 0; --axis) {
        if (axis == across) continue;
        to += rest % plan.sizes[axis] * plan.destination_strides[axis];
        from += rest % plan.sizes[axis] * plan.source_strides[axis];
        rest /= plan.sizes[axis];
      }
      const std::int64_t height = std::min(side, plan.sizes[across] - row), width = std::min(side, plan.sizes[inner] - column);
      for (std::int64_t i = 0; i < height; ++i)
        for (std::int64_t j = 0; j < width; ++j)
          destination[to + i * plan.destination_strides[across] + j] = source[from + i + j * plan.source_strides[inner]];
    }
  });
}

/// The axis that `source` is dense along, if the copy is a transposition; else -1.
int axis_across(const StridedCopy& plan) {
  if (plan.rank < 2 || plan.destination_strides[plan.rank - 1] != 1 || plan.source_strides[plan.rank - 1] == 0) return -1;
  for (int axis = 0; axis < plan.rank - 1; ++axis)
    if (plan.source_strides[axis] == 1 && plan.sizes[axis] >= 8) return axis;
  return -1;
}

/// The innermost axis is split into rows of at most `row` elements; rows are spread over the threads.
template <class Unit>
void copy_rows(const StridedCopy& plan, Unit* destination, const Unit* source) {
  if (const int across = axis_across(plan); across >= 0) return copy_squares(plan, across, destination, source);
  constexpr std::int64_t row = 1 << 15;
  const int inner = plan.rank - 1;
  const std::int64_t length = plan.rank ? plan.sizes[inner] : 1;
  const std::int64_t pieces = (length + row - 1) / row;
  std::int64_t rows = pieces;
  for (int axis = 0; axis < inner; ++axis) rows *= plan.sizes[axis];
  const std::int64_t together = length >= row ? 1 : row / length;
  parallel_for(rows, together, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      std::int64_t rest = index / pieces, to = 0, from = 0;
      const std::int64_t first = index % pieces * row;
      for (int axis = inner - 1; axis >= 0; --axis) {
        const std::int64_t coordinate = rest % plan.sizes[axis];
        rest /= plan.sizes[axis];
        to += coordinate * plan.destination_strides[axis];
        from += coordinate * plan.source_strides[axis];
      }
      const std::int64_t to_stride = plan.rank ? plan.destination_strides[inner] : 1;
      const std::int64_t from_stride = plan.rank ? plan.source_strides[inner] : 1;
      copy_row(destination + to + first * to_stride, to_stride, source + from + first * from_stride, from_stride,
               length - first < row ? length - first : row);
    }
  });
}

}  // namespace

std::int64_t StridedCopy::elements() const {
  std::int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= sizes[axis];
  return count;
}

StridedCopy plan_copy(const ir::TensorHandle& destination, const ir::TensorHandle& source) {
  StridedCopy plan;
  plan.element_bytes = byte_size(destination.element);
  for (int axis = 0; axis < destination.rank; ++axis) {
    const std::int64_t size = destination.sizes[axis], to = destination.strides[axis], from = source.strides[axis];
    if (size == 1) continue;
    const int last = plan.rank - 1;
    if (last >= 0 && plan.destination_strides[last] == to * size && plan.source_strides[last] == from * size) {
      plan.sizes[last] *= size, plan.destination_strides[last] = to, plan.source_strides[last] = from;
      continue;
    }
    plan.sizes[plan.rank] = size, plan.destination_strides[plan.rank] = to, plan.source_strides[plan.rank] = from;
    ++plan.rank;
  }
  return plan;
}

void copy_on_host(const StridedCopy& plan, void* destination, const void* source) {
  if (plan.elements() == 0) return;
  switch (plan.element_bytes) {
    case 1: return copy_rows(plan, static_cast<std::uint8_t*>(destination), static_cast<const std::uint8_t*>(source));
    case 2: return copy_rows(plan, static_cast<std::uint16_t*>(destination), static_cast<const std::uint16_t*>(source));
    case 4: return copy_rows(plan, static_cast<std::uint32_t*>(destination), static_cast<const std::uint32_t*>(source));
    default: return copy_rows(plan, static_cast<std::uint64_t*>(destination), static_cast<const std::uint64_t*>(source));
  }
}

}  // namespace flextile::runtime
