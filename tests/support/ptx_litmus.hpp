// What must stand in a kernel's PTX wherever the lowering makes instructions of an operation: fences, commits, counts of bytes
// and arrivals. It looks at the text alone, along every path of branches; the numbers are the emulator's to check.
//
//   mbarriers   initialised with 1 arrival or one of each warp; then, before a barrier of all threads, fence.mbarrier_init (for
//               other threads and the copy engine) and fence.proxy.async (what threads wrote into the ring's bytes comes first);
//               only then used
//   copies      straight after an expect_tx on their mbarrier, with as many bytes as they bring
//   try_wait    tried again until it succeeds
//   stores      what stmatrix wrote: fence.proxy.async, then a barrier, then the bulk store and its commit_group; another barrier before
//               the stmatrix, where a wgmma or the copy engine was at the bytes (of two buffers in turn, not for each tile); wait_group.read before that barrier, before a stage that
//               tiles are stored from is given back, and before the kernel ends
//   cp.async    what wgmma reads: landed, then fence.proxy.async, then a barrier
//   wgmma       wgmma.fence before the first of a batch, commit_group behind the last; until wait_group covers the batch nobody
//               touches its sums or writes its operands in registers; a stage is given back with one batch in flight at most
#pragma once
#include <algorithm>
#include <set>

#include <flextile/backend/compile.hpp>

#include "ptx_program.hpp"

namespace flextile::test {

class PtxLitmus : PtxProgram {
 public:
  explicit PtxLitmus(const CompiledKernel& kernel) : PtxProgram(kernel.ptx_text), kernel_(kernel) {
    std::vector<State> before(code_.size());
    std::vector<std::size_t> work{0};
    const auto says = [&](const char* words) { return std::any_of(kernel.explanation.begin(), kernel.explanation.end(), [&](const std::string& each) { return each.find(words) != std::string::npos; }); };
    through_ring_ = says("through the stage of a ring");
    buffers_ = says("through 2 buffers") ? 2 : 1;
    before[0] = {.init = bit(none), .landed = bit(clean), .batch = bit(idle), .tile = bit(no_tile), .place = bit(nobody), .reached = true};
    while (!work.empty()) {
      const std::size_t at = work.back();
      work.pop_back();
      State after = before[at];
      step(at, after);
      for (const std::size_t next : successors(at)) {
        if (before[next].join(after)) work.push_back(next);
      }
    }
    for (std::size_t at = 0; at < code_.size(); ++at) look_at(at);
  }

  /// One sentence for each fault; empty where all is well.
  std::vector<std::string> complaints() const { return {complaints_.begin(), complaints_.end()}; }

 private:
  static constexpr unsigned bit(int number) { return 1u << number; }

  // Where paths meet, the sets of what each may have been hold both.
  enum Init { none, bare, mbarrier_fence, proxy_fence, both_fences, published, published_bare, published_without_proxy };
  enum Landed { clean, landed, fenced, public_unfenced };
  enum Batch { idle, open, issued };
  enum Tile { no_tile, tile_written, tile_fenced, tile_ready };            // that stmatrix wrote
  enum Place { nobody, product_read, storing_open, storing, store_read };  // what was at the bytes since a barrier
  static constexpr int most_groups = 16;   // that are counted

  struct InFlight {
    int newer;                    // batches that were committed after it; -1: not committed yet
    bool sum;                     // else an operand, which may be read
    bool operator==(const InFlight&) const = default;
  };
  struct State {
    unsigned init = 0, landed = 0, batch = 0, tile = 0, place = 0;
    int stores = 0;               // groups that may not have been read, at most
    int groups = 0;               // batches in flight, at most
    std::map<int, InFlight> registers{};
    bool reached = false;

    /// Whether something is new.
    bool join(const State& other) {
      const State old = *this;
      init |= other.init, landed |= other.landed, batch |= other.batch, tile |= other.tile, place |= other.place;
      stores = std::max(stores, other.stores);
      for (const auto& [slot, flight] : other.registers) {
        const auto [place, added] = registers.try_emplace(slot, flight);
        if (!added) place->second = {std::min(place->second.newer, flight.newer), place->second.sum || flight.sum};
      }
      groups = std::max(groups, other.groups);
      reached = true;
      return !old.reached || old.groups != groups || old.tile != tile || old.place != place || old.stores != stores || old.init != init || old.landed != landed || old.batch != batch || old.registers != registers;
    }
  };

