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
constexpr int band_width = 8;       // programs
constexpr int programs_ahead = 2;   // stages of the ring of program numbers

/// Registers of a thread: of the producer, which needs few, and of as many consumers as it leaves room for. 0: as they are.
std::vector<std::int64_t> register_budgets(const ir::Function& function) {
  const std::int64_t warps = function.num_warps, all = warps + producer_warps;
  if (warps < 8 && function.occupancy == 1) return {0, 0};       // consumers have as many as a thread can name
  const std::int64_t few = warps < 12 ? 24 : 32, share = registers_at_start(function);
  return {few, std::min<std::int64_t>((share * all - few * producer_warps) / warps / 8 * 8, 240)};
}

}  // namespace

OperationId roles_of(const ir::Function& function) {
  for (OperationId id : function.block(function.body()).operations) {
    if (function.operation(id).opcode == Opcode::roles) return id;
  }
  return {};
}

std::int64_t registers_at_start(const ir::Function& function) {
  return 65536 / (32 * (function.num_warps + producer_warps) * function.occupancy) / 8 * 8;
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

bool ResidentPrograms::reads_axis(std::int64_t axis) const {
  for (std::uint32_t i = 0; i < f_.operation_count(); ++i) {
    const Operation& operation = f_.operation({i});
    if (operation.opcode == Opcode::program_id && operation.attributes.integer(AttributeName::axis) == axis) return true;
  }
  return false;
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
  auto of = [&](Opcode opcode, Value a, Value b) { return arithmetic(start, inside, opcode, a, b); };
  Value along[3] = {of(Opcode::rem, program, extents_[0]), {}, of(Opcode::div, program, plane)};
  if (reads_axis(1)) {
    // Programs that run together share what they read along both axes: they go through bands of the grid.
    const Value width = number(start, inside, band_width), place = of(Opcode::rem, program, plane), band_size = of(Opcode::mul, width, extents_[1]);
    const Value first = of(Opcode::mul, of(Opcode::div, place, band_size), width), here = of(Opcode::min, width, of(Opcode::sub, extents_[0], first));
    const Value in_band = of(Opcode::rem, place, band_size);
    along[0] = of(Opcode::add, first, of(Opcode::rem, in_band, here));
    along[1] = of(Opcode::div, in_band, here);
  }
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

/// Sizes and constants: nothing is gained by handing them over.
bool ResidentPrograms::is_at_hand(OperationId id) const {
  const Operation& operation = f_.operation(id);
  return operation.operands.empty() || operation.opcode == Opcode::view_size || operation.opcode == Opcode::view_stride || operation.opcode == Opcode::view_base;
}

bool ResidentPrograms::is_pointer(OperationId id) const { return f_.type(f_.operation(id).results[0]).is_pointer(); }

Value ResidentPrograms::scalar_ring(Order& order, int words, std::int64_t readers) {
  return emit_value(order, f_.body(), Opcode::alloc_shared, {}, Type::shared(ElementType::i32, {words}, programs_ahead),
                    {{AttributeName::barriers, std::int64_t{1}}, {AttributeName::readers, readers}});
}

std::vector<Value> ResidentPrograms::share(Order& order) {
  computed_.clear();
  pointers_.clear();
  auto in_slice = [&](OperationId id) { return std::find(slice_.begin(), slice_.end(), id) != slice_.end(); };
  // Each role computes pointers of its own from the scalars.
  std::vector<OperationId> pointers;
  for (auto id = slice_.rbegin(); id != slice_.rend(); ++id) {
    const std::vector<OperationId> all = users(f_.operation(*id).results[0]);
    auto is_outside = [&](OperationId user) { return !in_slice(user) || std::find(pointers.begin(), pointers.end(), user) != pointers.end(); };
    if (is_pointer(*id) && !is_at_hand(*id) && std::any_of(all.begin(), all.end(), is_outside)) pointers.insert(pointers.begin(), *id);
  }
  auto inside = [&](OperationId id) { return in_slice(id) && std::find(pointers.begin(), pointers.end(), id) == pointers.end(); };
  Renamed shared;
  int words = 1;
  for (OperationId id : slice_) {
    const Value value = f_.operation(id).results[0];
    const std::vector<OperationId> all = users(value);
    if (is_at_hand(id) || is_pointer(id) || std::all_of(all.begin(), all.end(), inside)) continue;
    computed_.push_back(value);
    words += bit_width(f_.type(value).element) > 32 ? 2 : 1;
    const Value here = f_.add_argument(consumer_.body, f_.type(value));
    consumer_.scalars.push_back(here);
    shared[value.index] = here;
    for (OperationId user : all) {
      if (!in_slice(user)) substitute(user, value, here);
    }
  }
  for (OperationId id : pointers) {   // those of the slice stay: they are computed for the program that comes next
    Operation operation = f_.operation(id);
    const Value value = std::exchange(operation.results, {})[0];
    for (Value& operand : operation.operands) operand = renamed(shared, operand);
    Order own;
    pointers_.push_back(emit(own, consumer_.body, std::move(operation), {f_.type(value)}));
    const Value here = f_.operation(pointers_.back()).results[0];
    insert_after(id, consumer_.body, own);
    shared[value.index] = here;
    for (OperationId user : users(value)) {
      if (!in_slice(user)) substitute(user, value, here);
    }
  }
  ring_ = scalar_ring(order, words, f_.num_warps + producer_warps);
  tickets_ = scalar_ring(order, 1, 1);
  return {ring_, tickets_};
}

ResidentPrograms::ProgramLoop ResidentPrograms::producer(Renamed& names) {
  ProgramLoop loop = make_loop();
  for (Value scalar : consumer_.scalars) {
    loop.scalars.push_back(f_.add_argument(loop.body, f_.type(scalar)));
    names[scalar.index] = loop.scalars.back();
  }
  Order simple, order;
  std::copy_if(slice_.begin(), slice_.end(), std::back_inserter(simple), [&](OperationId id) { return is_at_hand(id); });
  simple.insert(simple.end(), pointers_.begin(), pointers_.end());
  repeat(order, loop.body, simple, {}, names);
  f_.block(loop.body).operations = std::move(order);
  return loop;
}

/// Computes what is shared of a program and puts it into the ring.
void ResidentPrograms::hand_over(Order& order, BlockId block, Value turn, Value program) {
  Renamed names{{consumer_.program.index, program}};
  const Value exists = emit_value(order, block, Opcode::lt, {program, total_}, condition_type);
  repeat(order, block, slice_, exists, names);
  std::vector<Value> operands{ring_, turn, program};
  for (Value value : computed_) operands.push_back(renamed(names, value));
  emit(order, block, {Opcode::ring_put, std::move(operands), {}, {}, {}, location_}, {});
}

BlockId ResidentPrograms::nothing() {
  const BlockId block = f_.add_block();
  Order inner;
  emit(inner, block, {Opcode::yield, {}, {}, {}, {}, location_}, {});
  f_.block(block).operations = std::move(inner);
  return block;
}

/// `inner` in the block `filled` fills the turn.
void ResidentPrograms::refill(Order& order, BlockId block, Value ring, Value turn, BlockId filled, Order inner, std::int64_t warp) {
  emit(inner, filled, {Opcode::yield, {}, {}, {}, {}, location_}, {});
  f_.block(filled).operations = std::move(inner);
  emit(order, block, {Opcode::ring_refill, {ring, turn}, {}, {filled}, {{AttributeName::warp, warp}}, location_}, {});
}

void ResidentPrograms::take(Order& order, BlockId block, const ProgramLoop& producer, std::int64_t warp) {
  const BlockId filled = f_.add_block();
  Order inner;
  const Value taken = emit_value(inner, filled, Opcode::take_program, {}, number_type);
  emit(inner, filled, {Opcode::ring_put, {tickets_, producer.round, taken}, {}, {}, {}, location_}, {});
  refill(order, block, tickets_, producer.round, filled, std::move(inner), warp);
}

Value ResidentPrograms::get_ticket(Order& order, BlockId block, Value turn) {
  emit(order, block, {Opcode::ring_wait, {tickets_, turn}, {}, {}, {}, location_}, {});
  const OperationId get = emit(order, block, {Opcode::ring_get, {tickets_, turn}, {}, {}, {}, location_}, {number_type});
  emit(order, block, {Opcode::ring_release, {tickets_, turn}, {}, {nothing()}, {}, location_}, {});
  return f_.operation(get).results[0];
}

/// The program and its scalars.
std::vector<Value> ResidentPrograms::receive(Order& order, BlockId block, Value turn) {
  emit(order, block, {Opcode::ring_wait, {ring_, turn}, {}, {}, {}, location_}, {});
  std::vector<Type> types{number_type};
  for (Value value : computed_) types.push_back(f_.type(value));
  const OperationId get = emit(order, block, {Opcode::ring_get, {ring_, turn}, {}, {}, {}, location_}, types);
  emit(order, block, {Opcode::ring_release, {ring_, turn}, {}, {nothing()}, {}, location_}, {});
  return f_.operation(get).results;
}

/// What the loop carries into its next program.
std::vector<Value> ResidentPrograms::next(Order& order, const ProgramLoop& loop, Value turns) {
  const Value round = arithmetic(order, loop.body, Opcode::add, loop.round, number(order, loop.body, 1));
  std::vector<Value> values = receive(order, loop.body, round);
  const Value base = arithmetic(order, loop.body, Opcode::add, loop.base, turns);
  values.insert(values.begin() + 1, {round, base});
  return values;
}

/// `order` fills the ring, where that is this role's task.
void ResidentPrograms::loop_over(BlockId role, Order order, const ProgramLoop& loop) {
  const Value zero = number(order, role, 0);
  std::vector<Value> initial = receive(order, role, zero);
  initial.insert(initial.begin() + 1, {zero, zero});
  const BlockId test = f_.add_block();
  std::vector<Value> carried;
  std::vector<Type> types;
  for (Value value : initial) {
    types.push_back(f_.type(value));
    carried.push_back(f_.add_argument(test, types.back()));
  }
  Order tested;
  const Value goes_on = emit_value(tested, test, Opcode::lt, {carried[0], total_}, condition_type);
  carried.insert(carried.begin(), goes_on);
  emit(tested, test, {Opcode::condition, std::move(carried), {}, {}, {}, location_}, {});
  f_.block(test).operations = std::move(tested);
  emit(order, role, {Opcode::while_, std::move(initial), {}, {test, loop.body}, {{AttributeName::programs, std::int64_t{1}}}, location_}, types);
  emit(order, role, {Opcode::yield, {}, {}, {}, {}, location_}, {});
  f_.block(role).operations = std::move(order);
}

void ResidentPrograms::close(Order before, const ProgramLoop& producer, Value producer_turns, OperationId work, Order turns, Value consumer_turns) {
  constexpr std::int64_t warp = producer_warps - 1;
  Order end, handed;
  const Value next_round = arithmetic(end, producer.body, Opcode::add, producer.round, number(end, producer.body, 1));
  const BlockId filled = f_.add_block();
  const Value ticket = get_ticket(handed, filled, producer.round);
  hand_over(handed, filled, next_round, ticket);
  refill(end, producer.body, ring_, next_round, filled, std::move(handed), warp);
  std::vector<Value> values = next(end, producer, producer_turns);
  emit(end, producer.body, {Opcode::yield, std::move(values), {}, {}, {}, location_}, {});
  auto& produced = f_.block(producer.body).operations;
  produced.insert(produced.end(), end.begin(), end.end());

  values = next(turns, consumer_, consumer_turns);
  insert_after(work, consumer_.body, turns);
  Order last;
  emit(last, consumer_.body, {Opcode::yield, std::move(values), {}, {}, {}, location_}, {});
  f_.block(consumer_.body).operations.push_back(last.front());

  const BlockId first = f_.add_block(), second = f_.add_block(), at_first = f_.add_block();
  Order start, inner;
  const Value zero = number(start, first, 0);
  hand_over(inner, at_first, zero, worker_);
  refill(start, first, ring_, zero, at_first, std::move(inner), warp);
  loop_over(first, std::move(start), producer);
  loop_over(second, {}, consumer_);
  for (auto id = slice_.rbegin(); id != slice_.rend(); ++id) {
    if (users(f_.operation(*id).results[0]).empty()) remove(*id);
  }

  emit(before, f_.body(), {Opcode::roles, {}, {}, {first, second}, {{AttributeName::registers, register_budgets(f_)}}, location_}, {});
  outside_.insert(outside_.end(), before.begin(), before.end());
  auto& operations = f_.block(f_.body()).operations;   // what is left of it returns
  operations.insert(operations.begin(), outside_.begin(), outside_.end());
}

}  // namespace flextile::backend
