// The rules for rings of the copy engine, products in flight and turns to start them.
#include "nvptx/synchronisation_rules.hpp"

#include <algorithm>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed touches no shared memory, or only its scratch space

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

void SynchronisationRules::visit_ring_start(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  for (Value buffer : operation.operands) {
    Ring& ring = ring_of(state, buffer);
    if (ring.running) fail(id, "starts " + name(buffer) + " a second time");
    write(id, state, barriers_of(buffer, id));
  }
  barrier(id, state);
  for (Value buffer : operation.operands) {
    for (Value other : operation.operands) {
      if (other == buffer) break;
      const Access bytes{id, {}, whole(buffer, id).first, barriers_of(buffer, id).end}, others{id, {}, whole(other, id).first, barriers_of(other, id).end};
      if (overlap(bytes, others)) fail(id, "starts " + turn_of({}, other) + " and " + turn_of({}, buffer) + ", which share bytes");
    }
    write(id, state, whole(buffer, id), true);
    ring_of(state, buffer) = Ring{.running = true};
  }
  run_alone(id, operation.blocks[0], state, {}, nullptr);
}

void SynchronisationRules::visit_ring_wait(OperationId id, State& state) {
  const Value buffer = f_.operation(id).operands[0];
  const Affine turn = now(f_.operation(id).operands[1]);
  const std::string waits = "waits for " + turn_of(turn, buffer);
  Ring& ring = ring_of(state, buffer);
  if (alone_) fail(id, waits + " in a block that one thread runs (" + name(alone_) + ")");
  if (!ring.running) fail(id, waits + " before ring_start");
  check_reader(id, waits, buffer);
  if (!numbers_.equal(state.facts, turn, ring.waited)) fail(id, waits + ", but the next turn is " + numbers_.text(ring.waited) + ": its phase is another one");
  const Affine filled = ring.produced ? ring.released + f_.type(buffer).stages : ring.filled;
  if (!numbers_.proves(state.facts, filled - turn)) fail(id, waits + ", which nothing has started: turns below " + numbers_.text(filled) + " are");
  if (ring.bounded && !numbers_.proves(state.facts, ring.bound - turn * ring.slope)) {
    fail(id, waits + ", which may not exist: it is started only where " + numbers_.text(ring.bound - turn * ring.slope) + " is above 0");
  }
  if (state.turns == Turns::ours && !numbers_.proves(state.facts, ring.released_at_take + f_.type(buffer).stages - turn)) {
    fail(id, waits + " while a warpgroup holds the turn to start products: the others release turn " + numbers_.text(turn - f_.type(buffer).stages) +
                 ", whose stage it takes, only after their own turn");
  }
  ring.waited = turn + 1;
  if (role_ == Role::consumer && is_of_scalars(buffer)) check_done(id, waits, buffer, state);
  state.add(state.reads, barriers_of(buffer, id));
}

void SynchronisationRules::visit_ring_release(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  const Value buffer = operation.operands[0];
  const Affine turn = now(operation.operands[1]);
  const std::string releases = "releases " + turn_of(turn, buffer);
  Ring& ring = ring_of(state, buffer);
  if (alone_) fail(id, releases + " in a block that one thread runs (" + name(alone_) + ")");
  if (!ring.running) fail(id, releases + " before ring_start");
  check_reader(id, releases, buffer);
  if (!numbers_.equal(state.facts, turn, ring.released)) fail(id, releases + ", but the next turn to release is " + numbers_.text(ring.released));
  if (!numbers_.proves(state.facts, ring.waited - turn)) fail(id, releases + ", which is not waited for: turns below " + numbers_.text(ring.waited) + " are");
  const Access stage{id, buffer, whole(buffer, id).first, whole(buffer, id).end, f_.type(buffer).stages, false, turn};
  for (const Product& product : state.products) {
    for (const Access& read : product.reads) {
      if (read.buffer == buffer && overlap(read, stage)) fail(id, releases + ", which " + name(product.dot) + " in flight still reads: no product_wait covers it");
    }
  }
  release_written(id, releases, stage, state);
  if (state.turns == Turns::ours && !ring.produced) fail(id, releases + " while a warpgroup holds the turn to start products: the warp that fills the stage again waits for all, and the others wait for the turn");
  ring.released = turn + 1;
  state.add(state.reads, barriers_of(buffer, id));
  run_alone(id, operation.blocks[0], state, {}, &turn);
}

