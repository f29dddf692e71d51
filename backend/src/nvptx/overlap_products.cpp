// Two products of a loop run under its element-wise work, as in FlashAttention-3. A loop
//
//   for i:  s = dot(..)              becomes      s, a of the first iteration, without the second product
//           p = f(s)                              for i from the second on:
//           sum = dot(p, .., g(sum, ..))              start s = dot(..)
//                                                     start sum = dot(p of i - 1, .., a)
//                                                     wait for s;    p = f(s)        while sum is computed
//                                                     wait for sum;  a = g(sum, ..)
//                                                 sum = dot(p, .., a)
//
// The second product is an iteration late; its operand p and what g needs (such as a factor per row) are carried. Where g needs
// more than a few numbers per thread, a is computed behind the wait for sum instead, and carried. Rings that only the second
// product reads are waited for and released with it, a turn late too. Warpgroups start their products in turn (ping-pong), so
// that one exponentiates while another multiplies.
//
// A branch inside f whose condition is known before the products (this tile needs a mask) would cut the iteration into pieces that
// the assembler cannot mix. The loop then has the branch at its start, and the iteration twice: with the one side, and with the other.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "nvptx/first_reads.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/overlap_plan.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/sums_in_flight.hpp"
#include "nvptx/wgmma.hpp"

namespace flextile::backend {
namespace {

class Overlap : OverlapPlan {
 public:
  explicit Overlap(Function& function) : OverlapPlan(function) {}

  void run() { visit(f_.body()); }

 private:
  /// The loops of a program.
  void visit(BlockId block) {
    for (OperationId id : std::vector<OperationId>(f_.block(block).operations)) {
      const Operation& operation = f_.operation(id);
      if (operation.attributes.integer(AttributeName::programs) != 0) programs_ = {block, id};
      if (operation.opcode == Opcode::roles || operation.attributes.integer(AttributeName::programs) != 0) visit(BlockId(operation.blocks.back()));
      if (operation.opcode != Opcode::for_) continue;
      outer_ = block;
      if (plan(id)) transform(id);
      else keep_sums_in_flight(f_, block, id);
    }
  }

  void turn(BlockId block, const char* kind) { f_.append(block, {Opcode::turn, {}, {}, {}, {{AttributeName::kind, std::string(kind)}}, location_}, {}); }

  /// Copies the body's operations that `accept` picks, in order.
  template <class Accept> void copy_some(BlockId block, Values& names, Accept accept) {
    for (OperationId id : body_operations_) {
      if (accept(id)) copy_operation(id, block, names);
    }
  }
  /// Or what the branch does on the side that is copied.
  void copy_operation(OperationId id, BlockId block, Values& names) {
    if (id != branch_ || !side_) {
      copy(id, block, names);
      return;
    }
    const Operation branch = f_.operation(id);
    const std::vector<OperationId> inside = f_.block(branch.blocks[*side_]).operations;
    for (OperationId each : inside) {
      if (each != inside.back() && !copied_.contains(each.index)) copy(each, block, names);
    }
    const std::vector<Value> yielded = f_.operation(inside.back()).operands;
    for (std::size_t i = 0; i < yielded.size(); ++i) names[branch.results[i].index] = renamed(names, yielded[i]);
  }
  /// What the second product adds to, from the sum and needs that `names` holds.
  Value update(BlockId block, Values& names) {
    copy_some(block, names, [&](OperationId id) { return update_.contains(id.index) || repeated_.contains(id.index); });
    return renamed(names, f_.operation(second_).operands[2]);
  }

  /// Waits for the second product's operands of `turn`, whose index is `index`, and starts or does it.
  Value second_product(BlockId block, Values& names, Value sum, Value operand, Value index, Value turn, bool async) {
    Values late = names;
    late[index_.index] = index;
    late[turn_.index] = turn;
    const Operation second = f_.operation(second_);
    late[second.operands[0].index] = operand;
    late[second.operands[2].index] = sum;
    const Value stage = stage_of(second);
    late[stage.index] = arithmetic(block, Opcode::rem, turn, number(block, stages_));
    Value product;
    for (OperationId id : body_operations_) {
      if (!late_.contains(id.index)) continue;
      if (f_.operation(id).opcode == Opcode::ring_release) continue;
      const OperationId made = copy(id, block, late);
      if (id != second_) continue;
      if (async) f_.operation(made).attributes.set(AttributeName::async, std::int64_t{1});
      product = f_.operation(made).results[0];
    }
    late_names_ = std::move(late);
    return product;
  }

  /// The value that says which stage the second product reads.
  Value stage_of(const Operation& second) {
    const Operation* read = f_.defining(second.operands[1]);
    while (read->opcode == Opcode::transpose) read = f_.defining(read->operands[0]);
    stages_ = f_.type(read->operands[0]).stages;
    return read->operands[1];
  }

