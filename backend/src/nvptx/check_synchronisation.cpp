// Proves that a scheduled kernel's threads, copies and products do not disturb each other in shared memory. It runs last, on
// every kernel for a GPU, and shares no reasoning with the passes that put the barriers, rings and waits in: what those get
// wrong is an internal error here, never a wrong number.
//
// One walk over the structured IR carries a State: what may still be going on, and what has surely happened. Of a loop it
// looks at the first iterations one by one, until two states in a row differ by the same step in each of their numbers (a
// turn, mostly by 1); a last walk with the loop's counter n left open proves that step for every later iteration. So all
// turns are sums in n, and a loop that runs 0, 1, 2 or many times, peeled or a turn late, is one case each.
//
// The rules, by who acts:
//
//   threads       What one thread wrote another may read, and what one read another may overwrite, only past a barrier.
//   (shared_*, scratch space, barrier)
//   cp.async      A copy writes from its start until an async_wait leaves fewer newer ones pending; then its bytes are a
//   (async_*)     thread's own writes, and a barrier makes them everybody's. Nobody touches them before. What is read was
//                 filled, where the copy's predicate holds.
//   copy engine   A ring's turns come in order: started, waited for, read, released; each once, on every path. ring_start
//   (ring_*,      starts the first ones; the release of a turn, and nothing else, starts the turn `stages` later, into the
//    bulk_copy)   same stage. A wait is for a turn that is started and exists: the predicate of its copy follows from what
//                 is known where the wait stands. A stage is read between wait and release.
//   roles         A producer fills rings, in the order of their turns; consumers wait for them and release them. Scalars that are
//   (roles,       put into a ring are waited for, read and released by both. Both roles go over the same programs: their loops
//    ring_refill, carry the same numbers (the same scalars of the same turn, or computed alike from them), and each program takes
//    ring_put,    a ring as many turns further in one role as in the other. Each program takes one other, once.
//    ring_get)    What one warp puts for another of the producer stays between those two. A branch that a loop takes where its
//                 index is a number from before it is taken once, if that number is one of the loop's. Consumers ask for the
//                 next program when they have released all that this one reads: the producer takes it behind fetches that wait
//                 for those releases.
//   products      wgmma read their operands from their start until a product_wait leaves fewer newer batches pending. Until
//   (dot {async}, then no byte that they read is written or released, no register that they read takes another value, and
//    product_wait) their sums go nowhere but into a wait, a loop's next iteration or the next product.
//   bulk stores   A warpgroup's threads write rows of their own, where nobody else is: past a barrier of all threads, or of the
//   (matrix_store, warpgroup where only its own rows of the same buffer were read (a product's left operand) or stored. The copy
//    proxy_fence, engine reads what each thread has written, fenced, and then met the others at the warpgroup's barrier. Until a
//    bulk_*)      bulk_wait leaves fewer newer stores pending nobody writes the bytes, and a ring's stage is not released.
//   turns         Opened, then taken and passed any number of times, then closed; opened again only behind a barrier of all
//   (turn)        threads. Who holds the turn waits for nobody who waits for it: at no barrier of all threads, and for no copy
//                 that needs another's release of this turn.
//
// At the end of the kernel nothing is under way. Bytes are told apart by their offsets alone, so buffers and scratch space
// that share bytes meet the same rules; a ring gives its bytes up once all that was started has landed.
//
// The fences and phases of the instructions that these operations become are not seen here: tests/support/ptx_litmus.hpp
// looks for them in the PTX.
#include "nvptx/check_synchronisation.hpp"

#include <algorithm>

#include "nvptx/synchronisation_walk.hpp"

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {
constexpr std::size_t most_paths = 16;       // whose rings are at different turns
}

void SynchronisationWalk::run() {
  State start;
  start.rings.resize(rings_.size());
  for (State& state : block(f_.body(), {start})) finish(state);
}

/// States whose rings are at the same turns become one.
void SynchronisationWalk::unite(States& states, OperationId at) const {
  States united;
  for (State& state : states) {
    const auto same = std::find_if(united.begin(), united.end(), [&](const State& other) { return other.same_rings(state); });
    if (same == united.end()) united.push_back(std::move(state));
    else same->merge(state);
  }
  states = std::move(united);
  if (states.size() > most_paths) fail(at, "leaves rings at different turns on " + std::to_string(states.size()) + " paths");
}