/// A block that one thread runs: copies, perhaps in a branch, and what their operands are computed from.
void SynchronisationRules::run_alone(OperationId owner, BlockId inside, State& state, const Facts& guard, const Affine* released) {
  const OperationId outer = std::exchange(alone_, owner);
  for (OperationId id : f_.block(inside).operations) {
    const Operation& operation = f_.operation(id);
    if (operation.opcode == Opcode::bulk_copy) {
      start_copy(owner, id, state, guard, released);
    } else if (operation.opcode == Opcode::if_) {
      for (std::size_t i = 0; i < operation.blocks.size(); ++i) {
        Facts holds = guard;
        for (const Affine& fact : numbers_.when(operation.operands[0], i == 0)) holds.push_back(now(fact));
        if (holds.size() == guard.size() && matters(id)) fail(id, "chooses whether copies are started by a condition that is not understood");
        run_alone(owner, operation.blocks[i], state, holds, released);
      }
    } else if (matters(id)) {
      visit(id, state);   // says what is wrong with it
      fail(id, "stands in a block that one thread runs (" + name(owner) + ")");
    }
  }
  alone_ = outer;
}

void SynchronisationRules::start_copy(OperationId owner, OperationId id, State& state, const Facts& guard, const Affine* released) {
  const Value buffer = f_.operation(id).operands[0];
  const Affine turn = now(f_.operation(id).operands[1]);
  const std::int64_t stages = f_.type(buffer).stages;
  const std::string fills = "fills " + turn_of(turn, buffer);
  const auto& started = f_.operation(owner).operands;
  if (released ? started[0] != buffer : std::find(started.begin(), started.end(), buffer) == started.end()) fail(id, fills + ", a ring that " + name(owner) + " does not have");
  Ring& ring = ring_of(state, buffer);
  if (released && (role_ != Role::all || turn != *released + stages)) {
    fail(id, fills + ": the release of turn " + numbers_.text(*released) + " frees the stage for turn " + numbers_.text(*released + stages) + " alone");
  }
  if (turn != ring.filled) fail(id, fills + ", but the next turn to fill is " + numbers_.text(ring.filled));
  if (!released && !numbers_.proves(state.facts, ring.released + stages - turn)) {
    fail(id, fills + ": its stage is not released, turns from " + numbers_.text(ring.released) + " on are in use");
  }
  if (guard.size() > 1) fail(id, fills + " where several conditions hold: which turns exist is not understood");
  check_bound(id, fills, ring, turn, guard);
  ring.filled = turn + 1;
}

/// The copy's condition is that of the ring's turns: bound - slope * turn > 0, as the first two of them say.
void SynchronisationRules::check_bound(OperationId id, const std::string& fills, Ring& ring, const Affine& turn, const Facts& guard) const {
  if (turn == Affine{}) {
    ring.bounded = !guard.empty();
    if (ring.bounded) ring.bound = guard[0];
    return;
  }
  const Affine change = ring.bounded && !guard.empty() ? ring.bound - guard[0] : Affine{};
  if (ring.bounded && !guard.empty() && ring.slope == 0 && turn.is_number() && change.is_number() && change.constant > 0 && change.constant % turn.constant == 0) {
    ring.slope = change.constant / turn.constant;
  }
  const bool same = guard.empty() ? !ring.bounded : ring.bounded && ring.slope > 0 && guard[0] == ring.bound - turn * ring.slope;
  if (!same) {
    fail(id, fills + (guard.empty() ? " always" : " where " + numbers_.text(guard[0]) + " is above 0") + "; the turns before it say that it exists " +
                 (ring.bounded ? "where " + numbers_.text(ring.bound - turn * ring.slope) + " is above 0" : "always"));
  }
}

// ---- products

