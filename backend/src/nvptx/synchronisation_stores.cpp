// The rules for tiles that the copy engine stores.
#include <algorithm>

#include "nvptx/synchronisation_rules.hpp"

namespace flextile::backend {

using ir::Operation;
using ir::OperationId;
using ir::Value;

Access SynchronisationRules::own_rows_of(OperationId id, const std::string& does, const State& state) {
  const Operation& operation = f_.operation(id);
  Access access = stage_of(operation.operands[0], operation.operands[1], id);
  access.own_rows = true;
  if (alone_) fail(id, does + place(access) + " in a block that one thread runs (" + name(alone_) + ")");
  if (is_ring(operation.operands[0])) find_turn(id, does + place(access), state, access, operation.operands[1]);
  return access;
}

/// A warpgroup's threads overwrite their rows when they have met since the last of them, or the copy engine, was there.
void SynchronisationRules::visit_matrix_store(OperationId id, State& state) {
  const Access access = own_rows_of(id, "writes ", state);
  for (const Access& written : state.outgoing) {
    if (overlap(written, access)) fail(id, "writes " + place(access) + ", which " + name(written.by) + " wrote and no bulk_store has stored");
  }
  write(id, state, access);
  state.outgoing.push_back(access);
  state.add(state.writes, access);
}

/// What they did before is over for all of them; for the copy engine too, if each has fenced.
void SynchronisationRules::visit_warpgroup_barrier(OperationId id, State& state) const {
  if (alone_) fail(id, "is a barrier of a warpgroup in a block that one thread runs (" + name(alone_) + ")");
  for (std::vector<Access>* list : {&state.reads, &state.writes}) {
    for (Access& access : *list) {
      if (access.own_rows) access.reach = Reach::warpgroup;
    }
  }
  for (Access& written : state.outgoing) {
    if (written.reach == Reach::fenced) written.reach = Reach::warpgroup;
  }
}

void SynchronisationRules::visit_bulk_store(OperationId id, State& state) {
  const Access access = own_rows_of(id, "stores ", state);
  const auto written = std::find_if(state.outgoing.begin(), state.outgoing.end(), [&](const Access& each) { return each.buffer == access.buffer && overlap(each, access); });
  if (written == state.outgoing.end()) fail(id, "stores " + place(access) + ", which no matrix_store has written for it");
  Access part = *written;
  part.reach = access.reach;
  if (part != access) fail(id, "stores " + place(access) + ", of which " + name(written->by) + " has written another part");
  if (written->reach == Reach::thread) fail(id, "stores " + place(access) + ", which " + name(written->by) + " wrote: no proxy_fence and warpgroup_barrier stand between them");
  if (written->reach == Reach::fenced) fail(id, "stores " + place(access) + ", which " + name(written->by) + " may still be writing in another thread: no warpgroup_barrier stands between them");
  state.outgoing.erase(written);
  for (Storing& other : state.storing) ++other.newer;
  state.add(Storing{access, 0});
}

/// The thread that waits is one of the warpgroup: for the others it is over past a barrier.
void SynchronisationRules::finish_stores(State& state, std::int64_t pending) const {
  for (const Storing& store : state.storing) {
    if (store.newer >= pending) add_read(state, store.from);
  }
  std::erase_if(state.storing, [&](const Storing& store) { return store.newer >= pending; });
}

/// Past the release, only who takes the ring's bytes over may still meet those writes: to him they are like reads.
void SynchronisationRules::release_written(OperationId id, const std::string& releases, const Access& stage, State& state) const {
  for (const Storing& store : state.storing) {
    if (store.from.buffer == stage.buffer && overlap(store.from, stage)) fail(id, releases + ", which " + name(store.from.by) + " may still be reading for the copy engine: no bulk_wait covers it");
  }
  for (const Access& written : state.outgoing) {
    if (written.buffer == stage.buffer && overlap(written, stage)) fail(id, releases + ", which " + name(written.by) + " wrote and no bulk_store has stored");
  }
  auto is_released = [&](const Access& write) { return write.buffer == stage.buffer && covers(Access{{}, stage.buffer, stage.first, stage.end, stage.stages, false, stage.turn}, write); };
  for (const Access& write : state.writes) {
    if (is_released(write)) add_read(state, write);
  }
  std::erase_if(state.writes, is_released);
}

}  // namespace flextile::backend
