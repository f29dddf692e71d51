// Roles in the walk of check_synchronisation, and their loops over programs.
#include <algorithm>

#include "nvptx/synchronisation_walk.hpp"

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

SynchronisationWalk::States SynchronisationWalk::visit_roles(OperationId id, const State& before) {
  const Operation& operation = f_.operation(id);
  if (operation.blocks.size() != 2 || before.turns != Turns::closed || !before.products.empty() || !before.copies.empty()) fail(id, "begins while copies, products or turns are under way");
  role_ = Role::producer;
  programs_ = {};
  block(operation.blocks[0], {before});
  const Programs producer = std::exchange(programs_, {});
  role_ = Role::consumer;
  State inside = before;
  for (Ring& ring : inside.rings) ring.produced = ring.running;
  States after = block(operation.blocks[1], {inside});
  const Programs consumer = std::exchange(programs_, {});
  role_ = Role::all;
  if (!producer.loop || !consumer.loop) fail(id, "has a role without a loop over programs");
  check_same_programs(producer, consumer);
  check_programs_are_taken(producer.loop);
  return after;
}

/// The number that a program's loop carries into its next round.
Affine SynchronisationWalk::of_next(const Operation& loop, Atom carried) {
  const auto& arguments = f_.block(loop.blocks[1]).arguments;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].index == carried) return numbers_.of(f_.operation(f_.block(loop.blocks[1]).operations.back()).operands[i]);
  }
  return {};
}

/// Such operations on the ring, in the block and deeper; but in what one of the producer's warps does alone only puts.
void SynchronisationWalk::collect(BlockId block, Value buffer, Opcode opcode, std::vector<const Operation*>& uses) const {
  for (OperationId id : f_.block(block).operations) {
    const Operation& operation = f_.operation(id);
    if (operation.opcode == opcode && operation.operands[0] == buffer) uses.push_back(&operation);
    if (operation.opcode == Opcode::ring_refill && opcode != Opcode::ring_put) continue;
    for (BlockId inner : operation.blocks) collect(inner, buffer, opcode, uses);
  }
}

const Operation* SynchronisationWalk::first_use(BlockId block, Value buffer, Opcode opcode) const {
  std::vector<const Operation*> uses;
  collect(block, buffer, opcode, uses);
  return uses.empty() ? nullptr : uses.front();
}

/// At which turn of each ring a program begins: a number that the loop carries, and as many turns more as the ring is ahead of it in
/// front of the loop. `head`: there; the rings are given that name.
SynchronisationWalk::Programs SynchronisationWalk::plan_programs(OperationId id, State& head) {
  const Operation& loop = f_.operation(id);
  const auto& arguments = f_.block(loop.blocks[1]).arguments;
  const bool fills = role_ == Role::producer;
  Programs programs{id, std::vector<Affine>(rings_.size()), std::vector<Affine>(rings_.size()), std::vector<std::int64_t>(rings_.size())};
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = head.rings[i];
    const Operation* use = first_use(loop.blocks[1], rings_[i], fills ? Opcode::ring_refill : Opcode::ring_wait);
    if (!ring.running || !use) continue;
    const Affine turn = numbers_.of(use->operands[1]), before = fills ? ring.filled : ring.waited;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const bool counts = std::any_of(turn.terms.begin(), turn.terms.end(), [&](const auto& term) { return term.first == arguments[k].index; });
      const Affine ahead = before - numbers_.of(loop.operands[k]);
      if (!counts || !ahead.is_number()) continue;
      programs.ahead[i] = ahead.constant;
      programs.starts[i] = Affine::of(arguments[k].index) + ahead.constant;
      programs.nexts[i] = of_next(loop, arguments[k].index) + ahead.constant;
    }
    if (readers_of(rings_[i]) == Readers::unknown) fail(id, "fills " + turn_of({}, rings_[i]) + ", which neither role, nor one warp, reads");
    if (programs.starts[i] == Affine{}) fail(id, "does not carry which turn of " + name(rings_[i]) + " comes next");
    const bool reads = !fills || is_of_scalars(rings_[i]);
    if (reads && (ring.waited != before || ring.released != before)) {
      fail(id, "begins with " + turn_of(before, rings_[i]) + ", but turns below " + numbers_.text(ring.waited) + " are waited for and those below " + numbers_.text(ring.released) + " released");
    }
    ring.filled = ring.waited = ring.released = programs.starts[i];
  }
  return programs;
}