  /// Gives the stage back that the second product, which was started last, read.
  void release(BlockId block) {
    for (OperationId id : body_operations_) {
      if (late_.contains(id.index) && f_.operation(id).opcode == Opcode::ring_release) copy(id, block, late_names_);
    }
  }

  /// Yields of the body with `sum` in the sum's slot; behind them the late operand and what the update needs.
  std::vector<Value> carried(const Values& names, Value sum) const {
    std::vector<Value> values = f_.operation(body_operations_.back()).operands;
    for (Value extra : carried_beside()) values.push_back(extra);
    for (Value& value : values) value = renamed(names, value);
    values[slot_] = sum;
    return values;
  }

  std::vector<Value> carried_beside() const {
    std::vector<Value> values{f_.operation(second_).operands[0]};
    if (update_first_) values.insert(values.end(), needs_.begin(), needs_.end());
    return values;
  }

  void transform(OperationId loop_id) {
    const Operation loop = f_.operation(loop_id);
    location_ = loop.location;
    body_operations_ = f_.block(body_).operations;
    index_ = f_.block(body_).arguments[0];
    const Value lower = loop.operands[0], upper = loop.operands[1], step = loop.operands[2];
    const std::int64_t stride = f_.defining(step)->attributes.integer(AttributeName::value);
    const std::vector<Value> arguments = f_.block(body_).arguments;
    const Value operand = f_.operation(second_).operands[0];

    const Value sum = arguments[1 + slot_];
    auto cast = [&](BlockId block, Values& names) {
      if (cast_) copy(cast_, block, names);
    };

    // The first iteration.
    const BlockId some = f_.add_block();
    Values names{{index_.index, lower}};
    for (std::size_t i = 1; i < arguments.size(); ++i) names[arguments[i].index] = loop.operands[2 + i];
    const std::vector<Value> known = first_reads(loop_id);
    for (std::size_t i = 0; i < known.size(); ++i) names[f_.operation(read_ahead_[i]).results[0].index] = known[i];
    auto is_known = [&](OperationId id) { return !known.empty() && is_read_ahead(id); };
    copy_some(some, names, [&](OperationId id) { return in_front_.contains(id.index) && !is_known(id); });
    copy_ahead(tiles_ahead_[0], some, names);
    copy_some(some, names, [&](OperationId id) { return is_early(id) && !in_front_.contains(id.index) && !copied_.contains(id.index); });
    copied_.clear();
    cast(some, names);
    copy_some(some, names, [&](OperationId id) { return is_release(id) && !late_.contains(id.index); });
    std::vector<Value> initial = carried(names, update_first_ ? names[sum.index] : update(some, names));

    // The loop from the second on.
    const Value last_one = last_index(some, loop);
    const BlockId body = f_.add_block();
    names = {{index_.index, f_.add_argument(body, f_.type(index_))}};
    std::vector<Type> types;
    std::vector<Value> like(arguments.begin() + 1, arguments.end());
    for (Value extra : carried_beside()) like.push_back(extra);
    for (Value each : like) {
      types.push_back(f_.type(each));
      names[each.index] = f_.add_argument(body, types.back());
      keep_layout(each, names[each.index]);
    }
    const Values before = names;                                     // what the iteration before has left,
    if (update_first_) {
      for (Value need : needs_) names.erase(need.index);             // of which this one computes its own
    }
    const auto first_at = std::find(body_operations_.begin(), body_operations_.end(), first_);
    const auto wait_at = std::find_if(body_operations_.begin(), first_at, [&](OperationId id) { return f_.operation(id).opcode == Opcode::ring_wait; });
    const bool in_turn = f_.num_warps >= 8 && wait_at != first_at;
    const OperationId take_behind = in_turn ? *wait_at : OperationId{};
    std::vector<Value> yielded;
    if (branch_) {
      for (OperationId read : read_ahead_) {
        const Value value = f_.operation(read).results[0];
        names[value.index] = f_.add_argument(body, types.emplace_back(f_.type(value)));
      }
      copy_some(body, names, [&](OperationId id) { return in_front_.contains(id.index) && !is_read_ahead(id); });
      std::vector<BlockId> sides;
      const Value condition = renamed(names, f_.operation(branch_).operands[0]);
      for (const std::size_t side : {0, 1}) {
        side_ = side;
        sides.push_back(f_.add_block());
        const std::vector<Value> values = iteration(sides.back(), names, before, {stride, last_one}, take_behind);
        f_.append(sides.back(), {Opcode::yield, values, {}, {}, {}, location_}, {});
      }
      side_.reset();
      const OperationId choice = f_.append(body, {Opcode::if_, {condition}, {}, std::move(sides), {}, location_}, types);
      yielded = f_.operation(choice).results;
      for (std::size_t i = 0; i < like.size(); ++i) keep_layout(like[i], yielded[i]);
    } else {
      yielded = iteration(body, names, before, {stride, last_one}, take_behind);
    }
    f_.append(body, {Opcode::yield, yielded, {}, {}, {}, location_}, {});

    std::vector<Value> operands{arithmetic(some, Opcode::add, lower, number(some, stride)), upper, step};
    operands.insert(operands.end(), initial.begin(), initial.end());
    if (!read_ahead_.empty()) read_at(some, {}, arithmetic(some, Opcode::min, operands[0], last_one), operands);
    if (in_turn && !programs_.loop) turn(some, "open");
    const OperationId rest = f_.append(some, {Opcode::for_, std::move(operands), {}, {body}, loop.attributes, location_}, types);
    std::vector<Value> results = f_.operation(rest).results;
    for (std::size_t i = 0; i < like.size(); ++i) keep_layout(like[i], results[i]);

    if (in_turn && !programs_.loop) turn(some, "close");
    if (in_turn && programs_.loop) take_turns_over_programs();

    // The last second product.
    Values at_last{{index_.index, last_one}};
    const Value last = turn_at(some, at_last);
    Values after;
    for (std::size_t i = 0; i < like.size(); ++i) after[like[i].index] = results[i];
    const std::vector<OperationId> done = releases_behind(loop_id);
    for (OperationId id : done) move(id, some);
    const Value last_addend = update_first_ ? update(some, after) : results[slot_];
    Values none;
    results[slot_] = second_product(some, none, last_addend, after[operand.index], last_one, last, false);
    if (is_resident(f_)) release(some);   // for the next program
    results.resize(arguments.size() - 1);
    f_.append(some, {Opcode::yield, results, {}, {}, {}, location_}, {});

    const BlockId nothing = f_.add_block();
    Values same;
    for (OperationId id : done) copy(id, nothing, same);
    f_.append(nothing, {Opcode::yield, {loop.operands.begin() + 3, loop.operands.end()}, {}, {}, {}, location_}, {});
    replace(loop_id, loop, some, nothing);
  }