  void complain(std::size_t at, const std::string& sentence) { complaints_.insert(sentence + ": " + code_[at].line); }

  std::vector<std::size_t> successors(std::size_t at) const {
    const Instruction& i = code_[at];
    if (i.name == "ret") return i.predicate < 0 ? std::vector<std::size_t>{} : std::vector{at + 1};
    std::vector<std::size_t> result;
    if (i.name == "bra") result.push_back(static_cast<std::size_t>(i.operands.at(0).value));
    if ((i.name != "bra" || i.predicate >= 0) && at + 1 < code_.size()) result.push_back(at + 1);
    return result;
  }

  static bool has(const Instruction& i, const char* part) { return std::find(i.parts.begin(), i.parts.end(), part) != i.parts.end(); }
  static bool is(const Instruction& i, const char* name, const char* part) { return i.name == name && !i.parts.empty() && i.parts[0] == part; }
  static bool is_bulk(const Instruction& i) { return i.name == "cp" && has(i, "bulk") && has(i, "tensor") && !has(i, "bulk_group"); }
  static unsigned moved(unsigned states, std::initializer_list<std::pair<int, int>> moves) {
    unsigned result = states;
    for (const auto& [from, to] : moves) result &= ~bit(from);
    for (const auto& [from, to] : moves) {
      if (states & bit(from)) result |= bit(to);
    }
    return result;
  }
  static void slots_of(const Operand& operand, std::vector<int>& slots) {
    if (operand.slot >= 0) slots.push_back(operand.slot);
    for (const Operand& item : operand.items) slots_of(item, slots);
  }

  void step(std::size_t at, State& state) {
    const Instruction& i = code_[at];
    if (is(i, "fence", "mbarrier_init")) state.init = moved(state.init, {{bare, mbarrier_fence}, {proxy_fence, both_fences}});
    if (is(i, "fence", "proxy") && has(i, "async")) {
      state.init = moved(state.init, {{bare, proxy_fence}, {mbarrier_fence, both_fences}});
      state.landed = moved(state.landed, {{landed, fenced}, {public_unfenced, fenced}});
    }
    if (i.name == "bar" && has(i, "sync") && i.operands.size() == 1) {
      state.init = moved(state.init, {{none, none}, {bare, published_bare}, {proxy_fence, published_bare}, {mbarrier_fence, published_without_proxy}, {both_fences, published}});
      if (state.init & bit(published)) state.init &= ~bit(none);      // the other threads, at the same barrier
      state.landed = moved(state.landed, {{landed, public_unfenced}, {fenced, clean}});
    }
    if (i.name == "cp" && has(i, "wait_group") && !has(i, "bulk")) state.landed = bit(landed);
    step_store(at, state);
    const bool gives_back = is(i, "mbarrier", "arrive") && !has(i, "expect_tx");
    if (gives_back && through_ring_ && state.stores > 0) complain(at, "a stage is given back while a bulk store may still be reading");
    if (gives_back && state.groups > 1) complain(at, "a stage is given back while more than one batch is in flight");
    if (is(i, "mbarrier", "init") && state.groups > 0) complain(at, "a ring is made while a wgmma is in flight");
    if (is(i, "mbarrier", "init")) {
      state.init = bit(bare);
    } else if ((i.name == "mbarrier" && i.parts[0] != "pending_count") || is_bulk(i)) {
      if (state.init & (bit(bare) | bit(mbarrier_fence) | bit(proxy_fence) | bit(both_fences))) complain(at, "an mbarrier is used before a barrier of all threads");
      if (state.init & bit(none)) complain(at, "an mbarrier is used that is not initialised");
      if (state.init & bit(published_bare)) complain(at, "no fence.mbarrier_init stands between an mbarrier's init and the barrier of all threads");
      if (state.init & bit(published_without_proxy)) complain(at, "no fence.proxy.async stands between an mbarrier's init and the barrier of all threads");
    }
    if (i.name == "wgmma") return step_wgmma(at, state);
    touch(at, state, i.name == "ret");
  }