/// A role's loop over programs. It carries at which turn of a ring a program begins, and that is what stays the same from program
/// to program: all turns before are filled, or waited for and released.
SynchronisationWalk::States SynchronisationWalk::visit_programs(OperationId id, const State& before) {
  const Operation& loop = f_.operation(id);
  if (programs_.loop == id) fail(id, "is come to on paths that leave rings at different turns");
  if (role_ == Role::all || loop.opcode != Opcode::while_ || programs_.loop) fail(id, "is a loop over programs that stands in no role, or is not the only one there");
  State head = before;
  const Programs programs = plan_programs(id, head);
  for (int round = 0; round < most_widenings; ++round) {
    head.facts = before.facts;
    head.forget_stages();
    ends_ = programs.nexts;
    States after = block(loop.blocks[1], {head});
    ends_.clear();
    for (State& state : after) begin_next(programs, state);
    unite(after, id);
    if (after.size() != 1) fail(id, "goes through a program on paths that leave " + difference(after[0], after[1]));
    if (!head.same_rings(after[0])) fail(id, "goes on from program to program with " + difference(head, after[0]));
    const bool steady = head.includes(after[0]);
    head.merge(after[0]);
    if (!steady) continue;
    head.facts = before.facts;
    programs_ = programs;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (programs.starts[i] != Affine{} || head.rings[i].produced) head.rings[i] = {};   // as many turns were waited for as were filled: check_same_programs
    }
    return {head};
  }
  fail(id, "leaves something else in flight after each program: no wait covers it");
}

/// The end of a program, where the next one begins: what the rings' turns are called there.
void SynchronisationWalk::begin_next(const Programs& programs, State& state) {
  const bool fills = role_ == Role::producer;
  for (const Access& written : state.outgoing) fail(programs.loop, "goes on with " + place(written) + ", which " + name(written.by) + " wrote and no bulk_store has stored");
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = state.rings[i];
    if (!ring.running || programs.starts[i] == Affine{}) continue;
    const bool reads = !fills || is_of_scalars(rings_[i]);
    const std::string next = "goes on with " + turn_of(programs.nexts[i], rings_[i]) + ", but ";
    auto is_next = [&](const Affine& number) { return numbers_.equal(state.facts, number, programs.nexts[i]); };
    if (fills && !is_next(ring.filled)) fail(programs.loop, next + "turns below " + numbers_.text(ring.filled) + " are filled");
    if (reads && !is_next(ring.waited)) fail(programs.loop, next + "turns below " + numbers_.text(ring.waited) + " are waited for");
    if (reads && !is_next(ring.released)) fail(programs.loop, next + "turns below " + numbers_.text(ring.released) + " are released");
    ring.filled = ring.waited = ring.released = programs.starts[i];
  }
  state.facts = {};
  leave_iteration(programs.loop, state);
}

