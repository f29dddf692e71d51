// The rules for threads and cp.async, and what all rules are made of: who may read bytes, who may write them.
#include "nvptx/synchronisation_rules.hpp"

#include <algorithm>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed touches no shared memory, or only its scratch space

namespace flextile::backend {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

Affine SynchronisationRules::now(const Affine& number) {
  Affine result = number;
  for (const auto& [atom, value] : iteration_) result = numbers_.replaced(result, atom, value);
  return result;
}

Affine SynchronisationRules::now(Value value) { return now(numbers_.of(value)); }

Access SynchronisationRules::stage_of(Value buffer, Value stage, OperationId by) {
  Access access = whole(buffer, by);
  if (access.stages == 1) {
    access.any_stage = numbers_.of(stage) != Affine{};   // there is no other
    return access;
  }
  access.turn = numbers_.of(stage);
  access.any_stage = !access.turn.is_number() && !remainder_of(stage, access.stages);
  if (!access.any_stage) access.turn = now(remainder_taken(access.turn, access.stages));
  else access.turn = {};
  return access;
}

/// What the value is the remainder of by `modulus`; null where it is none.
const Value* SynchronisationRules::remainder_of(Value value, std::int64_t modulus) {
  const Operation* rem = f_.defining(value);
  return rem && rem->opcode == Opcode::rem && numbers_.of(rem->operands[1]) == Affine::number(modulus) ? &rem->operands[0] : nullptr;
}

/// A number with the same remainder, in which no remainder stands.
Affine SynchronisationRules::remainder_taken(Affine number, std::int64_t modulus) {
  for (std::size_t i = 0; i < number.terms.size(); ++i) {
    const Atom atom = number.terms[i].first;
    const Value* dividend = atom < f_.value_count() ? remainder_of(Value{atom}, modulus) : nullptr;
    if (dividend) return remainder_taken(number.with(atom, numbers_.of(*dividend)), modulus);
  }
  return number;
}

bool SynchronisationRules::has_landed(const State& state, const Ring& ring) {
  if (ring.produced) return false;
  if (numbers_.equal(state.facts, ring.filled, ring.waited)) return true;
  return ring.bounded && numbers_.proves(state.facts, Affine::number(1) - numbers_.under(state.facts, ring.bound - ring.waited * ring.slope));
}

/// A thread, or the copy engine, writes the bytes: nobody is at them. Ends what they held.
void SynchronisationRules::write(OperationId id, State& state, const Access& access, bool past_barrier) {
  const std::string writes = "writes " + place(access);
  auto is_ordered = [&](const Access& other) {
    return past_barrier || (access.own_rows && other.own_rows && other.buffer == access.buffer && other.reach == Reach::warpgroup);
  };
  for (const Access& other : state.reads) {
    if (!is_ordered(other) && overlap(other, access)) fail(id, writes + ", which " + name(other.by) + " may still be reading in another thread: no barrier stands between them");
  }
  for (const Access& other : state.writes) {
    if (!is_ordered(other) && overlap(other, access)) fail(id, writes + ", which " + name(other.by) + " may still be writing in another thread: no barrier stands between them");
  }
  for (const Copy& copy : state.copies) {
    if (overlap(copy.to, access)) fail(id, writes + " while the copy of " + name(copy.to.by) + " may be in flight: no async_wait covers it");
  }
  for (const Product& product : state.products) {
    for (const Access& read : product.reads) {
      if (overlap(read, access)) fail(id, writes + ", which " + name(product.dot) + " in flight still reads: no product_wait covers it");
    }
  }
  for (const Storing& store : state.storing) {
    if (overlap(store.from, access)) fail(id, writes + ", which " + name(store.from.by) + " may still be reading for the copy engine: no bulk_wait covers it");
  }
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = state.rings[i];
    Access bytes = whole(rings_[i], {});
    bytes.end = barriers_of(rings_[i], {}).end;
    if (!ring.running || rings_[i] == access.buffer || !overlap(Access{{}, {}, bytes.first, bytes.end}, access)) continue;
    if (!has_landed(state, ring)) fail(id, writes + " while the copy of " + turn_of(ring.waited, rings_[i]) + " may be in flight: no ring_wait covers it");
    ring = {};
  }
  std::erase_if(state.filled, [&](const Copy& copy) { return overlap(copy.to, access); });
  std::erase_if(state.outgoing, [&](const Access& other) { return overlap(other, access); });
}

