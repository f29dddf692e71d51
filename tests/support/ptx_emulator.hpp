// Runs the PTX of a kernel on the CPU, program by program: numbers from GPU code on a machine without a GPU.
//
// Warps run one after the other up to the next barrier, so a missing barrier shows; asynchronous copies land only when a
// wait demands it, so a missing wait shows; global accesses outside the declared ranges and shared accesses outside the
// program's own memory throw. It knows the instructions that flextile emits and throws on others.
//
// There are two orders, and a kernel must give the same numbers in both:
//   late     (last_warp_first = false): warps go from the first to the last. The copy engine's copies land one by one, and only
//            when some warp waits for their mbarrier and no warp can go on. Shows a missing or too short wait.
//   at once  (last_warp_first = true): warps go from the last to the first. The copy engine's copies land when they are issued,
//            and a warp whose arrival ends a phase lets the others go first; wgmma are done when the warp waits for them, else
//            when they are issued. Shows a stage that is released before it is read, or filled before it is released.
// A try_wait for a phase that has not ended fails once, and then parks its warp until it has: the code must try again. If no
// warp can go on, run() throws "deadlock: ..." with what each warp waits for.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx_mbarriers.hpp"
#include "ptx_numbers.hpp"
#include "ptx_program.hpp"
#include "ptx_tensor_map.hpp"

namespace flextile::test {

class PtxEmulator : private PtxProgram {
 public:
  explicit PtxEmulator(const std::string& ptx) : PtxProgram(ptx) {}

  /// Memory that the kernel may touch.
  void allow(const void* begin, std::size_t bytes) { ranges_.push_back({reinterpret_cast<std::uint64_t>(begin), reinterpret_cast<std::uint64_t>(begin) + bytes}); }

  /// `arguments`: the raw bits of each flattened parameter; of a tensor map, the address of an EmulatedTensorMap.
  void run(std::array<std::uint32_t, 3> grid, const std::vector<std::uint64_t>& arguments, std::size_t shared_bytes, bool last_warp_first = false) {
    grid_ = grid;
    arguments_ = arguments;
    for (ctaid_[2] = 0; ctaid_[2] < grid[2]; ++ctaid_[2])
      for (ctaid_[1] = 0; ctaid_[1] < grid[1]; ++ctaid_[1])
        for (ctaid_[0] = 0; ctaid_[0] < grid[0]; ++ctaid_[0]) run_program(shared_bytes, last_warp_first);
  }

  /// One program of the grid.
  void run_one(std::array<std::uint32_t, 3> id, std::array<std::uint32_t, 3> grid, const std::vector<std::uint64_t>& arguments, std::size_t shared_bytes,
               bool last_warp_first = false) {
    grid_ = grid;
    ctaid_ = id;
    arguments_ = arguments;
    run_program(shared_bytes, last_warp_first);
  }

 private:
  struct Copy { std::uint64_t target, source; unsigned bytes, existing; };
  struct BoxCopy {
    const EmulatedTensorMap* map;
    std::array<std::int32_t, 5> corner;
    std::uint64_t target, mbarrier;
  };
  struct BoxStore {
    const EmulatedTensorMap* map;
    std::array<std::int32_t, 5> corner;
    std::uint64_t source;
  };
  /// A warp's part of a wgmma: descriptors and registers as they were when it was issued. Sums and shared memory are read when it is done.
  struct Product {
    const Instruction* instruction;
    int first_thread;
    std::array<std::uint64_t, 128> left;                // four words of each lane, or one descriptor
    std::uint64_t right;
  };
  struct Products {
    std::vector<Product> open;
    std::deque<std::vector<Product>> groups;
  };
  enum class State : std::uint8_t { runs, at_barrier, parked, done };
  struct Thread {
    std::size_t pc = 0;
    State state = State::runs;
    int barrier = 0, expected = 0;                      // at_barrier: its number, and how many threads it takes (0: all that have not ended)
    std::uint64_t mbarrier = 0;                         // parked: waits for the phase of this parity
    bool parity = false;
    std::size_t failed_try = ~std::size_t{0};           // the try_wait that has failed once
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
    std::vector<BoxStore> open_stores;                  // by the copy engine
    std::deque<std::vector<BoxStore>> store_groups;
  };