void SynchronisationRules::visit_dot(OperationId id, State& state) {
  const Operation& operation = f_.operation(id);
  visit_scratch(id, state);
  std::vector<Access> reads;
  for (const Operation* load : loads_of(id)) {
    if (!load) continue;
    Access access = stage_of(load->operands[0], load->operands[1], id);
    access.own_rows = is_wgmma(operation) && load == loads_of(id)[0];
    read(id, state, access, load->operands[1]);
    reads.push_back(access);
  }
  if (!is_wgmma(operation)) {
    for (const Access& access : reads) add_read(state, access);
    return;
  }
  for (Product& product : state.products) product.newer += batches(operation.results[0]);
  state.add(Product{id, 0, reads});
  if (!is_async(operation)) finish_products(state, 0);
}

/// All but the newest `pending` batches are done.
void SynchronisationRules::finish_products(State& state, std::int64_t pending) const {
  for (const Product& product : state.products) {
    if (product.newer < pending) continue;
    for (const Access& access : product.reads) add_read(state, access);
  }
  std::erase_if(state.products, [&](const Product& product) { return product.newer >= pending; });
}

void SynchronisationRules::visit_product_wait(OperationId id, State& state) const {
  const Operation& operation = f_.operation(id);
  const std::int64_t pending = operation.attributes.integer(AttributeName::pending);
  finish_products(state, operation.results.empty() ? pending : pending * batches(operation.results[0]));
  if (operation.operands.empty()) return;
  for (const Product& product : state.products) {
    if (sources(operation.operands[0]).contains(product.dot.index)) {
      fail(id, "gives the sum of " + name(product.dot) + ", which it leaves in flight: " + std::to_string(product.newer) + " newer batches are started, " + std::to_string(pending) + " may be pending");
    }
  }
}

void SynchronisationRules::check_registers(OperationId id, const State& state) const {
  for (const Product& product : state.products) {
    const Value held = register_operand(product.dot);
    if (!held) continue;
    const ir::Definition& definition = f_.definition(held);
    if (definition.operation || definition.position == 0) continue;
    const auto& yielded = f_.operation(f_.block(definition.block).operations.back()).operands;   // of a for loop
    if (definition.position > yielded.size()) continue;
    // What takes the place of the operand, on any side of a branch.
    std::vector<Value> nexts{yielded[definition.position - 1]};
    for (std::size_t i = 0; i < nexts.size(); ++i) {
      const Operation* branch = f_.defining(nexts[i]);
      if (!branch || branch->opcode != Opcode::if_) continue;
      const std::size_t position = f_.definition(nexts[i]).position;
      for (BlockId side : branch->blocks) nexts.push_back(f_.operation(f_.block(side).operations.back()).operands[position]);
    }
    const auto& results = f_.operation(id).results;
    const auto found = std::find_first_of(nexts.begin(), nexts.end(), results.begin(), results.end());
    if (found == nexts.end()) continue;
    const Value next = *found;
    fail(id, "computes " + name(next) + " for the registers of " + name(held) + ", which " + name(product.dot) + " in flight still reads: no product_wait covers it");
  }
}

// ---- turns

void SynchronisationRules::visit_turn(OperationId id, State& state) const {
  const std::string_view kind = f_.operation(id).attributes.string(AttributeName::kind);
  const char* now = state.turns == Turns::closed ? "closed" : state.turns == Turns::open ? "open" : "taken";
  if (alone_) fail(id, "stands in a block that one thread runs (" + name(alone_) + ")");
  const Turns wanted = kind == "open" ? Turns::closed : kind == "pass" ? Turns::ours : Turns::open;
  if (state.turns != wanted) {
    fail(id, std::string(kind) + ": turns to start products are " + now + " here, and must be " + (wanted == Turns::closed ? "closed" : wanted == Turns::open ? "open" : "taken") +
                 ": each is taken and passed once on every path, between open and close");
  }
  if (kind == "open" && state.closing) fail(id, "opens turns to start products while a warpgroup may still be closing the last ones: no barrier of all threads lies between");
  if (kind == "close") state.closing = true;
  state.turns = kind == "open" || kind == "pass" ? Turns::open : kind == "take" ? Turns::ours : Turns::closed;
  for (Ring& ring : state.rings) ring.released_at_take = kind == "take" ? ring.released : Affine{};
}

}  // namespace flextile::backend
