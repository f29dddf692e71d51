// The rules for what a producer's warps do alone, and for what roles hand over to each other.
#include <algorithm>

#include "nvptx/synchronisation_rules.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed touches no shared memory, or only its scratch space

namespace flextile::backend {

using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

/// The producer's warp waits until all have released the turn `stages` before, and fills the stage.
void SynchronisationRules::visit_ring_refill(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  const Value buffer = operation.operands[0];
  const Affine turn = now(operation.operands[1]);
  const std::string fills = "fills " + turn_of(turn, buffer);
  Ring& ring = ring_of(state, buffer);
  if (role_ != Role::producer || alone_) fail(id, fills + ": that is the producer's");
  if (!ring.running) fail(id, fills + " before ring_start");
  if (!numbers_.equal(state.facts, turn, ring.filled)) fail(id, fills + ", but the next turn to fill is " + numbers_.text(ring.filled));
  if (readers_of(buffer) != Readers::consumers && !numbers_.proves(state.facts, ring.released + f_.type(buffer).stages - turn)) {
    fail(id, fills + ": its stage is not released, turns from " + numbers_.text(ring.released) + " on are in use");
  }
  refill_ = id;
  fill(id, turn, state);
  refill_ = {};
  ring.filled = turn + 1;
  state.add(state.reads, barriers_of(buffer, id));
}

/// What one warp does when the stage is empty: it may take a program, or read scalars that another warp put for it; then it fills.
void SynchronisationRules::fill(OperationId refill, const Affine& turn, State& state) {
  const Value buffer = f_.operation(refill).operands[0];
  OperationId filler, taker;
  for (OperationId id : f_.block(f_.operation(refill).blocks[0]).operations) {
    if (!matters(id)) continue;
    const Operation& operation = f_.operation(id);
    const bool fills = operation.opcode == (is_of_scalars(buffer) ? Opcode::ring_put : Opcode::bulk_copy);
    const bool reads = operation.opcode == Opcode::ring_wait || operation.opcode == Opcode::ring_get || operation.opcode == Opcode::ring_release;
    if (fills && !filler && operation.operands[0] == buffer && now(operation.operands[1]) == turn) {
      filler = id;
    } else if (operation.opcode == Opcode::take_program && !taker) {
      taker = id;
    } else if (reads && !filler) {
      visit(id, state);
    } else {
      fail(id, "stands in the block of a ring_refill, which starts one copy: of " + turn_of(turn, buffer));
    }
  }
  if (!filler) fail(refill, "fills " + turn_of(turn, buffer) + " without a copy");
  if (is_of_scalars(buffer)) check_scalars(filler);
  if (!taker) return;
  const auto& put = f_.operation(filler).operands;
  if (ends_.empty() || std::find(put.begin(), put.end(), f_.operation(taker).results[0]) == put.end()) fail(taker, "takes a program that is not put into a ring, or takes one before there is one to be done");
}

/// A stage is released by those whose arrivals end its use.
void SynchronisationRules::check_reader(OperationId id, const std::string& does, Value buffer) const {
  const Readers readers = readers_of(buffer);
  const bool reads = role_ != Role::producer ? readers == Readers::consumers || (role_ == Role::consumer && readers == Readers::both_roles)
                                             : readers == (refill_ ? Readers::one_producer : Readers::both_roles);
  if (!reads) fail(id, does + ", whose readers are others");
}

/// A consumer asks for the next program when what it has not released yet keeps none of this one's tiles from being fetched: the
/// producer takes that program when it has fetched them, and for each waits for the release of the turn that had its stage.
void SynchronisationRules::check_done(OperationId id, const std::string& waits, Value buffer, const State& state) {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const Affine& released = state.rings[i].released;
    if (rings_[i] == buffer || ends_[i] == Affine{} || numbers_.equal(state.facts, released, ends_[i])) continue;
    if (numbers_.proves(state.facts, released + f_.type(rings_[i]).stages - ends_[i] + 1)) continue;
    fail(id, waits + ", which comes when this program's tiles are fetched, and that may wait for the release of " + turn_of(released, rings_[i]) + ": its turns end at " + numbers_.text(ends_[i]));
  }
}

void SynchronisationRules::visit_ring_get(OperationId id, State& state) {
  const Value buffer = f_.operation(id).operands[0];
  const Affine turn = now(f_.operation(id).operands[1]);
  const Ring& ring = ring_of(state, buffer);
  const bool readable = ring.running && numbers_.proves(state.facts, ring.waited - turn) && numbers_.proves(state.facts, turn - ring.released + 1);
  if (!readable) {
    fail(id, "reads " + turn_of(turn, buffer) + ", not ordered after the copy: turns below " + numbers_.text(ring.waited) + " are waited for, and those below " + numbers_.text(ring.released) +
                 " are released");
  }
  check_reader(id, "reads " + turn_of(turn, buffer), buffer);
  check_scalars(id);
}

/// All that is put into a ring, or read of it, has the same types.
void SynchronisationRules::check_scalars(OperationId id) {
  const Operation& operation = f_.operation(id);
  const bool puts = operation.opcode == Opcode::ring_put;
  std::vector<ir::Type> types;
  for (std::size_t i = 2; i < operation.operands.size(); ++i) types.push_back(f_.type(operation.operands[i]));
  for (Value result : operation.results) types.push_back(f_.type(result));
  const auto [at, first] = scalars_.try_emplace(operation.operands[0].index, types);
  if (at->second != types) fail(id, std::string(puts ? "puts" : "reads") + " other scalars than the first operation on " + name(operation.operands[0]) + " does");
}

}  // namespace flextile::backend