  // ---- running
  void run_program(std::size_t shared_bytes, bool last_warp_first) {
    shared_.assign(shared_bytes, 0xa5);
    registers_.assign(static_cast<std::size_t>(threads_) * slots_.size(), 0);
    state_.assign(threads_, {});
    at_once_ = last_warp_first;
    parked_ = 0;
    mbarriers_.clear();
    box_copies_.clear();
    arrived_.fill(0);
    register_changes_.clear();
    products_.assign(static_cast<std::size_t>(threads_) / 32, {});
    const int warps = threads_ / 32;
    while (true) {
      bool moved = false;
      for (int i = 0; i < warps; ++i) moved = run_warp(last_warp_first ? warps - 1 - i : i) || moved;
      bool all_done = true;
      for (const Thread& thread : state_) all_done = all_done && thread.state == State::done;
      if (all_done) break;
      moved = open_barriers() || moved;
      if (!moved && !land_a_box()) deadlock();
    }
    for (const BoxCopy& copy : box_copies_) land(copy);
    for (const Products& products : products_)
      if (!products.open.empty() || !products.groups.empty()) throw std::runtime_error("a warp ends before it has waited for its wgmma");
    for (const Thread& thread : state_)
      if (!thread.open_stores.empty() || !thread.store_groups.empty()) throw std::runtime_error("a thread ends before it has waited for its bulk stores");
    for (const auto& [change, executed] : register_changes_)
      if (executed % 4 != 0) throw std::runtime_error("setmaxnreg was executed by " + std::to_string(executed % 4) + " warps of a warpgroup: must be all four");
  }

  /// Runs a warp until it can't go on. Whether it did anything.
  bool run_warp(int warp) {
    const int first = 32 * warp;
    bool moved = false;
    if (parked_ > 0) {
      for (int t = first; t < first + 32; ++t) {
        if (state_[t].state != State::parked || !mbarriers_.ended(state_[t].mbarrier, state_[t].parity)) continue;
        state_[t].state = State::runs;
        --parked_;
      }
    }
    while (true) {
      // The lanes furthest back go on; at an instruction of the whole warp they wait for the others.
      std::size_t pc = ~std::size_t{0}, after = 0;
      std::vector<int> lanes;
      bool runnable = false;
      while (true) {
        pc = ~std::size_t{0};
        lanes.clear();
        std::size_t living = 0;
        for (int t = first; t < first + 32; ++t) {
          living += state_[t].state != State::done;
          if (state_[t].state == State::runs && state_[t].pc >= after) pc = std::min(pc, state_[t].pc);
        }
        if (pc == ~std::size_t{0}) break;
        runnable = true;
        for (int t = first; t < first + 32; ++t)
          if (state_[t].state == State::runs && state_[t].pc == pc) lanes.push_back(t);
        if (lanes.size() == living || !code_.at(pc).joins_warp) break;
        after = pc + 1;
      }
      if (pc == ~std::size_t{0}) {
        bool parked = false;
        for (int t = first; parked_ > 0 && t < first + 32; ++t) parked = parked || state_[t].state == State::parked;
        if (runnable && !parked) throw std::runtime_error("some lanes of a warp never reach an instruction of the whole warp");
        return moved;
      }
      moved = true;
      const Instruction& instruction = code_.at(pc);
      std::vector<int> active;
      for (int t : lanes) {
        ++state_[t].pc;
        if (instruction.predicate >= 0 && ((reg(t, instruction.predicate) & 1) != 0) == instruction.negated) continue;
        active.push_back(t);
      }
      try {
        execute(instruction, active);
      } catch (const std::exception& error) {
        throw std::runtime_error(std::string(error.what()) + "\n  at: " + instruction.line);
      }
      if (yields_) {
        yields_ = false;
        return true;
      }
    }
  }

