// Gives every tile a layout and puts convert_layout where two of them meet.
//
//   1. Tiles that one operation acts on together (element-wise operands and result, what a loop carries, ...) form a
//      group; a group has one layout. Free tiles (constants, indices, small loads, and what is computed from them) are
//      in no group: they are computed in every layout that somebody wants.
//   2. Anchors choose: dots (their accumulator), then memory (coalesced), then the default. Each choice spreads over
//      reductions, broadcasts and transposes to the groups next to it.
//   3. From the end of the program to its beginning, every use asks its operand for the layout it needs.
//   4. The program is rewritten: free tiles once per layout asked for, conversions after the definition of the others.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include <flextile/ir/error.hpp>

#include "nvptx/facts.hpp"
#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // an operation that is not listed has all its tiles in one layout

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;
using ir::Value;

/// Loads of at most this many elements are repeated rather than converted.
constexpr std::int64_t small_tile = 512;

class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0u); }
  std::uint32_t find(std::uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::uint32_t> parent_;
};

bool is_shape_operation(Opcode opcode) {
  return opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::reshape || opcode == Opcode::transpose;
}

class LayoutChoice {
 public:
  explicit LayoutChoice(const Function& source)
      : f_(source), facts_(index_facts(source)), rows_(prefers_rows(source)), groups_(source.value_count()),
        free_(source.value_count(), false), layout_(source.value_count()), wanted_(source.value_count()) {}

  Function run() {
    collect(f_.body());
    choose();
    ask(f_.body());
    versions_.resize(f_.value_count());
    emit(f_.body());
    return std::move(f_);
  }

 private:
  // ---- which tiles are free, which belong together
  bool has_layout(Value value) const { return f_.type(value).has_shape() && f_.type(value).rank > 0; }
  bool is_grouped(Value value) const { return has_layout(value) && !free_[value.index]; }

  bool computes_freely(const Operation& operation) const {
    switch (operation.opcode) {
      case Opcode::constant:
      case Opcode::arange:
      case Opcode::shared_load: return true;
      case Opcode::load:
      case Opcode::gather:
      case Opcode::view_load:
        if (f_.type(operation.results[0]).elements() > small_tile) return false;
        break;
      default:
        if (!ir::has(operation.opcode, ir::elementwise) && !is_shape_operation(operation.opcode)) return false;
    }
    return std::none_of(operation.operands.begin(), operation.operands.end(), [&](Value v) { return is_grouped(v); });
  }

  void join_all(const std::vector<Value>& values) {
    Value first;
    for (Value value : values) {
      if (!is_grouped(value)) continue;
      if (first) groups_.join(first.index, value.index);
      else first = value;
    }
  }

  void collect(BlockId block) {
    for (OperationId id : f_.block(block).operations) {
      const Operation& operation = f_.operation(id);
      order_.push_back(id);
      if (operation.results.size() == 1 && has_layout(operation.results[0]) && computes_freely(operation)) {
        free_[operation.results[0].index] = true;
        continue;
      }
      if (operation.opcode != Opcode::reduce) {
        for (BlockId inner : operation.blocks) collect(inner);
      }
      join_operation(operation);
    }
  }

  void join_operation(const Operation& operation) {
    if (ir::has(operation.opcode, ir::terminator)) return;   // joined by the operation around it
    std::vector<Value> together = operation.operands;
    switch (operation.opcode) {
      case Opcode::dot: together = {operation.operands[2], operation.results[0]}; break;
      case Opcode::reduce: join_all(operation.results); break;
      case Opcode::for_:
      case Opcode::while_:
      case Opcode::if_: return join_carried(operation);
      default:
        // What a block passes on belongs to the operation around it; its values have shapes of their own.
        if (is_shape_operation(operation.opcode) || ir::has(operation.opcode, ir::terminator)) return;
        together.insert(together.end(), operation.results.begin(), operation.results.end());
    }
    join_all(together);
  }

  /// The values that block `which` ends with.
  const std::vector<Value>& last_operands(const Operation& operation, std::size_t which) const {
    return f_.operation(f_.block(operation.blocks[which]).operations.back()).operands;
  }

  void join_carried(const Operation& operation) {
    for (std::size_t i = 0; i < operation.results.size(); ++i) join_all(slot(operation, i));
    if (operation.opcode == Opcode::while_) {   // the condition may hand on other values than it got
      const auto& inner = f_.block(operation.blocks[0]).arguments;
      for (std::size_t i = 0; i < inner.size(); ++i) join_all({operation.operands[i], inner[i], last_operands(operation, 1)[i]});
    }
  }