/// A thread, or a product of its warpgroup, reads the bytes: they are there, and everybody sees them.
void SynchronisationRules::read(OperationId id, State& state, Access& access, Value stage) {
  const std::string reads = "reads " + place(access);
  for (const Access& other : state.writes) {
    if (overlap(other, access)) fail(id, reads + ", which " + name(other.by) + " may still be writing in another thread: no barrier stands between them");
  }
  for (const Copy& copy : state.copies) {
    if (overlap(copy.to, access)) fail(id, reads + " while the copy of " + name(copy.to.by) + " may be in flight: no async_wait covers it");
  }
  if (!access.buffer) return;
  if (is_ring(access.buffer)) return find_turn(id, reads, state, access, stage);
  const Copy* found = nullptr;
  for (const Copy& copy : state.filled) {
    if (covers(copy.to, access)) found = &copy;
  }
  if (!found) fail(id, reads + ", which nothing has filled");
  if (found->guarded && !numbers_.proves(state.facts, found->guard)) {
    fail(id, reads + ", which " + name(found->to.by) + " fills only where " + numbers_.text(found->guard) + " is above 0");
  }
}

/// Which of the turns that may be read the stage holds.
void SynchronisationRules::find_turn(OperationId id, const std::string& does, const State& state, Access& access, Value stage) const {
  const Ring& ring = ring_of(state, access.buffer);
  if (!ring.running) fail(id, does + " before ring_start");
  const std::int64_t ahead = access.any_stage ? -1 : Numbers::distance(access.turn, ring.released, access.stages);
  if (ahead < 0) fail(id, does + " (" + name(stage) + "): which turn's stage that is cannot be told");
  const Affine turn = ring.released + ahead;
  if (!numbers_.proves(state.facts, ring.waited - turn)) {
    fail(id, does + ", not ordered after the copy: turns below " + numbers_.text(ring.waited) + " are waited for, and those below " + numbers_.text(ring.released) +
                 " are released");
  }
  access.turn = turn;
  access.any_stage = false;
}

/// What was read of a ring while it runs is the release's to order; who takes the bytes over waits at a barrier.
void SynchronisationRules::add_read(State& state, Access access) const {
  if (access.buffer && is_ring(access.buffer)) {
    const Access all = whole(access.buffer, access.by);
    access.any_stage = all.any_stage;
    access.turn = {};
  }
  state.add(state.reads, access);
}

// ---- threads

void SynchronisationRules::barrier(OperationId id, State& state) {
  if (alone_) fail(id, "is a barrier of all threads in a block that one thread runs (" + name(alone_) + ")");
  if (role_ == Role::producer) fail(id, "is a barrier of all threads in the producer's role");
  if (state.turns == Turns::ours) fail(id, "is a barrier of all threads while a warpgroup holds the turn: the others wait for the turn, not at the barrier");
  state.reads.clear();
  state.writes.clear();
  state.closing = false;
}