  std::uint64_t& reg(int thread, int slot) { return registers_[static_cast<std::size_t>(thread) * slots_.size() + slot]; }

  std::uint64_t get(int t, const Operand& operand) {
    if (operand.kind == Operand::reg) return reg(t, operand.slot);
    if (operand.kind == Operand::parameter) return tensor_map_argument(static_cast<int>(operand.value));
    if (operand.kind != Operand::special) return operand.value;
    if (operand.text[1] == 'l') return static_cast<std::uint64_t>(t % 32);
    const int axis = operand.text.back() - 'x';
    if (operand.text[1] == 't') return axis == 0 ? static_cast<std::uint64_t>(t) : 0;
    if (operand.text[1] == 'c') return ctaid_[axis];
    return operand.text[2] == 'c' ? grid_[axis] : axis == 0 ? static_cast<std::uint64_t>(threads_) : 1;
  }

  std::uint8_t* global(std::uint64_t address, std::size_t bytes) {
    for (const auto& [begin, end] : ranges_)
      if (address >= begin && address + bytes <= end) {
        if (address % bytes != 0) throw std::runtime_error("misaligned global access of " + std::to_string(bytes) + " bytes");
        return reinterpret_cast<std::uint8_t*>(address);
      }
    throw std::runtime_error("access of " + std::to_string(bytes) + " bytes outside every tensor");
  }
  std::uint8_t* shared(std::uint64_t address, std::size_t bytes) {
    if (address + bytes > shared_.size()) throw std::runtime_error("access outside shared memory at " + std::to_string(address));
    if (address % bytes != 0) throw std::runtime_error("misaligned shared access");
    return shared_.data() + address;
  }

  bool has(const Instruction& i, const char* part) {
    for (const std::string& p : i.parts)
      if (p == part) return true;
    return false;
  }

  void access(const Instruction& i, const std::vector<int>& active, bool load) {
    const bool is_parameter = has(i, "param"), is_shared = has(i, "shared") || has(i, "shared::cta");
    const std::string& type = i.parts.back();
    const unsigned bytes = static_cast<unsigned>(bits_of(type)) / 8;
    const Operand& data = i.operands[load ? 0 : 1];
    const Operand& at = i.operands[load ? 1 : 0];
    const std::vector<Operand> items = data.kind == Operand::vector ? data.items : std::vector<Operand>{data};
    for (int t : active) {
      if (is_parameter) {
        const int parameter = parameters_.at(at.text);
        if (tensor_maps_.contains(parameter)) throw std::runtime_error("ld.param reads a tensor map");
        reg(t, data.slot) = cut(arguments_.at(static_cast<std::size_t>(parameter)), 8 * static_cast<int>(bytes));
        continue;
      }
      const std::uint64_t address = (at.slot >= 0 ? reg(t, at.slot) : 0) + at.value;
      const std::size_t all = bytes * items.size();
      std::uint8_t* place = is_shared ? shared(address & 0xffffffff, all) : global(address, all);
      for (std::size_t k = 0; k < items.size(); ++k) {
        if (load) {
          std::uint64_t value = 0;
          std::memcpy(&value, place + k * bytes, bytes);
          if (items[k].slot >= 0) reg(t, items[k].slot) = type[0] == 's' ? static_cast<std::uint64_t>(extend(value, 8 * static_cast<int>(bytes))) : value;
        } else {
          const std::uint64_t value = get(t, items[k]);
          std::memcpy(place + k * bytes, &value, bytes);
        }
      }
    }
  }

  void whole_warp(const std::vector<int>& active) {
    if (active.size() != 32) throw std::runtime_error("only " + std::to_string(active.size()) + " lanes reach an instruction of the whole warp");
  }

  // ---- matrices: ptx_emulator_matrices.hpp
  void ldmatrix(const Instruction& i, const std::vector<int>& active);
  void stmatrix(const Instruction& i, const std::vector<int>& active);
  void mma(const Instruction& i, const std::vector<int>& active);
  void wgmma(const Instruction& i, const std::vector<int>& active);
  void multiply(const Product& product);

