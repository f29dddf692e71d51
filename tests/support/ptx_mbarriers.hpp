// mbarriers: objects in shared memory that threads arrive at and that copies report their bytes to. A phase of one ends when
// `count` threads have arrived and every expected byte has landed; then the next phase begins.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

namespace flextile::test {

class Mbarriers {
 public:
  void clear() { barriers_.clear(); }

  /// `place`: the object's 8 bytes. A mark in them shows whether something else is written there.
  void initialise(std::uint64_t address, std::uint8_t* place, std::int64_t count) {
    if (count < 1 || count >= 1 << 20) throw std::runtime_error(name(address) + " is initialised with count " + std::to_string(count) + ": must be from 1 to 1048575");
    if (!barriers_.try_emplace(address, Barrier{place, count, count, 0, 0}).second) throw std::runtime_error(name(address) + " is initialised twice");
    std::memcpy(place, &mark, sizeof mark);
  }
  void invalidate(std::uint64_t address) {
    at(address);
    barriers_.erase(address);
  }

  /// Arrivals that the running phase still lacks.
  std::int64_t pending(std::uint64_t address) { return at(address).arrivals; }
  /// One thread arrives. Whether that ends the phase.
  bool arrive(std::uint64_t address, std::int64_t threads = 1) {
    Barrier& barrier = at(address);
    barrier.arrivals -= threads;
    if (barrier.arrivals < 0) throw std::runtime_error("more threads arrive at " + name(address) + " in one phase than its count of " + std::to_string(barrier.count));
    return end_phase(barrier);
  }
  void expect_bytes(std::uint64_t address, std::int64_t bytes) { at(address).bytes += bytes; }
  bool land_bytes(std::uint64_t address, std::int64_t bytes) {
    Barrier& barrier = at(address);
    barrier.bytes -= bytes;
    return end_phase(barrier);
  }

  /// Whether the phase of this parity has ended: the running one has the other.
  bool ended(std::uint64_t address, bool parity) { return (at(address).phase & 1) != parity; }
  void require(std::uint64_t address) { at(address); }

  std::string describe(std::uint64_t address) {
    const Barrier& barrier = at(address);
    return name(address) + ", whose phase " + std::to_string(barrier.phase) + " lacks " + std::to_string(barrier.arrivals) + " of " + std::to_string(barrier.count) +
           " arrivals and " + std::to_string(barrier.bytes) + " bytes";
  }

 private:
  struct Barrier {
    std::uint8_t* place;
    std::int64_t count, arrivals, bytes;     // arrivals and bytes: still to come in this phase; copies may land before they are expected
    std::int64_t phase;
  };
  static constexpr std::uint64_t mark = 0x72656972726162d6;

  static std::string name(std::uint64_t address) { return "the mbarrier at shared address " + std::to_string(address); }

  Barrier& at(std::uint64_t address) {
    const auto found = barriers_.find(address);
    if (found == barriers_.end()) throw std::runtime_error(name(address) + " is used before it is initialised");
    if (std::memcmp(found->second.place, &mark, sizeof mark) != 0) throw std::runtime_error(name(address) + " was overwritten");
    return found->second;
  }
  static bool end_phase(Barrier& barrier) {
    if (barrier.arrivals != 0 || barrier.bytes != 0) return false;
    barrier.arrivals = barrier.count;
    ++barrier.phase;
    return true;
  }

  std::map<std::uint64_t, Barrier> barriers_;
};

}  // namespace flextile::test
