// Which tiles live in scratch memory, which of them share a slot, and where the slots are.
//
// A value's life is a range of positions. Carried tiles of a loop have one slot for the block's argument, the result and,
// where the lives allow it, the initial and the yielded value: then the update happens in place and nothing is copied.
#include <algorithm>
#include <numeric>

#include "host/plan.hpp"

namespace flextile::backend::host {
namespace {

using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

constexpr std::int64_t alignment = 64;

struct Life {
  int define = -1;                              // position
  int last = -1;
  bool last_is_pointwise = true;                // the reads at `last` take the same element as the one that is written
};

struct BlockPlace {
  ir::BlockId parent;                           // block that holds the operation with this block
  const Group* group = nullptr;                 // that operation's group
  bool loop = false;
};

class SlotPlanner {
 public:
  SlotPlanner(const Function& function, const Machine& machine, Plan& plan)
      : function_(function), machine_(machine), plan_(plan), lives_(function.value_count()), places_(function.block_count()),
        home_block_(function.value_count()), defining_group_(function.value_count(), nullptr) {}

  void run() {
    number(function_.body());
    for (std::uint32_t block = 0; block < function_.block_count(); ++block) use_all({block});
    share();
    lay_out();
  }

 private:
  void number(ir::BlockId block) {
    for (Value argument : function_.block(block).arguments) home_block_[argument.index] = block;
    for (Group& group : plan_.blocks[block.index]) {
      group.begin = group.end = next_position_++;
      for (OperationId id : group.operations) {
        const Operation& operation = function_.operation(id);
        for (ir::BlockId nested : operation.blocks) {
          const bool loop = operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_;
          places_[nested.index] = {block, &group, loop};
          for (Value argument : function_.block(nested).arguments) define(argument, group.begin);
          number(nested);
        }
        if (!operation.blocks.empty()) group.end = next_position_++;
        for (Value result : operation.results) {
          home_block_[result.index] = block;
          defining_group_[result.index] = &group;
          define(result, group.end);
        }
      }
    }
  }

  void define(Value value, int position) {
    Life& life = lives_[value.index];
    life.define = position;
    life.last = std::max(life.last, position);
  }

  bool wants_slot(Value value) const { return is_tile(function_.type(value)) && !plan_.lazy[value.index]; }

  void use_all(ir::BlockId block) {
    for (const Group& group : plan_.blocks[block.index]) {
      for (OperationId id : group.operations) {
        const Operation& operation = function_.operation(id);
        const bool control = operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || operation.opcode == Opcode::if_;
        for (std::size_t i = 0; i < operation.operands.size(); ++i) use_operand(block, group, operation, i);
        if (control || operation.opcode == Opcode::reduce || operation.opcode == Opcode::dot) {
          for (Value result : operation.results) needs_slot(result);
        }
        if (!control) continue;
        for (ir::BlockId nested : operation.blocks) {
          for (Value argument : function_.block(nested).arguments) needs_slot(argument);
        }
      }
    }
  }

  void use_operand(ir::BlockId block, const Group& group, const Operation& operation, std::size_t i) {
    const Value operand = operation.operands[i];
    std::vector<Value> leaves;
    append_leaves(function_, plan_, operand, leaves);
    for (Value leaf : leaves) {
      if (!wants_slot(leaf)) continue;
      const bool direct = leaf == operand;
      const bool same_sweep = defining_group_[leaf.index] == &group && group.kind == Group::Kind::sweep;
      if (same_sweep && direct) continue;
      needs_slot(leaf);
      bool pointwise = direct;
      if (group.kind == Group::Kind::sweep) pointwise = direct && function_.type(leaf).shape() == group.shape;
      if (operation.opcode == Opcode::dot) pointwise = direct && i == 2;
      const bool read_to_the_end = operation.opcode == Opcode::reduce && !operation.blocks.empty();
      use(leaf, block, read_to_the_end ? group.end : group.begin, pointwise && !read_to_the_end);
    }
  }

  void use(Value value, ir::BlockId block, int position, bool pointwise) {
    for (ir::BlockId at = block; at && !(at == home_block_[value.index]); at = places_[at.index].parent) {
      if (places_[at.index].loop && places_[at.index].group->end > position) {
        position = places_[at.index].group->end;
        pointwise = false;
      }
      if (at == function_.body()) break;
    }
    Life& life = lives_[value.index];
    if (position > life.last) {
      life.last = position;
      life.last_is_pointwise = pointwise;
    } else if (position == life.last) {
      life.last_is_pointwise = life.last_is_pointwise && pointwise;
    }
  }

  void needs_slot(Value value) {
    if (!wants_slot(value) || plan_.slot[value.index] >= 0) return;
    plan_.slot[value.index] = static_cast<int>(members_.size());
    members_.push_back({value});
  }

  // ---- sharing

