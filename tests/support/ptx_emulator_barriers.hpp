// How PtxEmulator's threads wait for each other and for the copy engine: named barriers, mbarriers, tensor maps.
#pragma once

namespace flextile::test {

inline void PtxEmulator::barrier(const Instruction& i, const std::vector<int>& active) {
  if (has(i, "warp")) return;              // lanes have joined
  const bool arrives = has(i, "arrive");
  if (!arrives && !has(i, "sync")) throw std::runtime_error("unknown barrier");
  for (int t : active) {
    const auto number = static_cast<std::int64_t>(get(t, i.operands.at(0)));
    const auto expected = i.operands.size() > 1 ? static_cast<std::int64_t>(get(t, i.operands[1])) : 0;
    if (number < 0 || number > 15) throw std::runtime_error("barrier " + std::to_string(number) + ": must be from 0 to 15");
    if (i.operands.size() > 1 && (expected <= 0 || expected % 32 != 0 || expected > threads_))
      throw std::runtime_error("a barrier of " + std::to_string(expected) + " threads: must be a multiple of 32, at most the program's " + std::to_string(threads_));
    if (arrives) {
      ++arrived_[static_cast<std::size_t>(number)];
      continue;
    }
    state_[t].state = State::at_barrier;
    state_[t].barrier = static_cast<int>(number);
    state_[t].expected = static_cast<int>(expected);
  }
}

/// Lets go on who waits at a barrier that all its threads have reached.
inline bool PtxEmulator::open_barriers() {
  std::array<int, 16> there = arrived_, expected{};
  int living = 0;
  for (const Thread& thread : state_) {
    living += thread.state != State::done;
    if (thread.state != State::at_barrier) continue;
    const auto number = static_cast<std::size_t>(thread.barrier);
    if (there[number]++ > arrived_[number] && expected[number] != thread.expected)
      throw std::runtime_error("threads wait at barrier " + std::to_string(number) + " for different numbers of threads");
    expected[number] = thread.expected;
  }
  bool any = false;
  for (Thread& thread : state_) {
    if (thread.state != State::at_barrier) continue;
    const auto number = static_cast<std::size_t>(thread.barrier);
    const int all = thread.expected == 0 ? living : thread.expected;
    if (there[number] > all) throw std::runtime_error(std::to_string(there[number]) + " threads come to barrier " + std::to_string(number) + " of " + std::to_string(all));
    if (there[number] < all) continue;
    thread.state = State::runs;
    arrived_[number] = 0;
    any = true;
  }
  return any;
}

inline void PtxEmulator::deadlock() {
  std::map<std::string, std::vector<int>> waits;
  for (int t = 0; t < threads_; ++t) {
    const Thread& thread = state_[t];
    std::string what;
    if (thread.state == State::parked) what = "for parity " + std::to_string(thread.parity) + " of " + mbarriers_.describe(thread.mbarrier);
    if (thread.state == State::at_barrier) what = "at barrier " + std::to_string(thread.barrier) + (thread.expected ? " of " + std::to_string(thread.expected) + " threads" : "");
    if (thread.state == State::runs) what = "for other lanes at: " + code_.at(thread.pc).line;
    if (what.empty()) continue;
    std::vector<int>& warps = waits[what];
    if (warps.empty() || warps.back() != t / 32) warps.push_back(t / 32);
  }
  std::string sentence = "deadlock:";
  for (const auto& [what, warps] : waits) {
    sentence += sentence.back() == ':' ? " warp" : "; warp";
    for (std::size_t k = 0; k < warps.size(); ++k) sentence += (k > 0 ? ", " : warps.size() > 1 ? "s " : " ") + std::to_string(warps[k]);
    sentence += (warps.size() > 1 ? " wait " : " waits ") + what;
  }
  throw std::runtime_error(sentence);
}

inline std::uint64_t PtxEmulator::shared_address(int t, const Operand& at) { return ((at.slot >= 0 ? reg(t, at.slot) : 0) + at.value) & 0xffffffff; }
/// An arrival that ends a phase lets the others go first in the order that looks for stages given up too early.
inline void PtxEmulator::phase_ended(bool ended) { yields_ = yields_ || (ended && at_once_); }

inline void PtxEmulator::mbarrier(const Instruction& i, const std::vector<int>& active) {
  const std::string& what = i.parts.at(0);
  for (int t : active) {
    if (what == "pending_count") {
      reg(t, i.operands.at(0).slot) = get(t, i.operands.at(1));
    } else if (what == "try_wait" || what == "test_wait") {
      if (!has(i, "parity")) throw std::runtime_error("a wait for a state, not a parity");
      try_wait(i, t, shared_address(t, i.operands.at(1)), (get(t, i.operands.at(2)) & 1) != 0);
    } else if (what == "init") {
      const std::uint64_t address = shared_address(t, i.operands.at(0));
      mbarriers_.initialise(address, shared(address, 8), static_cast<std::int64_t>(cut(get(t, i.operands.at(1)), 32)));
    } else if (what == "inval") {
      mbarriers_.invalidate(shared_address(t, i.operands.at(0)));
    } else if (what == "expect_tx") {
      mbarriers_.expect_bytes(shared_address(t, i.operands.at(0)), static_cast<std::int64_t>(cut(get(t, i.operands.at(1)), 32)));
    } else if (what == "arrive") {
      const std::uint64_t address = shared_address(t, i.operands.at(1));
      if (i.operands.at(0).text != "_") reg(t, i.operands[0].slot) = static_cast<std::uint64_t>(mbarriers_.pending(address));   // the state, of which only that is asked
      const auto number = i.operands.size() > 2 ? static_cast<std::int64_t>(cut(get(t, i.operands[2]), 32)) : 1;
      const bool expects = has(i, "expect_tx");
      if (expects) mbarriers_.expect_bytes(address, i.operands.size() > 2 ? number : throw std::runtime_error("expect_tx without a number of bytes"));
      phase_ended(mbarriers_.arrive(address, expects ? 1 : number));
    } else {
      throw std::runtime_error("unknown operation of an mbarrier");
    }
  }
}

inline void PtxEmulator::try_wait(const Instruction& i, int t, std::uint64_t address, bool parity) {
  Thread& thread = state_[t];
  const bool ended = mbarriers_.ended(address, parity);
  const std::size_t here = thread.pc - 1;
  reg(t, i.operands[0].slot) = ended;
  if (!ended && thread.failed_try == here) {
    thread.pc = here;
    thread.state = State::parked;
    thread.mbarrier = address;
    thread.parity = parity;
    ++parked_;
  }
  thread.failed_try = ended ? ~std::size_t{0} : here;
}

inline void PtxEmulator::elect(const Instruction& i, const std::vector<int>& active) {
  const Operand &leader = i.operands[0].items.at(0), &elected = i.operands[0].items.at(1);
  for (int t : active) {
    if (leader.slot >= 0) reg(t, leader.slot) = static_cast<std::uint64_t>(active[0] % 32);
    if (elected.slot >= 0) reg(t, elected.slot) = t == active[0];
  }
}

inline void PtxEmulator::change_registers(const Instruction& i, const std::vector<int>& active) {
  whole_warp(active);
  const std::uint64_t registers = get(active[0], i.operands.at(0));
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    throw std::runtime_error("setmaxnreg to " + std::to_string(registers) + " registers: must be a multiple of 8 from 24 to 256");
  ++register_changes_[{&i, active[0] / 128}];
}

inline std::uint64_t PtxEmulator::tensor_map_argument(int parameter) {
  if (!tensor_maps_.contains(parameter)) throw std::runtime_error("the address of a parameter that is no tensor map");
  return arguments_.at(static_cast<std::size_t>(parameter));
}
/// The tensor map that an address operand names or holds the address of.
inline const EmulatedTensorMap& PtxEmulator::tensor_map(int t, const Operand& at) {
  const auto named = parameters_.find(at.text);
  const std::uint64_t address = named != parameters_.end() ? tensor_map_argument(named->second) : at.slot >= 0 ? reg(t, at.slot) + at.value : 0;
  for (const int parameter : tensor_maps_)
    if (tensor_map_argument(parameter) == address) return *reinterpret_cast<const EmulatedTensorMap*>(address);
  throw std::runtime_error("the address is no tensor map's");
}
inline void PtxEmulator::prefetch(const Instruction& i, const std::vector<int>& active) {
  if (!has(i, "tensormap")) throw std::runtime_error("unknown prefetch");
  for (int t : active) tensor_map(t, i.operands.at(0)).check();
}

/// Copies to shared memory, and stores from there, whose groups are a thread's.
inline void PtxEmulator::bulk(const Instruction& i, const std::vector<int>& active) {
  if (has(i, "tensor")) return has(i, "bulk_group") ? store_box(i, active) : copy_box(i, active);
  for (int t : active) {
    Thread& thread = state_[t];
    if (has(i, "commit_group")) {
      thread.store_groups.push_back(std::exchange(thread.open_stores, {}));
    } else if (has(i, "wait_group")) {
      if (!has(i, "read")) throw std::runtime_error("a wait for more than the reads of shared memory");
      for (; thread.store_groups.size() > get(t, i.operands.at(0)); thread.store_groups.pop_front())
        for (const BoxStore& box : thread.store_groups.front()) store(box);
    } else {
      throw std::runtime_error("unknown bulk copy");
    }
  }
}

inline std::array<std::int32_t, 5> PtxEmulator::corner_of(const Instruction& i, int t, const Operand& at, const EmulatedTensorMap& map) {
  map.check();
  std::array<std::int32_t, 5> corner{};
  const auto rank = static_cast<std::size_t>(map.rank);
  if (at.items.size() != rank || !has(i, (std::to_string(rank) + "d").c_str()))
    throw std::runtime_error(std::to_string(at.items.size()) + " coordinates for a tensor map of " + std::to_string(rank) + " axes");
  for (std::size_t axis = 0; axis < rank; ++axis) corner[axis] = static_cast<std::int32_t>(get(t, at.items[axis]));
  return corner;
}

/// Reads shared memory when it is waited for, or, in the other order, at once.
inline void PtxEmulator::store_box(const Instruction& i, const std::vector<int>& active) {
  if (!has(i, "global") || !has(i, "shared::cta")) throw std::runtime_error("unknown bulk store");
  for (int t : active) {
    const Operand& target = i.operands.at(0);
    BoxStore box{&tensor_map(t, target), {}, shared_address(t, i.operands.at(1))};
    box.corner = corner_of(i, t, target, *box.map);
    if (box.source % box.map->alignment() != 0)
      throw std::runtime_error("a box comes from shared address " + std::to_string(box.source) + ": must be a multiple of " + std::to_string(box.map->alignment()));
    if (box.source + static_cast<std::uint64_t>(box.map->box_bytes()) > shared_.size())
      throw std::runtime_error("a box of " + std::to_string(box.map->box_bytes()) + " bytes ends outside shared memory");
    if (at_once_) store(box);
    else state_[t].open_stores.push_back(box);
  }
}
inline void PtxEmulator::store(const BoxStore& box) {
  box.map->store_box(box.corner, shared_.data(), box.source, [this](std::uint64_t address, std::size_t bytes) { return const_cast<std::uint8_t*>(global_part(address, static_cast<unsigned>(bytes), 1)); });
}

inline void PtxEmulator::copy_box(const Instruction& i, const std::vector<int>& active) {
  if (!has(i, "global") || !has(i, "mbarrier::complete_tx::bytes")) throw std::runtime_error("unknown bulk copy");
  for (int t : active) {
    const Operand& source = i.operands.at(1);
    BoxCopy copy{&tensor_map(t, source), {}, shared_address(t, i.operands[0]), shared_address(t, i.operands.at(2))};
    copy.corner = corner_of(i, t, source, *copy.map);
    if (copy.target % copy.map->alignment() != 0)
      throw std::runtime_error("a box goes to shared address " + std::to_string(copy.target) + ": must be a multiple of " + std::to_string(copy.map->alignment()));
    if (copy.target + static_cast<std::uint64_t>(copy.map->box_bytes()) > shared_.size())
      throw std::runtime_error("a box of " + std::to_string(copy.map->box_bytes()) + " bytes ends outside shared memory");
    mbarriers_.require(copy.mbarrier);
    if (at_once_) land(copy);
    else box_copies_.push_back(copy);
  }
}
inline void PtxEmulator::land(const BoxCopy& copy) {
  copy.map->copy_box(copy.corner, shared_.data(), copy.target, [this](std::uint64_t address, std::size_t bytes) { return global_part(address, static_cast<unsigned>(bytes), 1); });
  mbarriers_.land_bytes(copy.mbarrier, copy.map->box_bytes());
}
/// Lands the oldest copy that the first parked thread with any waits for.
inline bool PtxEmulator::land_a_box() {
  for (const Thread& thread : state_) {
    if (thread.state != State::parked) continue;
    const auto copy = std::find_if(box_copies_.begin(), box_copies_.end(), [&](const BoxCopy& c) { return c.mbarrier == thread.mbarrier; });
    if (copy == box_copies_.end()) continue;
    const BoxCopy landing = *copy;
    box_copies_.erase(copy);
    land(landing);
    return true;
  }
  return false;
}

}  // namespace flextile::test
