// Rings that a producer and consumers share, and the roles that run at the same time.
//
// Each role has a thread of its own, but only one runs at a time and control goes over at fixed places: the producer begins and
// runs until it must wait for a release; the consumers run until they must wait for a copy that was not started, and let the
// producer go first after each release. So the producer fills a stage as early as it may, and a stage that is released before
// it is read holds rubbish by then. Copies land when the consumers wait for them, no earlier.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::test {

inline void Interpreter::run_ring(const Op& op) {
  using ir::Opcode;
  Ring& ring = rings_[op.operands[0].index];
  const std::int64_t stages = type(op.operands[0]).stages, turn = operand(op, 1).elements[0].integer;
  const std::string words = "turn " + std::to_string(turn) + " of a ring of " + std::to_string(stages) + " stages";
  if (turn < 0) throw std::runtime_error("interpreter: " + words);
  auto is = [&ring](std::int64_t which, TurnState state) {
    const auto found = ring.turns.find(which);
    return found != ring.turns.end() && found->second == state;
  };
  auto free = [=] { return turn < stages || is(turn - stages, TurnState::released); };
  switch (op.opcode) {
    case Opcode::ring_acquire: return wait_until(free, "for the release before " + words);
    case Opcode::bulk_copy:
      if (!free()) throw std::runtime_error("interpreter: a copy of " + words + " before the stage is released");
      if (!ring.turns.try_emplace(turn, TurnState::copied).second) throw std::runtime_error("interpreter: a second copy of " + words);
      ring.copies[turn] = start_copy(op, turn % stages);
      return;
    case Opcode::ring_wait:
      wait_until([&ring, turn] { return ring.turns.contains(turn); }, "for the copy of " + words);
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
      if (in_roles_) hand_over();
  }
}

/// Lets the other role run until `ready`.
inline void Interpreter::wait_until(std::function<bool()> ready, const std::string& wish) {
  if (ready()) return;
  const std::size_t self = running_;
  const Role& other = roles_[1 - self];
  auto deadlock = [&] {
    const char* names[2] = {"the producer", "the consumer"};
    const std::string rest = !in_roles_ ? "there is no other role" : std::string(names[1 - self]) + (other.ended ? " has ended" : " waits " + other.wish);
    throw std::runtime_error("interpreter: deadlock: " + (in_roles_ ? std::string(names[self]) : "the program") + " waits " + wish + " and " + rest);
  };
  while (!ready()) {
    if (!in_roles_ || other.ended || (other.ready && !other.ready())) deadlock();
    roles_[self].ready = ready;
    roles_[self].wish = wish;
    hand_over();
  }
  roles_[self].ready = {};
}

/// The other role runs until it hands over too. The calling role holds the mutex.
inline void Interpreter::hand_over(bool ended) {
  const std::size_t self = running_;
  roles_[self].ended = ended;
  if (!ended && (roles_[1 - self].ended || (roles_[1 - self].ready && !roles_[1 - self].ready()))) return;   // it could do nothing
  running_ = 1 - self;
  changed_.notify_all();
  if (ended) return;
  std::unique_lock lock(mutex_, std::adopt_lock);
  changed_.wait(lock, [&] { return running_ == self || fault_; });
  lock.release();
  if (fault_) throw Abandoned{};
}

inline void Interpreter::run_roles(const Op& op) {
  if (op.blocks.size() != 2 || in_roles_) throw std::runtime_error("interpreter: roles must be a producer and consumers, in no other role");
  roles_ = {};
  in_roles_ = true;
  running_ = producer;
  auto play = [&](RoleIndex self) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == self || fault_; });
    if (fault_) return;
    try {
      run_block(op.blocks[self]);
    } catch (const Abandoned&) {
    } catch (...) {
      fault_ = std::current_exception();
    }
    hand_over(true);
  };
  std::thread first([&] { play(producer); });
  play(consumers);
  first.join();
  in_roles_ = false;
  running_ = consumers;
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

}  // namespace flextile::test

#pragma GCC diagnostic pop
