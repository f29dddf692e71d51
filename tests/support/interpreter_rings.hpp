// Rings that the copy engine fills. A release is the last one and its block runs at once: a stage that is released before it is read
// holds rubbish by then. Copies land when a wait demands it, no earlier. The roles of a program run in turn: each until it waits for
// the other, and where neither can go on, that is a deadlock.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::test {

inline void Interpreter::run_ring(const Op& op) {
  using ir::Opcode;
  if (op.opcode == Opcode::ring_start) return run_block(op.blocks[0]), void();
  Ring& ring = rings_[op.operands[0].index];
  const std::int64_t stages = type(op.operands[0]).stages, turn = operand(op, 1).elements[0].integer;
  const std::string words = "turn " + std::to_string(turn) + " of a ring of " + std::to_string(stages) + " stages";
  if (turn < 0) throw std::runtime_error("interpreter: " + words);
  auto is = [&ring](std::int64_t which, TurnState state) {
    const auto found = ring.turns.find(which);
    return found != ring.turns.end() && found->second == state;
  };
  auto is_empty = [&] { return turn < stages || is(turn - stages, TurnState::released); };
  if (roles_) ++roles_->steps;
  // Both roles read what is handed over to each warp.
  const bool read_by_both = function_.defining(op.operands[0])->attributes.integer(Attribute::readers) > function_.num_warps;
  const int role = is_producer() ? 1 : 2;
  switch (op.opcode) {
    case Opcode::ring_put:
      ring.turns[turn] = TurnState::copied;
      ring.scalars[turn].clear();
      for (std::size_t i = 2; i < op.operands.size(); ++i) ring.scalars[turn].push_back(operand(op, i));
      return;
    case Opcode::ring_get:
      if ((ring.waited_by[turn] & role) == 0) throw std::runtime_error("interpreter: scalars are read in " + words + ", which was not waited for");
      for (std::size_t i = 0; i < op.results.size(); ++i) result(op, i) = ring.scalars[turn].at(i);
      return;
    case Opcode::ring_refill:
      await(is_empty, "interpreter: deadlock: the producer waits until " + words + " may be filled");
      return run_block(op.blocks[0]), void();
    case Opcode::bulk_copy:
      if (!is_empty()) throw std::runtime_error("interpreter: a copy of " + words + " before the stage is released");
      if (!ring.turns.try_emplace(turn, TurnState::copied).second) throw std::runtime_error("interpreter: a second copy of " + words);
      ring.copies[turn] = start_copy(op, turn % stages);
      return;
    case Opcode::ring_wait:
      await([&] { return ring.turns.contains(turn); }, "interpreter: deadlock: the program waits for the copy of " + words + ", which nobody started");
      if (is(turn, TurnState::released) || (ring.released_by[turn] & role) != 0) throw std::runtime_error("interpreter: a wait for " + words + ", which is released");
      ring.waited_by[turn] |= role;
      if (const auto copy = ring.copies.find(turn); copy != ring.copies.end()) {
        land(copy->second);
        ring.copies.erase(copy);
      }
      ring.turns[turn] = TurnState::waited;
      return;
    default:   // ring_release
      if (!is(turn, TurnState::waited) || (ring.waited_by[turn] & role) == 0) throw std::runtime_error("interpreter: a release of " + words + ", which was not waited for");
      ring.waited_by[turn] &= ~role;
      ring.released_by[turn] |= role;
      if (read_by_both && ring.released_by[turn] != 3) return;   // both roles read it
      ring.turns[turn] = TurnState::released;
      run_block(op.blocks[0]);
  }
}

template <class Condition> void Interpreter::await(Condition holds, const std::string& what) {
  while (!holds()) {
    const long before = roles_ ? roles_->steps : 0;
    if (!roles_ || !switch_role(!is_producer()) || (roles_->steps == before && !holds())) throw std::runtime_error(what);
  }
}

/// False where the other role has ended.
inline bool Interpreter::switch_role(bool to_producer) {
  std::unique_lock lock(roles_->mutex);
  if (to_producer ? roles_->producer_done : roles_->consumer_done) return false;
  roles_->producer_runs = to_producer;
  roles_->changed.notify_all();
  roles_->changed.wait(lock, [&] { return roles_->producer_runs != to_producer; });
  return true;
}

inline void Interpreter::run_roles(const Op& op) {
  Roles roles;
  roles_ = &roles;
  std::exception_ptr failure[2];
  auto run = [&](bool producer) {
    is_producer() = producer;
    {
      std::unique_lock lock(roles.mutex);
      roles.changed.wait(lock, [&] { return roles.producer_runs == producer; });
    }
    try {
      run_block(op.blocks[producer ? 0 : 1]);
    } catch (...) {
      failure[producer ? 0 : 1] = std::current_exception();
    }
    std::lock_guard lock(roles.mutex);
    (producer ? roles.producer_done : roles.consumer_done) = true;
    roles.producer_runs = !producer;
    roles.changed.notify_all();
  };
  std::thread other(run, true);
  run(false);
  is_producer() = false;
  other.join();
  roles_ = nullptr;
  for (const std::exception_ptr& each : {failure[1], failure[0]}) {
    if (each) std::rethrow_exception(each);
  }
}

}  // namespace flextile::test

#pragma GCC diagnostic pop