  void async_copy(const Instruction& i, const std::vector<int>& active) {
    for (int t : active) {
      Thread& thread = state_[t];
      if (has(i, "commit_group")) {
        thread.groups.push_back(std::move(thread.open));
        thread.open.clear();
      } else if (has(i, "wait_group")) {
        while (thread.groups.size() > get(t, i.operands[0])) {
          for (const Copy& copy : thread.groups.front()) {
            std::uint8_t* target = shared(copy.target, copy.bytes);
            std::memset(target, 0, copy.bytes);
            if (copy.existing > 0) std::memcpy(target, global_part(copy.source, copy.existing, copy.bytes), copy.existing);
          }
          thread.groups.pop_front();
        }
      } else {
        auto address = [&](const Operand& at) { return (at.slot >= 0 ? reg(t, at.slot) : 0) + at.value; };
        const auto bytes = static_cast<unsigned>(get(t, i.operands[2]));
        unsigned existing = bytes;
        if (i.operands.size() > 3) {   // a predicate says "ignore the source"; a number how many bytes exist
          const bool ignores = i.operands[3].text.rfind("%p", 0) == 0;
          const std::uint64_t value = get(t, i.operands[3]);
          existing = !ignores ? static_cast<unsigned>(value) : value & 1 ? 0 : bytes;
        }
        if (existing > bytes) throw std::runtime_error("an asynchronous copy reads more than it writes");
        if (existing > 0) global_part(address(i.operands[1]), existing, bytes);
        thread.open.push_back({address(i.operands[0]) & 0xffffffff, address(i.operands[1]), bytes, existing});
      }
    }
  }

  // ---- barriers, mbarriers and the copy engine: ptx_emulator_barriers.hpp
  void barrier(const Instruction& i, const std::vector<int>& active);
  bool open_barriers();
  [[noreturn]] void deadlock();
  std::uint64_t shared_address(int t, const Operand& at);
  void phase_ended(bool ended);
  void mbarrier(const Instruction& i, const std::vector<int>& active);
  void try_wait(const Instruction& i, int t, std::uint64_t address, bool parity);
  void elect(const Instruction& i, const std::vector<int>& active);
  void change_registers(const Instruction& i, const std::vector<int>& active);
  std::uint64_t tensor_map_argument(int parameter);
  const EmulatedTensorMap& tensor_map(int t, const Operand& at);
  void prefetch(const Instruction& i, const std::vector<int>& active);
  void copy_box(const Instruction& i, const std::vector<int>& active);
  std::array<std::int32_t, 5> corner_of(const Instruction& i, int t, const Operand& at, const EmulatedTensorMap& map);
  void bulk(const Instruction& i, const std::vector<int>& active);
  void store_box(const Instruction& i, const std::vector<int>& active);
  void store(const BoxStore& box);
  void land(const BoxCopy& copy);
  bool land_a_box();

  const std::uint8_t* global_part(std::uint64_t address, unsigned existing, unsigned alignment) {
    for (const auto& [begin, end] : ranges_)
      if (address >= begin && address + existing <= end) {
        if (address % alignment != 0) throw std::runtime_error("misaligned asynchronous copy");
        return reinterpret_cast<const std::uint8_t*>(address);
      }
    throw std::runtime_error("an asynchronous copy reads outside every tensor");
  }

  void vote(const Instruction& i, const std::vector<int>& active) {
    whole_warp(active);
    bool any = false;
    for (int t : active) any = any || (get(t, i.operands[1]) & 1) != 0;
    for (int t : active) reg(t, i.operands[0].slot) = any;
  }

  void shuffle(const Instruction& i, const std::vector<int>& active) {
    whole_warp(active);
    std::array<std::uint64_t, 32> values{};
    for (int lane = 0; lane < 32; ++lane) values[lane] = get(active[lane], i.operands[1]);
    for (int lane = 0; lane < 32; ++lane) {
      const auto amount = static_cast<int>(get(active[lane], i.operands[2])), kept = static_cast<int>(get(active[lane], i.operands[3])) >> 8 & 31;
      reg(active[lane], i.operands[0].slot) = values[has(i, "bfly") ? lane ^ amount : (lane & kept) | (amount & ~kept & 31)];
    }
  }