  /// Nothing else in the loop reads the ring that is released.
  bool feeds_first_alone(OperationId release) const { return feeds_first_alone(f_.operation(release).operands[0]); }
  bool feeds_first_alone(Value value) const {
    return std::all_of(body_operations_.begin(), body_operations_.end(), [&](OperationId id) {
      const Operation& operation = f_.operation(id);
      if (id == first_ || operation.opcode == Opcode::ring_wait || operation.opcode == Opcode::ring_release || !depends_on(operation, value)) return true;
      return (operation.opcode == Opcode::shared_load || operation.opcode == Opcode::transpose) && feeds_first_alone(operation.results[0]);
    });
  }

  /// An iteration from the second on; gives what it carries into the next.
  struct Steps {
    std::int64_t stride;
    Value last;          // index
  };
  std::vector<Value> iteration(BlockId block, Values names, Values before, const Steps& steps, OperationId take_behind) {
    const Value sum = f_.block(body_).arguments[1 + slot_], operand = f_.operation(second_).operands[0];
    const Value index = names[index_.index], held = names[operand.index];
    names.erase(operand.index);
    const auto first_at = std::find(body_operations_.begin(), body_operations_.end(), first_);
    auto before_first = [&](OperationId id) { return std::find(body_operations_.begin(), first_at + 1, id) != first_at + 1; };
    auto is_own = [&](OperationId id) { return is_early(id) && !in_front_.contains(id.index); };   // those stand in front of both sides
    std::vector<Value> ahead;   // read before anything is released: a release waits for what was read before it
    if (!read_ahead_.empty()) read_at(block, names, arithmetic(block, Opcode::min, arithmetic(block, Opcode::add, index, number(block, steps.stride)), steps.last), ahead);
    if (side_) copy_ahead(tiles_ahead_[*side_], block, names);
    for (OperationId id : body_operations_) {
      if (!is_own(id) || !before_first(id) || copied_.contains(id.index)) continue;
      copy_operation(id, block, names);
      if (take_behind && id == take_behind) turn(block, "take");   // not between an operand's read and its product
    }
    const Value scores = names[f_.operation(first_).results[0].index];
    f_.operation(f_.definition(scores).operation).attributes.set(AttributeName::async, std::int64_t{1});
    const Value addend = update_first_ ? update(block, before) : before[sum.index];
    const Value index_before = arithmetic(block, Opcode::sub, index, number(block, steps.stride));
    const Value turn_before = arithmetic(block, Opcode::sub, renamed(names, turn_), number(block, 1));
    const Value product = second_product(block, names, addend, held, index_before, turn_before, true);
    if (take_behind) turn(block, "pass");
    names[f_.operation(first_).results[0].index] = wait(block, scores, 1);
    // A producer fills stages again while this warp goes on. Where a warp of the program does, it is last of all, where that keeps nobody waiting.
    const bool at_once = is_resident(f_);
    auto release_others = [&](bool of_first) {
      copy_some(block, names, [&](OperationId id) { return is_release(id) && !late_.contains(id.index) && (at_once && feeds_first_alone(id)) == of_first; });
    };
    release_others(true);
    copy_some(block, names, [&](OperationId id) { return is_own(id) && !before_first(id) && !copied_.contains(id.index); });
    copied_.clear();
    names[sum.index] = wait(block, product, 0, meanwhile_ ? renamed(names, meanwhile_) : Value{});
    if (at_once) release(block);
    if (cast_) copy(cast_, block, names);
    release_others(false);
    if (!at_once) release(block);
    std::vector<Value> values = carried(names, update_first_ ? names[sum.index] : update(block, names));
    values.insert(values.end(), ahead.begin(), ahead.end());
    return values;
  }