  /// The operation that defines `value` may overwrite, element by element, what it reads.
  bool writes_pointwise(Value value) const {
    const Operation* operation = function_.defining(value);
    const Group* group = defining_group_[value.index];
    if (!operation) return true;                // an argument takes over from the loop's initial value
    if (operation->opcode == Opcode::dot) return true;
    return group && group->kind == Group::Kind::sweep && operation->opcode != Opcode::reduce && function_.type(value).shape() == group->shape;
  }

  bool lives_fit(Value a, Value b) const {
    if (lives_[a.index].define > lives_[b.index].define) std::swap(a, b);
    const Life& first = lives_[a.index];
    const Life& second = lives_[b.index];
    if (first.last < second.define) return true;
    return first.define < second.define && first.last == second.define && first.last_is_pointwise && writes_pointwise(b);
  }

  bool same_storage(Value a, Value b) const {
    const ir::Type& x = function_.type(a);
    const ir::Type& y = function_.type(b);
    return x.kind == y.kind && x.element == y.element && x.elements() == y.elements() && plan_.wide[a.index] == plan_.wide[b.index] &&
           plan_.panel[a.index] == plan_.panel[b.index];
  }

  void try_share(Value a, Value b) {
    const int into = plan_.slot[a.index], from = plan_.slot[b.index];
    if (into < 0 || from < 0 || into == from || !same_storage(a, b)) return;
    for (Value x : members_[static_cast<std::size_t>(into)]) {
      for (Value y : members_[static_cast<std::size_t>(from)]) {
        if (!lives_fit(x, y)) return;
      }
    }
    merge(into, from);
  }

  void merge(int into, int from) {
    for (Value value : members_[static_cast<std::size_t>(from)]) {
      plan_.slot[value.index] = into;
      members_[static_cast<std::size_t>(into)].push_back(value);
    }
    members_[static_cast<std::size_t>(from)].clear();
  }

  /// One slot for what must be one place: a loop's arguments and results.
  void unite(Value a, Value b) {
    const int into = plan_.slot[a.index], from = plan_.slot[b.index];
    if (into >= 0 && from >= 0 && into != from) merge(into, from);
  }

  const std::vector<Value>& yielded(ir::BlockId block) const { return function_.operation(function_.block(block).operations.back()).operands; }

  void share() {
    each_operation([&](OperationId, const Operation& operation) { unite_control(operation); });
    each_operation([&](OperationId, const Operation& operation) { share_control(operation); });
    each_operation([&](OperationId, const Operation& operation) {
      if (operation.opcode == Opcode::dot) try_share(operation.results[0], operation.operands[2]);
    });
    each_operation([&](OperationId, const Operation& operation) {
      if (operation.results.size() != 1) return;
      for (Value operand : operation.operands) {
        const Group* group = defining_group_[operation.results[0].index];
        if (group && group->kind == Group::Kind::sweep) try_share(operation.results[0], operand);
      }
    });
  }

  template <class Visit> void each_operation(Visit&& visit) const {
    for (std::uint32_t block = 0; block < function_.block_count(); ++block) {
      for (OperationId id : function_.block({block}).operations) visit(id, function_.operation(id));
    }
  }

  void unite_control(const Operation& operation) {
    if (operation.opcode == Opcode::for_) {
      const std::vector<Value>& arguments = function_.block(operation.blocks[0]).arguments;
      for (std::size_t i = 0; i < operation.results.size(); ++i) unite(arguments[i + 1], operation.results[i]);
    }
    if (operation.opcode == Opcode::while_) {
      const std::vector<Value>& before = function_.block(operation.blocks[0]).arguments;
      const std::vector<Value>& body = function_.block(operation.blocks[1]).arguments;
      for (std::size_t i = 0; i < operation.results.size(); ++i) unite(before[i], operation.results[i]), unite(before[i], body[i]);
    }
  }

  void share_control(const Operation& operation) {
    if (operation.opcode == Opcode::for_) {
      const std::vector<Value>& values = yielded(operation.blocks[0]);
      for (std::size_t i = 0; i < operation.results.size(); ++i) {
        try_share(operation.results[i], values[i]);
        try_share(operation.results[i], operation.operands[i + 3]);
      }
    }
    if (operation.opcode == Opcode::if_) {
      for (ir::BlockId block : operation.blocks) {
        for (std::size_t i = 0; i < operation.results.size(); ++i) try_share(operation.results[i], yielded(block)[i]);
      }
    }
  }

  // ---- temporaries

  int temporary(std::int64_t bytes, int position) {
    plan_.slots.push_back({.bytes = bytes, .offset = 0, .begin = position, .end = position});
    return static_cast<int>(plan_.slots.size()) - 1;
  }