  void atomic(const Instruction& i, const std::vector<int>& active) {
    const bool returns = i.name == "atom";
    const std::string& type = i.parts.back();
    const std::string operation = has(i, "noftz") ? "add" : i.parts[i.parts.size() - 2];
    const unsigned bytes = static_cast<unsigned>(bits_of(type)) / 8;
    for (int t : active) {
      const Operand& at = i.operands[returns ? 1 : 0];
      std::uint8_t* place = global(reg(t, at.slot) + at.value, bytes);
      std::uint64_t old = 0;
      std::memcpy(&old, place, bytes);
      const std::uint64_t x = get(t, i.operands[returns ? 2 : 1]);
      std::uint64_t fresh = x;
      if (operation == "cas") fresh = old == cut(x, 8 * static_cast<int>(bytes)) ? get(t, i.operands[3]) : old;
      else if (operation == "inc") fresh = cut(old, 32) >= cut(x, 32) ? 0 : cut(old + 1, 32);
      else if (operation != "exch") fresh = ptx_binary(operation, type, old, x);
      std::memcpy(place, &fresh, bytes);
      if (returns) reg(t, i.operands[0].slot) = old;
    }
  }

  std::uint64_t convert(const Instruction& i, int t) {
    const std::string &to = i.parts[i.parts.size() - 2], &from = i.parts.back();
    const std::uint64_t x = get(t, i.operands[1]);
    if (to == "e4m3x2" || to == "e5m2x2") {
      if (!has(i, "rn") || !has(i, "satfinite")) throw std::runtime_error("a conversion to 8-bit floats rounds to nearest and has satfinite");
      const std::string each = to.substr(0, 4);
      return to_float8(number(get(t, i.operands[2]), "f32"), each) | to_float8(number(x, "f32"), each) << 8;
    }
    if (from == "e4m3x2" || from == "e5m2x2") {
      const std::string each = from.substr(0, 4);
      return float_bits(number(x & 0xff, each), "f16") | float_bits(number(x >> 8 & 0xff, each), "f16") << 16;
    }
    if (to == "bf16x2" || to == "f16x2") {
      const std::string half = to.substr(0, to.size() - 2);
      return float_bits(number(get(t, i.operands[2]), "f32"), half) | float_bits(number(x, "f32"), half) << 16;
    }
    if (to == "tf32") return cut(x + 0x1000, 32) & 0xffffe000u;
    if (!is_float_type(from)) {
      const std::uint64_t wide = from[0] == 's' ? static_cast<std::uint64_t>(extend(x, bits_of(from))) : cut(x, bits_of(from));
      if (!is_float_type(to)) return to[0] == 's' && bits_of(to) == 8 ? cut(static_cast<std::uint64_t>(extend(cut(wide, 8), 8)), 16) : cut(wide, bits_of(to));
      return float_bits(from[0] == 's' ? static_cast<double>(static_cast<std::int64_t>(wide)) : static_cast<double>(wide), to);
    }
    double value = number(x, from);
    if (has(i, "rni") || has(i, "rzi") || has(i, "rmi") || has(i, "rpi")) {
      value = has(i, "rni") ? std::nearbyint(value) : has(i, "rzi") ? std::trunc(value) : has(i, "rmi") ? std::floor(value) : std::ceil(value);
    }
    if (has(i, "sat") && is_float_type(to)) value = std::isnan(value) ? 0 : std::min(std::max(value, 0.0), 1.0);
    else if (has(i, "sat")) throw std::runtime_error("a saturating conversion to an integer is not emulated");
    if (is_float_type(to)) return float_bits(value, to);
    const int bits = bits_of(to);
    if (std::isnan(value)) return 0;
    const double low = to[0] == 's' ? -std::ldexp(1.0, bits - 1) : 0, high = std::ldexp(1.0, to[0] == 's' ? bits - 1 : bits);
    if (value <= low) return cut(static_cast<std::uint64_t>(static_cast<std::int64_t>(low)), bits);
    if (value >= high) return cut(to[0] == 's' ? (std::uint64_t{1} << (bits - 1)) - 1 : ~std::uint64_t{0}, bits);
    return cut(to[0] == 's' ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value), bits);
  }