/// Rings that are not used again, and have landed; copies whose predicate does not hold; stages that are not read again.
/// `last`: the operation that was walked last.
void SynchronisationWalk::forget_finished(State& state, OperationId last) {
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    if (state.rings[i].running && !is_used_after(rings_[i], last) && has_landed(state, state.rings[i])) state.rings[i] = {};
  }
  forget_idle(state);
  std::erase_if(state.filled, [&](const Copy& copy) { return !is_used_after(copy.to.buffer, last); });
}
void SynchronisationWalk::forget_idle(State& state) const {
  std::erase_if(state.copies, [&](const Copy& copy) { return copy.guarded && numbers_.proves(state.facts, Affine::number(1) - copy.guard); });
}

SynchronisationWalk::States SynchronisationWalk::block(BlockId id, States states) {
  for (OperationId each : f_.block(id).operations) {
    const Operation& operation = f_.operation(each);
    for (const State& state : states) {
      if (!state.products.empty()) check_registers(each, state);
    }
    if (!matters(each) || is_once_[each.index]) continue;
    const bool branches = operation.opcode == Opcode::if_ || operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || (operation.opcode == Opcode::roles && role_ == Role::all);
    if (!branches) {
      for (State& state : states) visit(each, state);
      continue;
    }
    States after;
    for (State& state : states) {
      if (operation.attributes.integer(AttributeName::barrier_before) != 0) barrier(each, state);
      for (State& left : branch(each, state)) after.push_back(std::move(left));
    }
    for (State& state : after) forget_finished(state, each);
    states = std::move(after);
    unite(states, each);
  }
  return states;
}

SynchronisationWalk::States SynchronisationWalk::branch(OperationId id, const State& state) {
  const Operation& operation = f_.operation(id);
  if (operation.opcode == Opcode::if_) return visit_if(id, state);
  if (operation.opcode == Opcode::roles) return visit_roles(id, state);
  return operation.attributes.integer(AttributeName::programs) != 0 ? visit_programs(id, state) : visit_loop(id, state);
}

/// One of `more` cannot be above 0 where the facts hold.
bool SynchronisationWalk::contradicts(const Facts& facts, const Facts& more) const {
  return std::any_of(more.begin(), more.end(), [&](const Affine& fact) { return numbers_.proves(facts, Affine::number(1) - fact); });
}

SynchronisationWalk::States SynchronisationWalk::visit_if(OperationId id, const State& before) {
  const Operation& operation = f_.operation(id);
  States after;
  for (std::size_t i = 0; i < 2; ++i) {
    State inside = before;
    Facts side = numbers_.when(operation.operands[0], i == 0);
    for (Affine& fact : side) fact = now(fact);
    const Operation* test = f_.defining(operation.operands[0]);
    const bool equal = i == 1 && test && test->opcode == Opcode::eq && numbers_.equal(before.facts, now(test->operands[0]), now(test->operands[1]));
    if ((equal || contradicts(before.facts, side)) && (i == 0 || !after.empty())) continue;   // one of them is walked, in dead code too
    for (const Affine& fact : side) {
      if (!fact.is_number()) inside.facts.push_back(fact);
    }
    if (i >= operation.blocks.size()) {
      after.push_back(std::move(inside));
      continue;
    }
    for (State& state : block(operation.blocks[i], {inside})) after.push_back(std::move(state));
  }
  return after;
}

/// Nothing is under way.
void SynchronisationWalk::finish(State& state) {
  const OperationId end = f_.block(f_.body()).operations.back();
  forget_finished(state, end);
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    if (state.rings[i].running) fail(end, "ends the kernel while the copy of " + turn_of(state.rings[i].waited, rings_[i]) + " may be in flight: no ring_wait covers it");
  }
  for (const Copy& copy : state.copies) fail(end, "ends the kernel while the copy of " + name(copy.to.by) + " into " + place(copy.to) + " may be in flight: no async_wait covers it");
  for (const Product& product : state.products) fail(end, "ends the kernel while " + name(product.dot) + " is in flight: no product_wait covers it");
  for (const Storing& store : state.storing) fail(end, "ends the kernel while " + name(store.from.by) + " may still be reading " + place(store.from) + " for the copy engine: no bulk_wait covers it");
  for (const Access& written : state.outgoing) fail(end, "ends the kernel with " + place(written) + ", which " + name(written.by) + " wrote and no bulk_store has stored");
  if (state.turns != Turns::closed) fail(end, "ends the kernel while turns to start products are open: close comes once, on every path");
}

ir::Function check_synchronisation(const ir::Function& function, const Target&) {
  SynchronisationWalk(function).run();
  return function;
}

}  // namespace flextile::backend
