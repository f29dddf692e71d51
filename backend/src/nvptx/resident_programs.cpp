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

bool is_resident(const ir::Function& function) {
  const auto& operations = function.block(function.body()).operations;
  return std::any_of(operations.begin(), operations.end(), [&](OperationId id) { return function.operation(id).opcode == Opcode::worker_id; });
}

void ResidentPrograms::wrap() {
  const BlockId outside = f_.body();
  const std::vector<OperationId> body = f_.block(outside).operations;   // the last one returns
  program_ = f_.add_block();
  round_ = f_.add_argument(program_, Type::scalar(ElementType::i32));
  const Type i32 = Type::scalar(ElementType::i32);

  Order before;
  auto both = [&](Order& order, BlockId block, Opcode opcode, Value a, Value b) { return arithmetic(order, block, opcode, a, b); };
  const Value worker = emit_value(before, outside, Opcode::worker_id, {}, i32), workers = emit_value(before, outside, Opcode::num_workers, {}, i32);
  Value extents[3];
  for (std::int64_t axis = 0; axis < 3; ++axis) extents[axis] = emit_value(before, outside, Opcode::num_programs, {}, i32, {{AttributeName::axis, axis}});
  const Value plane = both(before, outside, Opcode::mul, extents[0], extents[1]);
  const Value total = both(before, outside, Opcode::mul, plane, extents[2]);
  const Value one = number(before, outside, 1);
  const Value mirrored = both(before, outside, Opcode::sub, both(before, outside, Opcode::sub, workers, one), worker);
  auto place_in = [&](Order& order, BlockId block, Value round) {
    const Value odd = emit_value(order, block, Opcode::ne, {both(order, block, Opcode::bit_and, round, number(order, block, 1)), number(order, block, 0)}, Type::scalar(ElementType::i1));
    return emit_value(order, block, Opcode::select, {odd, mirrored, worker}, i32);
  };
  const Value whole = both(before, outside, Opcode::div, total, workers);
  const Value left = both(before, outside, Opcode::rem, total, workers);
  const Value gets_one = emit_value(before, outside, Opcode::lt, {place_in(before, outside, whole), left}, Type::scalar(ElementType::i1));
  rounds_ = both(before, outside, Opcode::add, whole, emit_value(before, outside, Opcode::select, {gets_one, one, number(before, outside, 0)}, i32));

  Order start;
  const Value program = both(start, program_, Opcode::add, both(start, program_, Opcode::mul, round_, workers), place_in(start, program_, round_));
  const Value along[3] = {both(start, program_, Opcode::rem, program, extents[0]),
                          both(start, program_, Opcode::rem, both(start, program_, Opcode::div, program, extents[0]), extents[1]),
                          both(start, program_, Opcode::div, program, plane)};
  for (std::size_t i = 0; i + 1 < body.size(); ++i) f_.move(body[i], outside, program_);
  f_.block(program_).operations.insert(f_.block(program_).operations.begin(), start.begin(), start.end());
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (OperationId id : Order(f_.block({block}).operations)) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode != Opcode::program_id) continue;
      const Value old = operation.results[0], now = along[operation.attributes.integer(AttributeName::axis)];
      for (OperationId user : users(old)) substitute(user, old, now);
      remove(id);
    }
  }

  auto& operations = f_.block(outside).operations;
  operations.insert(operations.begin(), before.begin(), before.end());
}

bool ResidentPrograms::needs(Value value) {
  if (f_.definition(value).block != program_) return true;
  if (!collect_slice(value, program_, writes(program_), slice_)) return false;
  const Operation* source = f_.defining(value);
  if (source && source->opcode != Opcode::constant && std::find(needed_.begin(), needed_.end(), value) == needed_.end()) needed_.push_back(value);
  return true;
}

void ResidentPrograms::carry() {
  for (Value value : needed_) {
    const Value here = f_.add_argument(program_, f_.type(value));
    for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
      for (OperationId id : f_.block({block}).operations) {
        if (std::find(slice_.begin(), slice_.end(), id) == slice_.end()) substitute(id, value, here);
      }
    }
    here_.push_back(here);
  }
  base_ = f_.add_argument(program_, Type::scalar(ElementType::i32));

  Order first;
  first_names_[round_.index] = number(first, f_.body(), 0);
  repeat(first, f_.body(), slice_, {}, first_names_);
  auto& outside = f_.block(f_.body()).operations;
  outside.insert(outside.end() - 1, first.begin(), first.end());

  const Value next_round = arithmetic(start_, program_, Opcode::add, round_, number(start_, program_, 1));
  follows_ = emit_value(start_, program_, Opcode::lt, {next_round, rounds_}, Type::scalar(ElementType::i1));
  Renamed names{{round_.index, next_round}};
  repeat(start_, program_, slice_, follows_, names);
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    next_names_[here_[i].index] = renamed(names, needed_[i]);
    first_names_[here_[i].index] = renamed(first_names_, needed_[i]);
  }
}

void ResidentPrograms::begin() {
  // Constants first: what fetches of the next program is made of them too.
  auto& operations = f_.block(program_).operations;
  const auto others = std::stable_partition(operations.begin(), operations.end(), [&](OperationId id) { return f_.operation(id).opcode == Opcode::constant; });
  operations.insert(others, start_.begin(), start_.end());
}

void ResidentPrograms::close(Value next_base) {
  std::vector<Value> initial{number(f_.block(f_.body()).operations, f_.body(), 0), rounds_, {}}, yielded;
  // Constants and initial values stand behind the return for a moment; it goes last again below.
  auto& outside = f_.block(f_.body()).operations;
  initial[2] = number(outside, f_.body(), 1);
  std::vector<Type> types;
  for (Value here : here_) {
    initial.push_back(renamed(first_names_, here));
    yielded.push_back(renamed(next_names_, here));
    types.push_back(f_.type(here));
  }
  initial.push_back(number(outside, f_.body(), 0));
  yielded.push_back(next_base);
  types.push_back(Type::scalar(ElementType::i32));
  emit(f_.block(program_).operations, program_, {Opcode::yield, std::move(yielded), {}, {}, {}, location_}, {});
  emit(outside, f_.body(), {Opcode::for_, std::move(initial), {}, {program_}, {{AttributeName::programs, std::int64_t{1}}}, location_}, types);
  const auto returns = std::find_if(outside.begin(), outside.end(), [&](OperationId id) { return f_.operation(id).opcode == Opcode::return_; });
  std::rotate(returns, returns + 1, outside.end());
  remove_unused();
}

/// What was computed for the program itself and is carried now.
void ResidentPrograms::remove_unused() {
  for (auto id = slice_.rbegin(); id != slice_.rend(); ++id) {
    if (users(f_.operation(*id).results[0]).empty()) remove(*id);
  }
}

}  // namespace flextile::backend