  void move(const Instruction& i, int t) {
    const Operand &to = i.operands[0], &from = i.operands[1];
    const int bits = bits_of(i.parts.back());
    if (to.kind == Operand::vector) {
      const int each = bits / static_cast<int>(to.items.size());
      for (std::size_t k = 0; k < to.items.size(); ++k)
        if (to.items[k].slot >= 0) reg(t, to.items[k].slot) = cut(get(t, from) >> (each * static_cast<int>(k)), each);
      return;
    }
    std::uint64_t value = 0;
    if (from.kind == Operand::vector) {
      const int each = bits / static_cast<int>(from.items.size());
      for (std::size_t k = 0; k < from.items.size(); ++k) value |= cut(get(t, from.items[k]), each) << (each * static_cast<int>(k));
    } else {
      value = get(t, from);
    }
    reg(t, to.slot) = cut(value, bits);
  }

  std::uint64_t compute(const Instruction& i, int t) {
    const std::string& n = i.name;
    const std::string& type = i.parts.back();
    auto in = [&](std::size_t k) { return get(t, i.operands[k]); };
    if (n == "cvt") return convert(i, t);
    if (n == "cvta" && i.parts[0] == "param") return in(1);
    if (n == "selp") return in(3) & 1 ? in(1) : in(2);
    if (n == "not") return cut(~in(1), bits_of(type));
    if (n == "testp") {
      const double x = number(in(1), type);
      if (i.parts[0] == "infinite") return std::isinf(x);
      if (i.parts[0] == "finite") return std::isfinite(x);
      if (i.parts[0] == "notanumber") return std::isnan(x);
      throw std::runtime_error("unknown test");
    }
    if (n == "setp") return ptx_compare(i.parts[0], type, in(1), in(2));
    if (n == "fma") {
      const double a = number(in(1), type), b = number(in(2), type), c = number(in(3), type);
      return float_bits(type == "f64" ? std::fma(a, b, c) : std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)), type);
    }
    if (n == "ex2" || n == "lg2" || n == "rcp" || n == "rsqrt" || n == "sqrt" || n == "tanh") return float_bits(ptx_function(n, number(in(1), type)), type);
    if (n == "abs" || n == "neg") {
      if (is_float_type(type)) return float_bits(ptx_function(n, number(in(1), type)), type);
      const std::int64_t x = extend(in(1), bits_of(type));
      return cut(static_cast<std::uint64_t>(n == "abs" && x >= 0 ? x : -x), bits_of(type));
    }
    if (n == "mul" || n == "mad") {
      const bool wide = has(i, "wide"), high = has(i, "hi");
      const int bits = is_float_type(type) ? 0 : bits_of(type);
      std::uint64_t product;
      if (bits == 0) return ptx_binary("mul", type, in(1), in(2));
      if (wide) product = type[0] == 's' ? static_cast<std::uint64_t>(extend(in(1), bits) * extend(in(2), bits)) : cut(in(1), bits) * cut(in(2), bits);
      else if (high && bits == 32) product = (type[0] == 's' ? static_cast<std::uint64_t>(extend(in(1), 32) * extend(in(2), 32)) : cut(in(1), 32) * cut(in(2), 32)) >> 32;
      else if (high) product = static_cast<std::uint64_t>((static_cast<unsigned __int128>(in(1)) * in(2)) >> 64);
      else product = in(1) * in(2);
      if (n == "mad") product += in(3);
      return cut(product, wide ? 2 * bits : bits);
    }
    if (n == "bfe") {
      const auto position = in(2) & 255, length = in(3) & 255;
      const std::uint64_t field = cut(in(1) >> position, static_cast<int>(length));
      return type[0] == 's' && length > 0 ? cut(static_cast<std::uint64_t>(extend(field, static_cast<int>(length))), bits_of(type)) : field;
    }
    if (n == "bmsk") {   // clamp: as many ones as there is room for
      const std::uint64_t first = in(1), count = in(2);
      return first >= 32 ? 0 : cut(cut(~std::uint64_t{0}, static_cast<int>(std::min<std::uint64_t>(cut(count, 32), 32))) << first, 32);
    }
    if (n == "sub" && has(i, "sat")) {
      const std::int64_t difference = extend(in(1), 32) - extend(in(2), 32);
      return cut(static_cast<std::uint64_t>(std::clamp<std::int64_t>(difference, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max())), 32);
    }
    if (n == "prmt") {
      const std::uint64_t both = cut(in(1), 32) | cut(in(2), 32) << 32, selector = in(3);
      std::uint64_t result = 0;
      for (int k = 0; k < 4; ++k) {
        std::uint64_t byte = both >> (8 * (selector >> (4 * k) & 7)) & 255;
        if (selector >> (4 * k) & 8) byte = byte & 128 ? 255 : 0;   // copies of its sign
        result |= byte << (8 * k);
      }
      return result;
    }
    const std::uint64_t result = ptx_binary(n, type, in(1), in(2));
    return has(i, "relu") && static_cast<std::int64_t>(extend(result, bits_of(type))) < 0 && type[0] == 's' ? 0 : result;   // min.relu: not below 0
  }

  void execute(const Instruction& i, const std::vector<int>& active) {
    const std::string& n = i.name;
    if (active.empty() && n != "bra") return;
    if (n == "ld" || n == "st") return access(i, active, n == "ld");
    if (n == "ldmatrix") return ldmatrix(i, active);
    if (n == "mma") return mma(i, active);
    if (n == "wgmma") return wgmma(i, active);
    if (n == "stmatrix") return stmatrix(i, active);
    if (n == "cp") return has(i, "bulk") ? bulk(i, active) : async_copy(i, active);
    if (n == "bar" || n == "barrier") return barrier(i, active);
    if (n == "shfl") return shuffle(i, active);
    if (n == "vote") return vote(i, active);
    if (n == "fence" || n == "griddepcontrol") return;   // threads run in order here, and there is one launch
    if (n == "atom" || n == "red") return atomic(i, active);
    if (n == "mbarrier") return mbarrier(i, active);
    if (n == "elect") return elect(i, active);
    if (n == "setmaxnreg") return change_registers(i, active);
    if (n == "prefetch") return prefetch(i, active);
    const bool jumps = n == "bra", ends = n == "ret", moves = n == "mov";
    for (int t : active) {
      if (jumps) state_[t].pc = i.operands[0].value;
      else if (ends) state_[t].state = State::done;
      else if (moves) move(i, t);
      else reg(t, i.operands[0].slot) = compute(i, t);
    }
  }

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
  std::vector<std::uint64_t> arguments_;
  std::array<std::uint32_t, 3> grid_{}, ctaid_{};
  std::vector<std::uint8_t> shared_;
  std::vector<std::uint64_t> registers_;
  std::vector<Thread> state_;
  bool at_once_ = false;                                        // the order; see the top of this file
  bool yields_ = false;                                         // the running warp lets the others go first
  int parked_ = 0;                                              // threads
  std::array<int, 16> arrived_{};                               // threads that came to each barrier by bar.arrive
  Mbarriers mbarriers_;
  std::vector<Products> products_;                              // of each warp: wgmma that were issued and not done
  std::deque<BoxCopy> box_copies_;                              // issued and not landed
  std::map<std::pair<const Instruction*, int>, int> register_changes_;   // warps that executed a setmaxnreg, by warpgroup
};

}  // namespace flextile::test

#include "ptx_emulator_barriers.hpp"
#include "ptx_emulator_matrices.hpp"
