#include "nvptx/sums_in_flight.hpp"

#include <set>

#include "nvptx/product_loops.hpp"
#include "nvptx/resident_programs.hpp"

namespace flextile::backend {
namespace {

class SumsInFlight : ProductLoops {
 public:
  explicit SumsInFlight(ir::Function& function) : ProductLoops(function) {}

  void run(BlockId outer, OperationId loop) {
    outer_ = outer;
    if (sums_up(loop)) keep_in_flight(loop);
  }

 private:
  /// One product, whose sum is carried and nothing else; the rings are read by it alone.
  bool sums_up(OperationId loop_id) {
    const Operation& loop = f_.operation(loop_id);
    body_ = loop.blocks[0];
    first_ = {};
    turn_ = {};
    std::set<std::uint32_t> read;
    for (OperationId id : f_.block(body_).operations) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode == Opcode::shared_load) read.insert(operation.operands[0].index);
      if (operation.opcode == Opcode::ring_release) {
        if (!read.contains(operation.operands[0].index)) return false;
        turn_ = operation.operands[1];
        const Value index = f_.block(body_).arguments[0];
        if (!needs_only(operation, [&](Value value) { return value == index || value == turn_; })) return false;
      }
      if (operation.opcode != Opcode::dot) continue;
      if (first_ || operation.attributes.string(AttributeName::instruction) != "wgmma") return false;
      first_ = id;
    }
    if (!first_ || !turn_) return false;
    const Operation& dot = f_.operation(first_);
    const Operation& yield = f_.operation(f_.block(body_).operations.back());
    const auto at = std::find(yield.operands.begin(), yield.operands.end(), dot.results[0]);
    if (at == yield.operands.end() || users(dot.results[0]) != 1) return false;
    slot_ = static_cast<std::size_t>(at - yield.operands.begin());
    const Value sum = f_.block(body_).arguments[1 + slot_];
    return dot.operands[2] == sum && users(sum) == 1 && reads_panels(dot);
  }

  /// Both operands come from shared memory: none in registers that another iteration could overwrite.
  bool reads_panels(const Operation& dot) const {
    return std::all_of(dot.operands.begin(), dot.operands.begin() + 2, [&](Value operand) {
      const Operation* source = f_.defining(operand);
      while (source && source->opcode == Opcode::transpose) source = f_.defining(source->operands[0]);
      return source && source->opcode == Opcode::shared_load;
    });
  }

  void keep_in_flight(OperationId loop_id) {
    location_ = f_.operation(loop_id).location;
    f_.operation(first_).attributes.set(AttributeName::async, std::int64_t{1});
    const Value index = f_.block(body_).arguments[0];
    const std::int64_t stride = f_.defining(f_.operation(loop_id).operands[2])->attributes.integer(AttributeName::value);
    const std::vector<OperationId> operations = std::exchange(f_.block(body_).operations, {});
    const BlockId last_turn = f_.add_block(), otherwise = f_.add_block();
    std::vector<OperationId> before, releases;
    for (OperationId id : operations) (f_.operation(id).opcode == Opcode::ring_release ? releases : before).push_back(id);
    const OperationId yield = before.back();
    before.pop_back();
    f_.block(body_).operations = before;
    f_.append(body_, {Opcode::product_wait, {}, {}, {}, {{AttributeName::pending, std::int64_t{1}}}, location_}, {});
    // What the releases need of the turn before, computed again where it depends on the index.
    Values names{{index.index, arithmetic(last_turn, Opcode::sub, index, number(last_turn, stride))}, {turn_.index, arithmetic(last_turn, Opcode::sub, turn_, number(last_turn, 1))}};
    for (OperationId id : releases) copy(id, last_turn, names);
    f_.append(last_turn, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    f_.append(otherwise, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    const Value later = make(body_, Opcode::gt, {index, f_.operation(loop_id).operands[0]}, Type::scalar(ElementType::i1));
    f_.append(body_, {Opcode::if_, {later}, {}, {last_turn, otherwise}, {}, location_}, {});
    f_.block(body_).operations.push_back(yield);

    // Behind the loop: the last product, whose stages the next program may want.
    const Value sum = f_.operation(loop_id).results[slot_];
    const std::size_t end = f_.block(outer_).operations.size();
    const Value done = wait(outer_, sum, 0);
    const OperationId waiting = f_.block(outer_).operations.back();
    if (is_resident(f_)) release_last(loop_id, releases);
    std::vector<OperationId>& outside = f_.block(outer_).operations;
    std::rotate(std::find(outside.begin(), outside.end(), loop_id) + 1, outside.begin() + static_cast<std::ptrdiff_t>(end), outside.end());
    for (std::uint32_t i = 0; i < f_.operation_count(); ++i) {
      if (i == waiting.index) continue;
      for (Value& operand : f_.operation({i}).operands) {
        if (operand == sum) operand = done;
      }
    }
  }

  /// The releases of the last turn, where there was one.
  void release_last(OperationId loop_id, const std::vector<OperationId>& releases) {
    const Operation loop = f_.operation(loop_id);
    const Value lower = loop.operands[0], upper = loop.operands[1];
    const BlockId some = f_.add_block(), nothing = f_.add_block();
    Values names;
    names[f_.block(body_).arguments[0].index] = last_index(some, loop);
    turn_at(some, names);
    for (OperationId id : releases) copy(id, some, names);
    f_.append(some, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    f_.append(nothing, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    const Value runs = make(outer_, Opcode::lt, {lower, upper}, Type::scalar(ElementType::i1));
    f_.append(outer_, {Opcode::if_, {runs}, {}, {some, nothing}, {}, location_}, {});
  }

  OperationId first_;                          // the product
  std::size_t slot_ = 0;                       // of its sum among the carried values
};

}  // namespace

void keep_sums_in_flight(ir::Function& function, ir::BlockId outer, ir::OperationId loop) { SumsInFlight(function).run(outer, loop); }

}  // namespace flextile::backend
