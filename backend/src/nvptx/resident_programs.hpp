// Programs that stay on the device: as many are launched as it holds at a time, and each takes program after program of the grid
// until all are taken. Nobody waits for a program to start, and long ones at the end of the grid are nobody's fate.
#pragma once
#include "nvptx/tile_copies.hpp"

namespace flextile::backend {

/// A producer's four warps stand behind the program's own.
inline constexpr int producer_warps = 4;

/// The function has roles: programs stay on the device and a producer fetches their tiles.
bool is_resident(const ir::Function& function);
/// Registers of each of its threads before a role says how many it keeps.
std::int64_t registers_at_start(const ir::Function& function);
/// The operation that holds the roles; none where there are none.
ir::OperationId roles_of(const ir::Function& function);

/// Makes of the function's body
///
///   total = programs of the grid
///   roles producer: while program < total, from the worker's number on: what fills the rings, for that program
///         consumer: while program < total:                              the body, for that program
///
/// Both loops carry (program, round, base, shared scalars): its number, how many were done before, how many turns of the rings these
/// took, and what both roles want to know of a program (coordinates, bounds, what lists say). One of the producer's warps takes the
/// next program shortly before this one's last tile is fetched; another computes all that and hands it over in a ring.
/// Steps: wrap; needs, for every scalar that fetching depends on; share; producer; close.
class ResidentPrograms : protected TileCopies {
 protected:
  using TileCopies::TileCopies;

  /// A role's loop over programs.
  struct ProgramLoop {
    ir::BlockId body;
    ir::Value program, round, base;
    std::vector<ir::Value> scalars;
  };

  /// The body becomes that of the consumer's loop.
  void wrap();
  /// Notes a value that the producer needs too. False where it depends on more than the program's number and memory that nobody
  /// writes.
  bool needs(ir::Value value);
  /// From now on the loops carry what is needed. Adds the rings that hand it over to `order`.
  std::vector<ir::Value> share(Order& order);
  /// The producer's loop, and in `names` what stands there for values of the consumer's.
  ProgramLoop producer(Renamed& names);
  /// Takes the next program, in the producer's warp `warp`; once in each of the producer's programs.
  void take(Order& order, ir::BlockId block, const ProgramLoop& producer, std::int64_t warp);
  /// Ends the loops, whose programs took so many turns, and puts roles around them. `before` comes first. The consumer asks for the
  /// next program behind `work`, which `turns` follow.
  void close(Order before, const ProgramLoop& producer, ir::Value producer_turns, ir::OperationId work, Order turns, ir::Value consumer_turns);

  ProgramLoop consumer_;

 private:
  bool reads_axis(std::int64_t axis) const;
  ProgramLoop make_loop();
  bool is_at_hand(ir::OperationId id) const;
  bool is_pointer(ir::OperationId id) const;
  ir::Value scalar_ring(Order& order, int words, std::int64_t readers);
  ir::BlockId nothing();
  void refill(Order& order, ir::BlockId block, ir::Value ring, ir::Value turn, ir::BlockId filled, Order inner, std::int64_t warp);
  ir::Value get_ticket(Order& order, ir::BlockId block, ir::Value turn);
  void hand_over(Order& order, ir::BlockId block, ir::Value turn, ir::Value program);
  std::vector<ir::Value> receive(Order& order, ir::BlockId block, ir::Value turn);
  std::vector<ir::Value> next(Order& order, const ProgramLoop& loop, ir::Value turns);
  void loop_over(ir::BlockId role, Order order, const ProgramLoop& loop);

  ir::Value extents_[3], total_, worker_;
  ir::Value ring_, tickets_;             // of (program, scalars); of programs that were taken
  Order outside_;                        // what comes before the roles
  Order slice_;                          // of the consumer's body: what is needed
  std::vector<ir::Value> computed_;      // in it: what is shared
  std::vector<ir::OperationId> pointers_;     // pointers that each role computes for itself
};

}  // namespace flextile::backend