  void step_store(std::size_t at, State& state) {
    const Instruction& i = code_[at];
    if (is(i, "wgmma", "mma_async")) state.place |= bit(product_read);
    if (i.name == "stmatrix") {
      if (state.place & bit(product_read)) complain(at, "no barrier stands between a wgmma and the stmatrix that may overwrite what it reads");
      if (state.place & bit(storing_open)) complain(at, "a bulk store is not committed");
      if ((state.place & bit(storing)) && state.stores >= buffers_) complain(at, "a bulk store may still be reading what stmatrix overwrites");
      if (state.place & bit(store_read)) complain(at, "no barrier stands between the wait for a bulk store and the stmatrix that overwrites what it read");
      state.tile = bit(tile_written);
    }
    if (is(i, "fence", "proxy") && has(i, "async")) state.tile = moved(state.tile, {{tile_written, tile_fenced}});
    if (i.name == "bar" && has(i, "sync")) {
      state.tile = moved(state.tile, {{tile_fenced, tile_ready}});
      state.place = moved(state.place, {{product_read, nobody}, {store_read, nobody}});
    }
    if (i.name == "ret" && (state.place & bit(storing_open))) complain(at, "a bulk store is not committed");
    if (i.name == "ret" && state.stores > 0) complain(at, "the kernel ends while a bulk store may still be reading");
    if (i.name != "cp" || !has(i, "bulk")) return;
    if (has(i, "bulk_group")) {
      if (state.tile & bit(tile_written)) complain(at, "no fence.proxy.async stands between stmatrix and the bulk store of what it wrote");
      if (state.tile & bit(tile_fenced)) complain(at, "no barrier stands between stmatrix and the bulk store of what other threads wrote");
      if (state.tile & bit(no_tile)) complain(at, "a bulk store of what no stmatrix has written");
      state.place = bit(storing_open);
    } else if (has(i, "commit_group")) {
      state.place = moved(state.place, {{storing_open, storing}});
      state.stores = std::min(state.stores + 1, most_groups);
    } else if (has(i, "wait_group")) {
      if (state.place & bit(storing_open)) complain(at, "a bulk store is not committed");
      state.place = moved(state.place, {{storing, store_read}});
      state.stores = std::min(state.stores, static_cast<int>(i.operands.at(0).value));
    }
  }

  void step_wgmma(std::size_t at, State& state) {
    const Instruction& i = code_[at];
    if (i.parts[0] == "fence") state.batch = bit(open);
    if (i.parts[0] == "mma_async") {
      if (state.batch & bit(idle)) complain(at, "no wgmma.fence stands before the first wgmma of a batch");
      if (state.landed & ~bit(clean)) complain(at, "no fence.proxy.async and barrier stand between a landed cp.async and the wgmma that reads it");
      std::vector<int> sums, operands;
      slots_of(i.operands.at(0), sums);
      if (i.operands.at(1).kind == Operand::vector) slots_of(i.operands[1], operands);
      for (int slot : operands) {
        if (const auto found = state.registers.find(slot); found != state.registers.end() && found->second.sum) complain(at, "a wgmma takes a sum in flight as its operand");
        state.registers.try_emplace(slot, InFlight{-1, false}).first->second.newer = -1;
      }
      for (int slot : sums) state.registers[slot] = {-1, true};
      state.batch = bit(issued);
    }
    if (i.parts[0] == "commit_group") {
      for (auto& [slot, flight] : state.registers) flight.newer = std::min(flight.newer + 1, most_groups);
      state.groups = std::min(state.groups + 1, most_groups);
      state.batch = bit(idle);
    }
    if (i.parts[0] == "wait_group") {
      if (state.batch & bit(issued)) complain(at, "a batch is waited for that is not committed");
      const int pending = static_cast<int>(i.operands.at(0).value);
      std::erase_if(state.registers, [&](const auto& each) { return each.second.newer >= pending; });
      state.groups = std::min(state.groups, pending);
    }
  }