/// Both roles go over the same programs, in the same order, and agree on the turns that each of them takes. Consumers may carry more,
/// behind that: nobody else's business.
void SynchronisationWalk::check_same_programs(const Programs& producer, const Programs& consumer) {
  const Operation &one = f_.operation(producer.loop), &other = f_.operation(consumer.loop);
  Same same;
  bool agree = one.operands.size() <= other.operands.size();
  for (std::size_t i = 0; agree && i < one.operands.size(); ++i) agree = is_same(same, one.operands[i], other.operands[i]);
  for (std::size_t block : {0, 1}) {
    const auto &a = f_.block(one.blocks[block]), &b = f_.block(other.blocks[block]);
    for (std::size_t i = 0; agree && i < a.arguments.size(); ++i) same[{a.arguments[i].index, b.arguments[i].index}] = true;
    const auto &mine = f_.operation(a.operations.back()).operands, &theirs = f_.operation(b.operations.back()).operands;
    agree = agree && mine.size() <= theirs.size();
    for (std::size_t i = 0; agree && i < mine.size(); ++i) agree = is_same(same, mine[i], theirs[i]);
  }
  if (!agree) fail(consumer.loop, "takes other programs than " + name(producer.loop) + ", the producer's loop, or other turns: what they carry is not computed alike");
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const Value buffer = rings_[i];
    const Operation *fill = first_use(one.blocks[1], buffer, Opcode::ring_refill), *wait = first_use(other.blocks[1], buffer, Opcode::ring_wait);
    if (readers_of(buffer) == Readers::one_producer) continue;   // nothing of the consumers'
    if (fill && !wait) fail(consumer.loop, "never waits for " + turn_of({}, buffer) + ", which the producer fills");
    if (wait && !fill) fail(producer.loop, "never fills " + turn_of({}, buffer) + ", which the consumers wait for");
    const bool alike = !fill || (carried_in(one, fill->operands[1]) == carried_in(other, wait->operands[1]) && producer.ahead[i] == consumer.ahead[i]);
    if (!alike) fail(consumer.loop, "counts the turns of " + name(buffer) + " otherwise than the producer");
  }
}

/// The number that says whether there is a program was taken for it.
void SynchronisationWalk::check_programs_are_taken(OperationId id) const {
  const Operation& loop = f_.operation(id);
  const Operation* test = f_.defining(f_.operation(f_.block(loop.blocks[0]).operations.back()).operands[0]);
  const auto& tested = f_.block(loop.blocks[0]).arguments;
  const auto at = test && test->opcode == Opcode::lt ? std::find(tested.begin(), tested.end(), test->operands[0]) : tested.end();
  if (at == tested.end()) fail(id, "goes on where something else than a program's number is in the grid");
  const Value next = f_.operation(f_.block(loop.blocks[1]).operations.back()).operands[static_cast<std::size_t>(at - tested.begin())];
  if (!is_taken(loop.blocks[1], next)) fail(id, "goes on with " + name(next) + ", which no take_program gave");
}

/// By a take_program, whatever rings it went through.
bool SynchronisationWalk::is_taken(BlockId body, Value number) const {
  const Operation* from = f_.defining(number);
  if (from && from->opcode == Opcode::take_program) return true;
  if (!from || from->opcode != Opcode::ring_get) return false;
  std::vector<const Operation*> puts;
  collect(body, from->operands[0], Opcode::ring_put, puts);
  return !puts.empty() && std::all_of(puts.begin(), puts.end(), [&](const Operation* put) { return is_taken(body, put->operands[2 + f_.definition(number).position]); });
}

/// Which of the loop's carried numbers the turn begins at.
std::size_t SynchronisationWalk::carried_in(const Operation& loop, Value turn) {
  const auto& arguments = f_.block(loop.blocks[1]).arguments;
  const Affine number = numbers_.of(turn);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (std::any_of(number.terms.begin(), number.terms.end(), [&](const auto& term) { return term.first == arguments[i].index; })) return i;
  }
  return arguments.size();
}

/// Computed by the same operations from the same values, or handed over in the same turn of a ring. Memory that they read is written
/// by nobody.
bool SynchronisationWalk::is_same(Same& same, Value a, Value b) const {
  if (a == b) return true;
  if (const auto known = same.find({a.index, b.index}); known != same.end()) return known->second;
  const Operation *one = f_.defining(a), *other = f_.defining(b);
  bool result = one && other && one->opcode == other->opcode && one->blocks.empty() && one->operands.size() == other->operands.size() && f_.type(a) == f_.type(b) &&
                f_.definition(a).position == f_.definition(b).position;
  if (result) {
    ir::Attributes mine = one->attributes, theirs = other->attributes;
    mine.erase(AttributeName::barrier_before), theirs.erase(AttributeName::barrier_before);
    result = mine == theirs;
  }
  for (std::size_t i = 0; result && i < one->operands.size(); ++i) result = is_same(same, one->operands[i], other->operands[i]);
  return same[{a.index, b.index}] = result;
}

}  // namespace flextile::backend