  /// A yielded tile is first written aside where its source is another carried tile's slot.
  void yield_temporaries(OperationId id, ir::BlockId block) {
    const Operation& operation = function_.operation(id);
    const std::size_t skip = operation.opcode == Opcode::condition ? 1 : 0;
    const std::vector<Value> homes = homes_of(block);
    std::vector<int>& temporaries = plan_.temporaries[id.index];
    temporaries.assign(operation.operands.size(), -1);
    for (std::size_t i = skip; i < operation.operands.size() && i - skip < homes.size(); ++i) {
      const Value value = operation.operands[i];
      if (!is_tile(function_.type(value)) || plan_.slot[value.index] == plan_.slot[homes[i - skip].index]) continue;
      std::vector<Value> leaves;
      append_leaves(function_, plan_, value, leaves);
      const bool reads_home = std::any_of(leaves.begin(), leaves.end(), [&](Value leaf) {
        return plan_.slot[leaf.index] >= 0 && std::any_of(homes.begin(), homes.end(), [&](Value home) { return plan_.slot[home.index] == plan_.slot[leaf.index]; });
      });
      if (!reads_home) continue;
      const Value home = homes[i - skip];
      temporaries[i] = temporary(function_.type(home).elements() * stored_bytes(function_, plan_, home), position_of_block_end(block));
    }
  }

  std::vector<Value> homes_of(ir::BlockId block) const {
    const BlockPlace& place = places_[block.index];
    if (!place.group) return {};
    return function_.operation(place.group->operations[0]).results;
  }

  int position_of_block_end(ir::BlockId block) const { return plan_.blocks[block.index].back().begin; }

  void lay_out() {
    std::vector<int> renumbered(members_.size(), -1);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].empty()) continue;
      Slot slot{.bytes = 0, .offset = 0, .begin = next_position_, .end = 0};
      for (Value value : members_[i]) {
        slot.bytes = std::max(slot.bytes, slot_elements(value) * stored_bytes(function_, plan_, value));
        slot.begin = std::min(slot.begin, lives_[value.index].define);
        slot.end = std::max(slot.end, lives_[value.index].last);
      }
      renumbered[i] = static_cast<int>(plan_.slots.size());
      plan_.slots.push_back(slot);
    }
    for (int& slot : plan_.slot) {
      if (slot >= 0) slot = renumbered[static_cast<std::size_t>(slot)];
    }
    for (std::uint32_t block = 0; block < function_.block_count(); ++block) {
      for (const Group& group : plan_.blocks[block]) {
        for (OperationId id : group.operations) group_temporaries(id, {block}, group);
      }
    }
    place_slots();
  }

  std::int64_t slot_elements(Value value) const {
    const ir::Type& type = function_.type(value);
    const std::int64_t panel = plan_.panel[value.index];
    return panel == 0 ? type.elements() : (type.extents[1] + panel - 1) / panel * panel * type.extents[0];
  }

  void group_temporaries(OperationId id, ir::BlockId block, const Group& group) {
    const Operation& operation = function_.operation(id);
    if (operation.opcode == Opcode::dot) {
      const DotShape shape = dot_shape(function_, operation, machine_);
      const std::int64_t right_bytes = plan_.panel[shape.right.index] > 0 ? 0 : shape.packed_right_bytes();
      plan_.temporaries[id.index] = {temporary(right_bytes, group.begin), temporary(shape.packed_left_bytes(), group.begin)};
    }
    if ((operation.opcode == Opcode::yield || operation.opcode == Opcode::condition) && places_[block.index].group &&
        function_.operation(places_[block.index].group->operations[0]).opcode != Opcode::reduce) {
      yield_temporaries(id, block);
    }
  }

  void place_slots() {
    std::vector<std::size_t> order(plan_.slots.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return plan_.slots[a].bytes > plan_.slots[b].bytes; });
    std::vector<std::size_t> placed;
    for (std::size_t index : order) {
      Slot& slot = plan_.slots[index];
      slot.bytes = (slot.bytes + alignment - 1) / alignment * alignment;
      std::vector<const Slot*> rivals;
      for (std::size_t other : placed) {
        const Slot& rival = plan_.slots[other];
        if (rival.begin <= slot.end && slot.begin <= rival.end) rivals.push_back(&rival);
      }
      std::sort(rivals.begin(), rivals.end(), [](const Slot* a, const Slot* b) { return a->offset < b->offset; });
      for (const Slot* rival : rivals) {
        if (slot.offset + slot.bytes <= rival->offset) break;
        slot.offset = std::max(slot.offset, rival->offset + rival->bytes);
      }
      placed.push_back(index);
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, slot.offset + slot.bytes);
    }
  }

  const Function& function_;
  const Machine& machine_;
  Plan& plan_;
  std::vector<Life> lives_;
  std::vector<BlockPlace> places_;
  std::vector<ir::BlockId> home_block_;
  std::vector<const Group*> defining_group_;
  std::vector<std::vector<Value>> members_;     // by preliminary slot
  int next_position_ = 0;
};

}  // namespace

void assign_slots(const Function& function, const Machine& machine, Plan& plan) {
  plan.slot.assign(function.value_count(), -1);
  plan.temporaries.resize(function.operation_count());
  SlotPlanner(function, machine, plan).run();
}

Plan make_plan(const Function& function, const Machine& machine) {
  Plan plan;
  form_groups(function, plan);
  choose_storage(function, machine, plan);
  assign_slots(function, machine, plan);
  return plan;
}

}  // namespace flextile::backend::host