  /// What the iteration `index` reads to decide its branch.
  void read_at(BlockId block, Values names, Value index, std::vector<Value>& values) {
    names[index_.index] = index;
    for (OperationId id : body_operations_) {
      if (decides_.contains(id.index)) copy(id, block, names);
    }
    for (OperationId read : read_ahead_) values.push_back(names.at(f_.operation(read).results[0].index));
  }

  /// Operations of the branch, or of the body behind the first product, that stand here in this copy.
  void copy_ahead(const std::vector<OperationId>& operations, BlockId block, Values& names) {
    for (OperationId id : operations) {
      copy(id, block, names);
      copied_.insert(id.index);
    }
  }

  bool is_read_ahead(OperationId id) const { return std::find(read_ahead_.begin(), read_ahead_.end(), id) != read_ahead_.end(); }

  /// What the first iteration reads to decide its branch, where that was read while the program before was stored.
  std::vector<Value> first_reads(OperationId loop_id) {
    if (!programs_.loop) return {};
    FirstReads reads(f_, loop_id, outer_, decides_, read_ahead_);
    return reads.plan() ? reads.transform(programs_.block, programs_.loop) : std::vector<Value>{};
  }

  /// A warpgroup may begin its next program while another is in this one: turns go on from program to program.
  void take_turns_over_programs() {
    auto& operations = f_.block(programs_.block).operations;
    for (const char* kind : {"open", "close"}) {
      turn(programs_.block, kind);
      const OperationId made = operations.back();
      operations.pop_back();
      operations.insert(std::find(operations.begin(), operations.end(), programs_.loop) + (kind[0] == 'o' ? 0 : 1), made);
    }
  }

  /// Releases of what only the loop's first products read: they need not wait for the last second product.
  std::vector<OperationId> releases_behind(OperationId loop_id) const {
    std::vector<OperationId> result;
    const auto& operations = f_.block(outer_).operations;
    for (auto id = std::find(operations.begin(), operations.end(), loop_id) + 1; id != operations.end() && is_release(*id); ++id) result.push_back(*id);
    return result;
  }

  void move(OperationId id, BlockId to) {
    std::erase(f_.block(outer_).operations, id);
    f_.block(to).operations.push_back(id);
  }

  /// The loop's place is taken by a branch on whether it runs at all, with the loop's results.
  void replace(OperationId loop_id, const Operation& loop, BlockId some, BlockId nothing) {
    const Value runs = make(outer_, Opcode::lt, {loop.operands[0], loop.operands[1]}, Type::scalar(ElementType::i1));
    auto& operations = f_.block(outer_).operations;
    const OperationId condition = operations.back();
    operations.pop_back();
    operations.insert(std::find(operations.begin(), operations.end(), loop_id), condition);
    Operation& branch = f_.operation(loop_id);
    branch.opcode = Opcode::if_;
    branch.operands = {runs};
    branch.blocks = {some, nothing};
    branch.attributes = {};
  }

  struct {
    BlockId block;
    OperationId loop;
  } programs_;                                 // the loop over programs, where they stay on the device
  Value index_;
  std::int64_t stages_ = 1;                    // of the ring that the second product reads
  std::optional<std::size_t> side_;            // of the branch, which is being copied
  std::vector<OperationId> body_operations_;
  Values late_names_;                          // what the late operations' copies are called
};

}  // namespace

ir::Function overlap_products(const ir::Function& function, const Target&) {
  ir::Function result = function;
  if (uses_wgmma(function)) Overlap(result).run();
  return result;
}

}  // namespace flextile::backend
