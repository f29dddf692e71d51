// Rings that the copy engine fills. There is one reader here, so a release is the last one and its block runs at once: a stage
// that is released before it is read holds rubbish by then. Copies land when a wait demands it, no earlier.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::test {

inline void Interpreter::run_ring(const Op& op) {
  using ir::Opcode;
  if (op.opcode == Opcode::ring_start || op.opcode == Opcode::ring_refill) return run_block(op.blocks[0]), void();
  Ring& ring = rings_[op.operands[0].index];
  const std::int64_t stages = type(op.operands[0]).stages, turn = operand(op, 1).elements[0].integer;
  const std::string words = "turn " + std::to_string(turn) + " of a ring of " + std::to_string(stages) + " stages";
  if (turn < 0) throw std::runtime_error("interpreter: " + words);
  auto is = [&ring](std::int64_t which, TurnState state) {
    const auto found = ring.turns.find(which);
    return found != ring.turns.end() && found->second == state;
  };
  switch (op.opcode) {
    case Opcode::bulk_copy:
      if (turn >= stages && !is(turn - stages, TurnState::released)) throw std::runtime_error("interpreter: a copy of " + words + " before the stage is released");
      if (!ring.turns.try_emplace(turn, TurnState::copied).second) throw std::runtime_error("interpreter: a second copy of " + words);
      ring.copies[turn] = start_copy(op, turn % stages);
      return;
    case Opcode::ring_wait:
      if (!ring.turns.contains(turn)) throw std::runtime_error("interpreter: deadlock: the program waits for the copy of " + words + ", which nobody started");
      if (is(turn, TurnState::released)) throw std::runtime_error("interpreter: a wait for " + words + ", which is released");
      if (const auto copy = ring.copies.find(turn); copy != ring.copies.end()) {
        land(copy->second);
        ring.copies.erase(copy);
      }
      ring.turns[turn] = TurnState::waited;
      return;
    default:   // ring_release
      if (!is(turn, TurnState::waited)) throw std::runtime_error("interpreter: a release of " + words + ", which was not waited for");
      ring.turns[turn] = TurnState::released;
      run_block(op.blocks[0]);
  }
}

}  // namespace flextile::test

#pragma GCC diagnostic pop
