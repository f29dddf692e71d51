// A mod that reads a captured matrix at its own position, bias(q, kv), reads a tile of it: rows and columns that count up by one.
// Such a gather becomes a view_load, which the copy engine can fetch.
#include <optional>

#include <flextile/ir/rewriter.hpp>

#include "nvptx/nvptx.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // of an operation that is not listed nothing is known

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;
using ir::OperationId;
using ir::Value;

/// The sum of scalars, a constant and, if it counts, the coordinate along one axis.
struct Index {
  std::vector<Value> scalars;
  std::int64_t constant = 0;
  bool counts = false;
};

class Matcher {
 public:
  explicit Matcher(const ir::Function& function) : f_(function) {}

  /// `value`, which may depend on the coordinate along `axis` and on no other (none: -1).
  std::optional<Index> along(Value value, int axis) const {
    const ir::Type& type = f_.type(value);
    if (type.element != ElementType::i32) return std::nullopt;
    if (type.rank == 0) return Index{{value}, 0, false};
    const ir::Operation* operation = f_.defining(value);
    if (!operation) return std::nullopt;
    switch (operation->opcode) {
      case Opcode::constant: return Index{{}, operation->attributes.integer(AttributeName::value), false};
      case Opcode::arange: {
        const bool counts = type.extents[0] > 1;
        if (counts && axis != 0) return std::nullopt;
        return Index{{}, operation->attributes.integer(AttributeName::start), counts};
      }
      case Opcode::broadcast: {
        const ir::Type& from = f_.type(operation->operands[0]);
        return along(operation->operands[0], axis >= 0 && from.rank == type.rank && from.extents[axis] == type.extents[axis] ? axis : -1);
      }
      case Opcode::expand_dims: {
        const int added = static_cast<int>(operation->attributes.integer(AttributeName::axis));
        return along(operation->operands[0], axis == added ? -1 : axis > added ? axis - 1 : axis);
      }
      case Opcode::add: {
        std::optional<Index> a = along(operation->operands[0], axis), b = along(operation->operands[1], axis);
        if (!a || !b || (a->counts && b->counts)) return std::nullopt;
        a->scalars.insert(a->scalars.end(), b->scalars.begin(), b->scalars.end());
        return Index{std::move(a->scalars), a->constant + b->constant, a->counts || b->counts};
      }
      default: return std::nullopt;
    }
  }

  /// The first index along each axis of the view, where the gather reads a tile.
  std::optional<std::vector<Index>> window(const ir::Operation& gather) const {
    const ir::Type& type = f_.type(gather.results[0]);
    if (type.rank != 2 || type.element == ElementType::i1 || gather.attributes.integer(AttributeName::has_mask) != 0) return std::nullopt;
    const int axes = static_cast<int>(gather.operands.size()) - 1;
    std::vector<Index> result;
    for (int i = 0; i < axes; ++i) {
      const int axis = i - (axes - 2);
      std::optional<Index> index = along(gather.operands[1 + static_cast<std::size_t>(i)], axis);
      if (!index || index->counts != (axis >= 0)) return std::nullopt;
      result.push_back(std::move(*index));
    }
    return axes >= 2 ? std::optional(std::move(result)) : std::nullopt;
  }

 private:
  const ir::Function& f_;
};

}  // namespace

ir::Function tile_gathers(const ir::Function& function, const Target&) {
  const Matcher matcher(function);
  ir::Rewriter rewriter(function);
  rewriter.run([&](OperationId id) {
    const ir::Operation& gather = function.operation(id);
    if (gather.opcode != Opcode::gather) return false;
    const auto window = matcher.window(gather);
    if (!window) return false;
    ir::Builder& b = rewriter.builder();
    std::vector<Value> offsets;
    for (const Index& index : *window) {
      Value offset;
      for (Value scalar : index.scalars) offset = offset ? b.binary(Opcode::add, offset, rewriter[scalar]) : rewriter[scalar];
      if (!offset || index.constant != 0) {
        const Value constant = b.constant(ElementType::i32, index.constant);
        offset = offset ? b.binary(Opcode::add, offset, constant) : constant;
      }
      offsets.push_back(offset);
    }
    rewriter.replace(gather.results[0], b.view_load(rewriter[gather.operands[0]], offsets, function.type(gather.results[0]).shape()));
    return true;
  });
  return rewriter.take();
}

}  // namespace flextile::backend