  /// Other instructions leave what is in flight alone. The first operand is written, except by stores and branches.
  void touch(std::size_t at, const State& state, bool ends) {
    if (ends && (!state.registers.empty() || (state.batch & bit(issued)))) complain(at, "the kernel ends while a wgmma is in flight");
    if (state.registers.empty()) return;
    const Instruction& i = code_[at];
    for (std::size_t k = 0; k < i.operands.size(); ++k) {
      std::vector<int> slots;
      slots_of(i.operands[k], slots);
      const bool writes = k == 0 && i.operands[0].kind != Operand::memory && i.name != "bra" && i.name != "bar";
      for (int slot : slots) {
        const auto found = state.registers.find(slot);
        if (found == state.registers.end()) continue;
        if (found->second.sum) complain(at, "a sum in flight is touched before its wgmma is waited for");
        else if (writes) complain(at, "a register that a wgmma in flight reads is overwritten");
      }
    }
  }

  // ---- straight-line rules
  void look_at(std::size_t at) {
    const Instruction& i = code_[at];
    if (i.name == "mbarrier" && i.parts[0] == "init") {
      const std::uint64_t count = i.operands.at(1).value;
      const auto warps = static_cast<std::uint64_t>(threads_ / 32);
      const bool consumers = kernel_.resident && count + 4 == warps;   // all but the producer's
      if (count != 1 && count != warps && !consumers) complain(at, "an mbarrier expects neither one arrival nor one of each warp");
    }
    if (i.name == "mbarrier" && i.parts[0] == "try_wait") {
      const Instruction* next = at + 1 < code_.size() ? &code_[at + 1] : nullptr;
      const bool again = next && next->name == "bra" && next->negated && next->predicate == i.operands.at(0).slot && next->operands.at(0).value == at;
      if (!again) complain(at, "a try_wait is not tried again where it fails");
    }
    if (is_bulk(i) && announced(at) == code_.size()) complain(at, "a copy stands behind no expect_tx of its mbarrier");
    if (!has(i, "expect_tx")) return;
    std::int64_t bytes = 0;
    for (std::size_t k = at + 1; k < code_.size() && !ends_block(k); ++k) {
      if (is_bulk(code_[k]) && announced(k) == at) bytes += bytes_of(code_[k]);
    }
    if (bytes != static_cast<std::int64_t>(i.operands.back().value))
      complain(at, "an expect_tx of " + std::to_string(i.operands.back().value) + " bytes, whose copies bring " + std::to_string(bytes));
  }

  bool ends_block(std::size_t at) const {
    if (code_[at].name == "bra" || code_[at].name == "ret") return true;
    return std::any_of(labels_.begin(), labels_.end(), [&](const auto& label) { return label.second == at; });
  }
  /// The expect_tx in the same block that announces the copy at `at`; the code's end where there is none.
  std::size_t announced(std::size_t at) const {
    for (std::size_t k = at; k-- > 0;) {
      if (has(code_[k], "expect_tx")) return code_[k].operands.at(1).text == code_[at].operands.at(2).text ? k : code_.size();
      if (ends_block(k)) break;
    }
    return code_.size();
  }
  /// The box of the tensor map that the copy takes.
  std::int64_t bytes_of(const Instruction& copy) const {
    std::string name = copy.operands.at(1).text;
    for (int hop = 0; hop < 4; ++hop) {
      const auto source = std::find_if(code_.begin(), code_.end(), [&](const Instruction& i) { return (i.name == "mov" || i.name == "cvta") && i.operands[0].text == name; });
      if (source != code_.end()) name = source->operands[1].text;
    }
    const auto parameter = parameters_.find(name);
    if (parameter == parameters_.end()) return -1;
    const auto first = static_cast<int>(parameters_.size() - kernel_.tensor_maps.size());
    const TensorMap& map = kernel_.tensor_maps.at(static_cast<std::size_t>(parameter->second - first));
    std::int64_t bytes = byte_size(kernel_.parameters.at(map.parameter).type.element);
    for (const std::int32_t extent : map.box) bytes *= extent;
    return bytes;
  }

  const CompiledKernel& kernel_;
  bool through_ring_ = false;      // tiles are stored from a ring's stage
  int buffers_ = 1;                // or from so many buffers, one after the other
  std::set<std::string> complaints_;
};

}  // namespace flextile::test