  /// Everything that holds carried value i.
  std::vector<Value> slot(const Operation& operation, std::size_t i) const {
    if (operation.opcode == Opcode::if_) return {operation.results[i], last_operands(operation, 0)[i], last_operands(operation, 1)[i]};
    if (operation.opcode == Opcode::for_) {
      return {operation.results[i], operation.operands[3 + i], f_.block(operation.blocks[0]).arguments[1 + i], last_operands(operation, 0)[i]};
    }
    return {operation.results[i], last_operands(operation, 0)[1 + i], f_.block(operation.blocks[1]).arguments[i]};
  }

  // ---- choosing
  Layout* group_layout(Value value) {
    auto& layout = layout_[groups_.find(value.index)];
    return layout ? &*layout : nullptr;
  }

  void assign(Value value, const Layout& layout) {
    if (!is_grouped(value) || group_layout(value)) return;
    layout_[groups_.find(value.index)] = layout;
    changed_ = true;
  }

  void spread() {
    do {
      changed_ = false;
      for (OperationId id : order_) spread_over(f_.operation(id));
    } while (changed_);
  }

  void spread_over(const Operation& operation) {
    if (operation.opcode == Opcode::reduce) {
      for (Value input : operation.operands) {
        if (!is_grouped(input) || !group_layout(input)) continue;
        assign(operation.results[0], reduced_layout(*group_layout(input), reduce_axis(operation)));
      }
      return;
    }
    if (!is_shape_operation(operation.opcode) || !is_grouped(operation.operands[0])) return;
    const Value from = operation.operands[0], to = operation.results[0];
    if (Layout* layout = group_layout(to)) {
      if (auto needed = operand_layout(operation, *layout)) assign(from, *needed);
    } else if (Layout* known = group_layout(from)) {
      if (auto given = result_layout(operation, *known)) assign(to, *given);
    }
  }

  int reduce_axis(const Operation& operation) const { return static_cast<int>(operation.attributes.integer(AttributeName::axis)); }

  /// The operand's layout of a shape operation whose result has `layout`.
  std::optional<Layout> operand_layout(const Operation& operation, const Layout& layout) const {
    const Shape from = f_.type(operation.operands[0]).shape(), to = f_.type(operation.results[0]).shape();
    switch (operation.opcode) {
      case Opcode::broadcast: return projected_layout(layout, from);
      case Opcode::expand_dims: return without_axis(layout, reduce_axis(operation));
      case Opcode::transpose: return untransposed_layout(layout, operation.attributes.list(AttributeName::permutation));
      default: return reshaped_layout(layout, to, from);
    }
  }

  std::optional<Layout> result_layout(const Operation& operation, const Layout& layout) const {
    const Shape from = f_.type(operation.operands[0]).shape(), to = f_.type(operation.results[0]).shape();
    switch (operation.opcode) {
      case Opcode::expand_dims: return with_axis(layout, reduce_axis(operation));
      case Opcode::transpose: return transposed_layout(layout, operation.attributes.list(AttributeName::permutation));
      case Opcode::reshape: return reshaped_layout(layout, from, to);
      default: return std::nullopt;
    }
  }

  Layout default_layout(const Type& type, std::int64_t vector) const {
    const std::int64_t per_thread = std::max<std::int64_t>(1, type.elements() / (lanes_per_warp * f_.num_warps));
    return blocked_layout(type.shape(), f_.num_warps, static_cast<int>(std::gcd(std::bit_floor(static_cast<std::uint64_t>(per_thread)), static_cast<std::uint64_t>(vector))));
  }

  /// How many elements one access of this operation may move, if it touches memory with a tile.
  std::int64_t vector_of(const Operation& operation) const {
    const auto widest = [](ElementType element) { return 16 / byte_size(element); };
    switch (operation.opcode) {
      case Opcode::load:
      case Opcode::store: {
        const IndexFacts& pointer = facts_[operation.operands[0].index];
        return std::gcd<std::int64_t>(std::gcd(pointer.run, pointer.divisor), widest(f_.type(operation.operands[0]).element));
      }
      case Opcode::view_load:
      case Opcode::view_store: {
        const Type& view = f_.type(operation.operands[0]);
        const auto& definition = f_.definition(operation.operands[0]);
        if (definition.operation || definition.block != f_.body() || !f_.parameters[definition.position].unit_stride) return 1;
        return widest(view.element);
      }
      default: return 1;
    }
  }