void SynchronisationRules::visit(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  if (operation.attributes.integer(AttributeName::barrier_before) != 0) barrier(id, state);
  const bool produces = operation.opcode == Opcode::ring_refill || operation.opcode == Opcode::ring_wait || operation.opcode == Opcode::ring_release || operation.opcode == Opcode::ring_get;
  if (role_ == Role::producer && !produces) fail(id, "stands in the producer's role, which touches rings alone");
  switch (operation.opcode) {
    case Opcode::alloc_shared: return visit_alloc(id, state);
    case Opcode::shared_load: {
      Access access = stage_of(operation.operands[0], operation.operands[1], id);
      access.own_rows = reads_own_rows(id);
      read(id, state, access, operation.operands[1]);
      return add_read(state, access);
    }
    case Opcode::shared_store: {
      const Access access = stage_of(operation.operands[0], operation.operands[1], id);
      if (is_ring(operation.operands[0])) fail(id, "writes " + place(access) + ", a ring that the copy engine fills");
      write(id, state, access);
      if (!access.any_stage) state.filled.push_back({access, false, {}, 0});
      return state.add(state.writes, access);
    }
    case Opcode::async_copy: return visit_async_copy(id, state);
    case Opcode::async_wait: return visit_async_wait(id, state);
    case Opcode::barrier: return barrier(id, state);
    case Opcode::ring_start: return visit_ring_start(id, state);
    case Opcode::ring_wait: return visit_ring_wait(id, state);
    case Opcode::ring_release: return visit_ring_release(id, state);
    case Opcode::ring_refill: return visit_ring_refill(id, state);
    case Opcode::ring_get: return visit_ring_get(id, state);
    case Opcode::ring_put: fail(id, "puts scalars where every thread would do so: only ring_refill runs its block in one thread");
    case Opcode::take_program: fail(id, "takes a program where every thread would do so: only ring_refill runs its block in one thread");
    case Opcode::bulk_copy: fail(id, "starts a copy where every thread would do so: only ring_start and ring_release run their blocks in one thread");
    case Opcode::matrix_store: return visit_matrix_store(id, state);
    case Opcode::proxy_fence:
      for (Access& written : state.outgoing) written.reach = std::max(written.reach, Reach::fenced);
      return;
    case Opcode::warpgroup_barrier: return visit_warpgroup_barrier(id, state);
    case Opcode::bulk_store: return visit_bulk_store(id, state);
    case Opcode::bulk_wait: return finish_stores(state, operation.attributes.integer(AttributeName::pending));
    case Opcode::product_wait: return visit_product_wait(id, state);
    case Opcode::turn: return visit_turn(id, state);
    case Opcode::dot: return visit_dot(id, state);
    case Opcode::roles: fail(id, "stands in a role, or where one thread runs");
    case Opcode::atomic:
    case Opcode::atomic_cas: {
      const std::string_view order = operation.attributes.string(AttributeName::order);
      if (order == "release" || order == "acq_rel") barrier(id, state);
      const bool shares = visit_scratch(id, state);
      if (!shares && (order == "acquire" || order == "acq_rel")) barrier(id, state);
      return;
    }
    default: visit_scratch(id, state);
  }
}

/// Written, shared at a barrier of its own, and read.
bool SynchronisationRules::visit_scratch(OperationId id, State& state) {
  const std::int64_t bytes = scratch_of(id);
  if (bytes == 0) return false;
  const std::int64_t first = f_.operation(id).attributes.integer(AttributeName::offset);
  const Access access{id, {}, first, first + bytes, 1, true, {}};
  write(id, state, access);
  barrier(id, state);
  state.add(state.reads, access);
  return true;
}

void SynchronisationRules::visit_alloc(OperationId id, State& state) const {
  const Value buffer = f_.operation(id).results[0];
  std::erase_if(state.filled, [&](const Copy& copy) { return copy.to.buffer == buffer; });
  if (is_ring(buffer) && ring_of(state, buffer).running) fail(id, "allocates " + name(buffer) + " again while it is a ring in use");
}

// ---- cp.async

void SynchronisationRules::visit_async_copy(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  const Access access = stage_of(operation.operands[0], operation.operands[1], id);
  if (alone_ || is_ring(operation.operands[0])) fail(id, "fills " + place(access) + ": that is the copy engine's");
  Copy copy{access, false, {}, 0};
  if (operation.attributes.integer(AttributeName::has_predicate) != 0) {
    const Facts holds = numbers_.when(operation.operands.back(), true);
    if (holds.size() == 1) copy.guarded = true, copy.guard = now(holds[0]);
  }
  write(id, state, access);
  for (Copy& other : state.copies) ++other.newer;
  state.add(copy);
  const bool understood = copy.guarded || operation.attributes.integer(AttributeName::has_predicate) == 0;
  if (understood && !access.any_stage) state.filled.push_back(copy);
}

void SynchronisationRules::visit_async_wait(OperationId id, State& state) {
  const std::int64_t pending = f_.operation(id).attributes.integer(AttributeName::pending);
  for (const Copy& copy : state.copies) {
    if (copy.newer >= pending) state.add(state.writes, copy.to);
  }
  std::erase_if(state.copies, [&](const Copy& copy) { return copy.newer >= pending; });
}

}  // namespace flextile::backend
