#include "nvptx/resident_programs.hpp"

#include <algorithm>

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;
using ir::Value;

namespace {

const Type number_type = Type::scalar(ElementType::i32), condition_type = Type::scalar(ElementType::i1);
constexpr int programs_ahead = 2;   // stages of the ring of program numbers

/// Registers of a thread: of the producer, which needs few, and of as many consumers as it leaves room for. 0: as they are.
std::vector<std::int64_t> register_budgets(int num_warps) {
  switch (num_warps / 4) {
    case 1: return {24, 232};    // two such programs share a multiprocessor
    case 2: return {24, 240};
    case 3: return {32, 160};
    default: return {0, 0};
  }
}

}  // namespace

OperationId roles_of(const ir::Function& function) {
  for (OperationId id : function.block(function.body()).operations) {
    if (function.operation(id).opcode == Opcode::roles) return id;
  }
  return {};
}

bool is_resident(const ir::Function& function) { return static_cast<bool>(roles_of(function)); }

ResidentPrograms::ProgramLoop ResidentPrograms::make_loop() {
  ProgramLoop loop;
  loop.body = f_.add_block();
  loop.program = f_.add_argument(loop.body, number_type);
  loop.round = f_.add_argument(loop.body, number_type);
  loop.base = f_.add_argument(loop.body, number_type);
  return loop;
}

void ResidentPrograms::wrap() {
  const Order body = f_.block(f_.body()).operations;   // the last one returns
  outside_.clear();
  slice_.clear();
  worker_ = emit_value(outside_, f_.body(), Opcode::worker_id, {}, number_type);
  for (std::int64_t axis = 0; axis < 3; ++axis) extents_[axis] = emit_value(outside_, f_.body(), Opcode::num_programs, {}, number_type, {{AttributeName::axis, axis}});
  const Value plane = arithmetic(outside_, f_.body(), Opcode::mul, extents_[0], extents_[1]);
  total_ = arithmetic(outside_, f_.body(), Opcode::mul, plane, extents_[2]);

  consumer_ = make_loop();
  Order start;
  const BlockId inside = consumer_.body;
  const Value program = consumer_.program;
  const Value along[3] = {arithmetic(start, inside, Opcode::rem, program, extents_[0]),
                          arithmetic(start, inside, Opcode::rem, arithmetic(start, inside, Opcode::div, program, extents_[0]), extents_[1]),
                          arithmetic(start, inside, Opcode::div, program, plane)};
  for (std::size_t i = 0; i + 1 < body.size(); ++i) f_.move(body[i], f_.body(), inside);
  auto& moved = f_.block(inside).operations;
  moved.insert(moved.begin(), start.begin(), start.end());
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (OperationId id : Order(f_.block({block}).operations)) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode != Opcode::program_id) continue;
      const Value old = operation.results[0], now = along[operation.attributes.integer(AttributeName::axis)];
      for (OperationId user : users(old)) substitute(user, old, now);
      remove(id);
    }
  }
}

bool ResidentPrograms::needs(Value value) {
  return f_.definition(value).block != consumer_.body || collect_slice(value, consumer_.body, writes(consumer_.body), slice_);
}

ResidentPrograms::ProgramLoop ResidentPrograms::producer(Renamed& names) {
  const ProgramLoop loop = make_loop();
  names[consumer_.program.index] = loop.program;
  Order order;
  repeat(order, loop.body, slice_, {}, names);
  f_.block(loop.body).operations = std::move(order);
  return loop;
}

Value ResidentPrograms::ring_of_programs(Order& order) {
  programs_ = emit_value(order, f_.body(), Opcode::alloc_shared, {}, Type::shared(ElementType::i32, {1}, programs_ahead), {{AttributeName::barriers, std::int64_t{1}}});
  return programs_;
}

void ResidentPrograms::take_next(const ProgramLoop& loop, Value turns, bool takes, std::int64_t taker) {
  Order end;
  auto ring = [&](Opcode opcode, std::vector<BlockId> blocks, ir::Attributes attributes = {}) {
    emit(end, loop.body, {opcode, {programs_, loop.round}, {}, std::move(blocks), std::move(attributes), location_}, {});
  };
  auto block = [&](bool take) {
    const BlockId result = f_.add_block();
    Order inner;
    if (take) emit(inner, result, {Opcode::take_program, {programs_, loop.round}, {}, {}, {}, location_}, {});
    emit(inner, result, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    f_.block(result).operations = std::move(inner);
    return result;
  };
  if (takes) ring(Opcode::ring_refill, {block(true)}, {{AttributeName::warp, taker}});
  ring(Opcode::ring_wait, {});
  const Value next = emit_value(end, loop.body, Opcode::taken_program, {programs_, loop.round}, number_type);
  ring(Opcode::ring_release, {block(false)});
  const Value round = arithmetic(end, loop.body, Opcode::add, loop.round, number(end, loop.body, 1));
  const Value base = arithmetic(end, loop.body, Opcode::add, loop.base, turns);
  emit(end, loop.body, {Opcode::yield, {next, round, base}, {}, {}, {}, location_}, {});
  auto& operations = f_.block(loop.body).operations;
  operations.insert(operations.end(), end.begin(), end.end());
}

OperationId ResidentPrograms::loop_over(BlockId role, const ProgramLoop& loop, Value first) {
  const BlockId test = f_.add_block();
  std::vector<Value> carried;
  for (int i = 0; i < 3; ++i) carried.push_back(f_.add_argument(test, number_type));
  Order tested, order;
  const Value goes_on = emit_value(tested, test, Opcode::lt, {carried[0], total_}, condition_type);
  emit(tested, test, {Opcode::condition, {goes_on, carried[0], carried[1], carried[2]}, {}, {}, {}, location_}, {});
  f_.block(test).operations = std::move(tested);
  const Value zero = number(order, role, 0);
  const OperationId id = emit(order, role, {Opcode::while_, {first, zero, zero}, {}, {test, loop.body}, {{AttributeName::programs, std::int64_t{1}}}, location_},
                              {number_type, number_type, number_type});
  emit(order, role, {Opcode::yield, {}, {}, {}, {}, location_}, {});
  f_.block(role).operations = std::move(order);
  return id;
}

void ResidentPrograms::close(Order before, const ProgramLoop& producer, Value producer_turns, Value consumer_turns, std::int64_t taker) {
  take_next(producer, producer_turns, true, taker);
  take_next(consumer_, consumer_turns, false, taker);
  const BlockId first = f_.add_block(), second = f_.add_block();
  loop_over(first, producer, worker_);
  loop_over(second, consumer_, worker_);
  emit(before, f_.body(), {Opcode::roles, {}, {}, {first, second}, {{AttributeName::registers, register_budgets(f_.num_warps)}}, location_}, {});
  outside_.insert(outside_.end(), before.begin(), before.end());
  auto& operations = f_.block(f_.body()).operations;   // what is left of it returns
  operations.insert(operations.begin(), outside_.begin(), outside_.end());
}

}  // namespace flextile::backend