  void choose() {
    for (OperationId id : order_) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode == Opcode::dot) assign(operation.results[0], dot_layouts(f_, operation, rows_).accumulator);
    }
    spread();
    std::vector<std::int64_t> vector(f_.value_count(), 0);
    std::vector<Value> anchors;
    auto anchor = [&](Value value, std::int64_t width) {
      if (!is_grouped(value)) return;
      std::int64_t& widest = vector[groups_.find(value.index)];
      if (widest == 0) anchors.push_back(value);
      widest = std::max(widest, width);
    };
    for (OperationId id : order_) {
      const Operation& operation = f_.operation(id);
      for (Value result : operation.results) anchor(result, vector_of(operation));
      if (operation.opcode == Opcode::store || operation.opcode == Opcode::view_store) anchor(operation.operands[1], vector_of(operation));
      for (BlockId block : operation.blocks) {
        for (Value argument : f_.block(block).arguments) anchor(argument, 1);
      }
    }
    auto weight = [&](Value v) { return f_.type(v).elements() * (vector[groups_.find(v.index)] > 1 ? 2 : 1); };
    std::stable_sort(anchors.begin(), anchors.end(), [&](Value a, Value b) { return weight(a) > weight(b); });
    for (Value value : anchors) {
      assign(value, default_layout(f_.type(value), vector[groups_.find(value.index)]));
      spread();
    }
  }

  // ---- asking
  void want(Value value, const Layout& layout) {
    if (!has_layout(value)) return;
    if (is_grouped(value) && *group_layout(value) == layout) return;
    auto& list = wanted_[value.index];
    if (std::find(list.begin(), list.end(), layout) == list.end()) list.push_back(layout);
  }

  /// The layout that an operation without a tile result works in: that of its first grouped operand.
  Layout working_layout(const Operation& operation) {
    if (operation.opcode == Opcode::view_store && is_grouped(operation.operands[1]) && vector_of(operation) == 8) {
      if (const auto wide = layout_of_wide_rows(*group_layout(operation.operands[1]))) return *wide;
    }
    for (std::size_t i = operation.operands.size(); i-- > 0;) {
      if (is_grouped(operation.operands[i])) return *group_layout(operation.operands[i]);
    }
    for (Value operand : operation.operands) {
      if (has_layout(operand)) return default_layout(f_.type(operand), vector_of(operation));
    }
    return {};
  }

  /// The layouts that an operation needs its operands in when its result is to have `layout`.
  std::vector<Layout> needed(const Operation& operation, const Layout& layout) {
    std::vector<Layout> result(operation.operands.size(), layout);
    if (operation.opcode == Opcode::dot) {
      const DotLayouts dot = dot_layouts(f_, operation, rows_);
      result = {dot.left, dot.right, natural_layout(operation, layout)};
      if (instruction_of(f_, operation).name == "fma") {
        for (int i : {0, 1}) {
          if (is_grouped(operation.operands[i])) result[i] = *group_layout(operation.operands[i]);
        }
      }
    } else if (is_shape_operation(operation.opcode) && has_layout(operation.operands[0]) && has_layout(operation.results[0])) {
      if (auto one = operand_layout(operation, layout)) result[0] = *one;
      else result[0] = working_layout(operation);
    }
    return result;
  }

  /// The layout that an operation which works in `layout` gives its results.
  Layout natural_layout(const Operation& operation, const Layout& layout) const {
    if (operation.opcode == Opcode::reduce) return reduced_layout(layout, reduce_axis(operation));
    if (operation.opcode == Opcode::dot && instruction_of(f_, operation).name != "fma") return dot_layouts(f_, operation, rows_).accumulator;
    return layout;
  }

  /// The layout in which a free tile is computed that somebody wants in `layout`: what many lanes would read from memory, each reads
  /// a part of.
  Layout computed_in(const Operation& operation, const Layout& layout) const {
    const bool reads = operation.opcode == Opcode::load || operation.opcode == Opcode::gather || operation.opcode == Opcode::view_load;
    return reads ? layout_of_shared_reads(layout).value_or(layout) : layout;
  }

  void ask_for(const Operation& operation, const Layout& layout) {
    const std::vector<Layout> layouts = needed(operation, layout);
    for (std::size_t i = 0; i < layouts.size(); ++i) want(operation.operands[i], layouts[i]);
  }

  void ask(BlockId block) {
    const std::vector<OperationId> operations = f_.block(block).operations;
    for (auto id = operations.rbegin(); id != operations.rend(); ++id) {
      const Operation& operation = f_.operation(*id);
      if (operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || operation.opcode == Opcode::if_ || operation.opcode == Opcode::roles ||
          operation.opcode == Opcode::ring_start || operation.opcode == Opcode::ring_release || operation.opcode == Opcode::ring_refill) {
        ask_carried(operation);
        for (std::size_t i = operation.blocks.size(); i-- > 0;) ask(operation.blocks[i]);
        continue;
      }
      if (ir::has(operation.opcode, ir::terminator)) continue;   // asked for by the operation around it
      if (operation.results.empty() || !has_layout(operation.results[0]) || operation.opcode == Opcode::reduce) {
        ask_for(operation, working_layout(operation));
      } else if (free_[operation.results[0].index]) {
        for (std::size_t i = 0; i < wanted_[operation.results[0].index].size(); ++i) ask_for(operation, computed_in(operation, wanted_[operation.results[0].index][i]));
      } else {
        ask_for(operation, *group_layout(operation.results[0]));
      }
    }
  }

  void want_slot(Value value, Value holder) {
    if (has_layout(holder)) want(value, *group_layout(holder));
  }

  void ask_carried(const Operation& operation) {
    for (std::size_t i = 0; i < operation.results.size(); ++i) {
      for (Value value : slot(operation, i)) want_slot(value, operation.results[i]);
    }
    if (operation.opcode != Opcode::while_) return;
    const auto& inner = f_.block(operation.blocks[0]).arguments;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      want_slot(operation.operands[i], inner[i]);
      want_slot(last_operands(operation, 1)[i], inner[i]);
    }
  }

  // ---- rewriting
  struct Version {
    Layout layout;
    Value value;
  };

  Value use(Value value, const Layout& layout) const {
    if (!has_layout(value)) return value;
    for (const Version& version : versions_[value.index]) {
      if (version.layout == layout) return version.value;
    }
    throw InternalError("flextile: internal error in choose_layouts: value %" + std::to_string(value.index) + " has no version in layout " +
                        to_string(layout));
  }

  OperationId append(BlockId block, const Operation& like, Opcode opcode, std::vector<Value> operands, const Type& type) {
    Operation operation{opcode, std::move(operands), {}, {}, opcode == like.opcode ? like.attributes : ir::Attributes{}, like.location};
    const OperationId id = f_.append(block, std::move(operation), {type});
    f_.block(block).operations.pop_back();
    out_->push_back(id);
    return id;
  }

  /// `value`, which holds `layout`, in every layout that somebody wants.
  void provide(BlockId block, const Operation& like, Value value, const Layout& layout) {
    versions_[value.index].push_back({layout, value});
    f_.set_layout(value, layout);
    for (const Layout& other : std::vector<Layout>(wanted_[value.index])) {
      if (other == layout) continue;
      const OperationId id = append(block, like, Opcode::convert_layout, {value}, f_.type(value));
      f_.set_layout(f_.operation(id).results[0], other);
      versions_[value.index].push_back({other, f_.operation(id).results[0]});
    }
  }

  void emit(BlockId block) {
    std::vector<OperationId> out;
    std::vector<OperationId>* outer = std::exchange(out_, &out);
    const std::vector<OperationId> operations = f_.block(block).operations;
    const Operation like = operations.empty() ? Operation{} : f_.operation(operations.front());
    for (Value argument : std::vector<Value>(f_.block(block).arguments)) {
      if (is_grouped(argument)) provide(block, like, argument, Layout(*group_layout(argument)));
    }
    for (OperationId id : operations) {
      emit_operation(block, id);
      out_ = &out;
    }
    f_.block(block).operations = std::move(out);
    out_ = outer;
  }

  std::vector<Value> operands_for(const Operation& operation, const Layout& layout) {
    const std::vector<Layout> layouts = needed(operation, layout);
    std::vector<Value> result;
    for (std::size_t i = 0; i < layouts.size(); ++i) result.push_back(use(operation.operands[i], layouts[i]));
    return result;
  }

  void emit_operation(BlockId block, OperationId id) {
    const Operation operation = f_.operation(id);   // a copy: appending moves operations
    if (operation.results.size() == 1 && has_layout(operation.results[0]) && free_[operation.results[0].index]) {
      return emit_free(block, id, operation);
    }
    out_->push_back(id);
    if (operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || operation.opcode == Opcode::if_ || operation.opcode == Opcode::roles ||
        operation.opcode == Opcode::ring_start || operation.opcode == Opcode::ring_release || operation.opcode == Opcode::ring_refill) {
      return emit_region(block, id, operation);
    }
    if (ir::has(operation.opcode, ir::terminator)) return;   // rewritten by the operation around it
    const bool works_alone = operation.results.empty() || !has_layout(operation.results[0]) || operation.opcode == Opcode::reduce;
    const Layout layout = works_alone ? working_layout(operation) : Layout(*group_layout(operation.results[0]));
    f_.operation(id).operands = operands_for(operation, layout);
    const Layout natural = natural_layout(operation, layout);
    for (Value result : operation.results) {
      if (!has_layout(result)) continue;
      if (*group_layout(result) != natural) wanted_[result.index].push_back(*group_layout(result));
      provide(block, operation, result, natural);
    }
  }

  void emit_free(BlockId block, OperationId id, const Operation& operation) {
    const Value value = operation.results[0];
    bool first = true;
    for (const Layout& layout : std::vector<Layout>(wanted_[value.index])) {
      const Layout computed = computed_in(operation, layout);
      std::vector<Value> operands = operands_for(operation, computed);
      Value version = value;
      if (first) {
        f_.operation(id).operands = std::move(operands);
        out_->push_back(id);
      } else {
        version = f_.operation(append(block, operation, operation.opcode, std::move(operands), f_.type(value))).results[0];
      }
      first = false;
      f_.set_layout(version, computed);
      if (computed != layout) {
        version = f_.operation(append(block, operation, Opcode::convert_layout, {version}, f_.type(value))).results[0];
        f_.set_layout(version, layout);
      }
      versions_[value.index].push_back({layout, version});
    }
  }

  Value use_slot(Value value, Value holder) { return has_layout(holder) ? use(value, *group_layout(holder)) : value; }

  void emit_region(BlockId block, OperationId id, const Operation& operation) {
    if (operation.opcode == Opcode::for_) {
      for (std::size_t i = 0; i < operation.results.size(); ++i) {
        f_.operation(id).operands[3 + i] = use_slot(operation.operands[3 + i], operation.results[i]);
      }
    } else if (operation.opcode == Opcode::while_) {
      for (std::size_t i = 0; i < operation.operands.size(); ++i) {
        f_.operation(id).operands[i] = use_slot(operation.operands[i], f_.block(operation.blocks[0]).arguments[i]);
      }
    }
    for (std::size_t which = 0; which < operation.blocks.size(); ++which) {
      emit(operation.blocks[which]);
      const OperationId last = f_.block(operation.blocks[which]).operations.back();
      Operation terminator = f_.operation(last);
      const bool is_condition = terminator.opcode == Opcode::condition;
      for (std::size_t i = is_condition ? 1 : 0; i < terminator.operands.size(); ++i) {
        Value holder;
        if (operation.opcode == Opcode::while_ && !is_condition) holder = f_.block(operation.blocks[0]).arguments[i];
        else holder = operation.results[is_condition ? i - 1 : i];
        terminator.operands[i] = use_slot(terminator.operands[i], holder);
      }
      f_.operation(last) = terminator;
    }
    for (Value result : operation.results) {
      if (has_layout(result)) provide(block, operation, result, Layout(*group_layout(result)));
    }
  }

  Function f_;
  std::vector<IndexFacts> facts_;
  bool rows_;
  Groups groups_;
  std::vector<bool> free_;
  std::vector<std::optional<Layout>> layout_;          // by group
  std::vector<std::vector<Layout>> wanted_;            // by value
  std::vector<std::vector<Version>> versions_;         // by value
  std::vector<OperationId> order_;
  std::vector<OperationId>* out_ = nullptr;
  bool changed_ = false;
};

}  // namespace

Function choose_layouts(const Function& function, const Target&) { return LayoutChoice(function).run(); }

}  // namespace flextile::backend
