#include "nvptx/scratch.hpp"

#include <algorithm>

#include "nvptx/fragments.hpp"

namespace flextile::backend {
namespace {

using ir::Opcode;

int element_bytes(const ir::Type& type) { return type.is_pointer() ? 8 : byte_size(type.element); }

const Layout& layout_in(const ir::Function& function, ir::Value value) { return function.layouts[function.layout_of(value)]; }

/// Source element of each target element of a transpose; empty for moves that keep the order.
std::vector<int> moved_elements(const ir::Function& function, const ir::Operation& operation) {
  if (operation.opcode != Opcode::transpose) return {};
  const auto& permutation = operation.attributes.list(ir::AttributeName::permutation);
  const Shape from = function.type(operation.operands[0]).shape(), to = function.type(operation.results[0]).shape();
  std::vector<int> stride(from.size(), 1);
  for (int axis = static_cast<int>(from.size()) - 2; axis >= 0; --axis) stride[axis] = stride[axis + 1] * from[axis + 1];
  std::vector<int> result(static_cast<std::size_t>(function.type(operation.results[0]).elements()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Shape at = coordinate_of(static_cast<int>(i), to);
    for (std::size_t axis = 0; axis < to.size(); ++axis) result[i] += at[axis] * stride[permutation[axis]];
  }
  return result;
}

bool moves(const ir::Function& function, const ir::Operation& operation) {
  if (operation.opcode != Opcode::convert_layout && operation.opcode != Opcode::reshape && operation.opcode != Opcode::transpose) return false;
  return function.type(operation.operands[0]).rank > 0 && function.type(operation.results[0]).rank > 0;
}

}  // namespace

bool widens_rows(const ir::Function& function, const ir::Operation& operation) {
  if (operation.opcode != Opcode::convert_layout || function.type(operation.operands[0]).is_pointer() || bit_width(function.type(operation.operands[0]).element) != 16) return false;
  const std::optional<Layout> wide = layout_of_wide_rows(layout_in(function, operation.operands[0]));
  return wide && *wide == layout_in(function, operation.results[0]);
}

std::optional<LaneMove> lane_move_of(const ir::Function& function, const ir::Operation& operation) {
  if (operation.opcode != Opcode::convert_layout) return std::nullopt;
  const ir::Type& type = function.type(operation.operands[0]);
  if (type.is_pointer()) return std::nullopt;
  return lane_move(layout_in(function, operation.operands[0]), layout_in(function, operation.results[0]), type.shape());
}

std::vector<int> move_map(const ir::Function& function, const ir::Operation& operation) {
  const ir::Value from = operation.operands[0], to = operation.results[0];
  return register_map(layout_in(function, from), function.type(from).shape(), layout_in(function, to), function.type(to).shape(),
                      moved_elements(function, operation), function.num_warps);
}

ScratchShape move_scratch(const ir::Function& function, const ir::Operation& operation) {
  const ir::Value from = operation.operands[0], to = operation.results[0];
  const Shape from_shape = function.type(from).shape(), to_shape = function.type(to).shape();
  ScratchShape result;
  result.element_bytes = element_bytes(function.type(from));
  const int rank = static_cast<int>(to_shape.size());
  const bool padded = operation.opcode != Opcode::reshape && rank > 1;
  auto strides_of = [&](const Shape& shape) {
    std::vector<int> strides(shape.size(), 1);
    for (int axis = static_cast<int>(shape.size()) - 2; axis >= 0; --axis) {
      strides[axis] = strides[axis + 1] * shape[axis + 1];
      if (padded && axis == static_cast<int>(shape.size()) - 2) strides[axis] += 16 / result.element_bytes;   // rows in other banks
    }
    return strides;
  };
  result.target_strides = strides_of(to_shape);
  result.source_strides = result.target_strides;
  if (operation.opcode == Opcode::reshape) result.source_strides = strides_of(from_shape);
  if (operation.opcode == Opcode::transpose) {
    const auto& permutation = operation.attributes.list(ir::AttributeName::permutation);
    for (int axis = 0; axis < rank; ++axis) result.source_strides[permutation[axis]] = result.target_strides[axis];
  }
  auto run = [&](ir::Value value, const std::vector<int>& strides) {
    const int axis = static_cast<int>(std::find(strides.begin(), strides.end(), 1) - strides.begin());
    return register_run(layout_in(function, value), axis, 16 / result.element_bytes);
  };
  // An extent of 1 has stride 1 too: then the run is 1, which is right though not the best.
  result.source_run = run(from, result.source_strides);
  result.target_run = run(to, result.target_strides);
  result.bytes = static_cast<std::int64_t>(result.target_strides[0]) * to_shape[0] * result.element_bytes;
  return result;
}

int reduce_warps(const ir::Function& function, const ir::Operation& operation) {
  const auto axis = operation.attributes.integer(ir::AttributeName::axis);
  int warps = 1;
  for (const Digit& digit : layout_in(function, operation.operands[0]).warps) {
    if (digit.axis == axis) warps *= digit.size;
  }
  return warps;
}

int reduce_partial_elements(const ir::Function& function, const ir::Operation& operation) {
  return static_cast<int>(function.type(operation.results[0]).elements());
}

bool has_no_use(const ir::Function& function, ir::Value value) {
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    for (ir::Value operand : function.operation({i}).operands) {
      if (operand == value) return false;
    }
  }
  return true;
}

std::int64_t scratch_bytes(const ir::Function& function, const ir::Operation& operation) {
  if (widens_rows(function, operation) || (operation.opcode == Opcode::transpose && is_read_by_fragments(function, operation))) return 0;
  if (moves(function, operation)) {
    return move_map(function, operation).empty() && !lane_move_of(function, operation) ? move_scratch(function, operation).bytes : 0;
  }
  if (operation.opcode == Opcode::reduce) {
    const int warps = reduce_warps(function, operation);
    if (warps == 1) return 0;
    return std::int64_t{8} * warps * reduce_partial_elements(function, operation) * static_cast<std::int64_t>(operation.operands.size());
  }
  if (operation.opcode == Opcode::atomic || operation.opcode == Opcode::atomic_cas) {
    const ir::Value result = operation.results[0];   // one thread asks, all learn the old value
    if (has_no_use(function, result)) return 0;
    return 8 * function.type(result).elements();
  }
  if (operation.opcode == Opcode::dot && operation.attributes.string(ir::AttributeName::instruction) == "fma") {
    const ir::Type &left = function.type(operation.operands[0]), &right = function.type(operation.operands[1]);
    std::int64_t bytes = 0;   // what does not lie in shared memory already
    if (!fragment_source(function, operation, 0).load) bytes += (left.elements() * byte_size(left.element) + 15) / 16 * 16;
    if (!fragment_source(function, operation, 1).load) bytes += (right.elements() * byte_size(right.element) + 15) / 16 * 16;
    return bytes;
  }
  return 0;
}

}  // namespace flextile::backend
