// Programs that stay on the device: as many are launched as it holds at a time, and each takes program after program of the grid
// until all are taken. Nobody waits for a program to start, and long ones at the end of the grid are nobody's fate.
#pragma once
#include "nvptx/tile_copies.hpp"

namespace flextile::backend {

/// A producer's four warps stand behind the program's own.
inline constexpr int producer_warps = 4;

/// The function has roles: programs stay on the device and a producer fetches their tiles.
bool is_resident(const ir::Function& function);
/// The operation that holds the roles; none where there are none.
ir::OperationId roles_of(const ir::Function& function);

/// Makes of the function's body
///
///   total = programs of the grid
///   roles producer: while program < total, from the worker's number on: what fills the rings, for that program
///         consumer: while program < total:                              the body, for that program
///
/// Both loops carry (program, round, base): its number, how many were done before, and how many turns of the rings these took.
/// Steps: wrap; needs, for every scalar that fetching depends on; producer; close.
class ResidentPrograms : protected TileCopies {
 protected:
  using TileCopies::TileCopies;

  /// A role's loop over programs.
  struct ProgramLoop {
    ir::BlockId body;
    ir::Value program, round, base;
  };

  /// The body becomes that of the consumer's loop.
  void wrap();
  /// Notes a value that the producer needs too. False where it depends on more than the program's number and memory that nobody
  /// writes.
  bool needs(ir::Value value);
  /// The producer's loop, and in `names` what stands there for the values of the consumer's that are needed.
  ProgramLoop producer(Renamed& names);
  /// Ends the loops, whose programs took `producer_turns` and `consumer_turns`, and puts roles around them. `before` comes first,
  /// the ring of program numbers among it (ring_of_programs); the producer's warp `taker` takes programs.
  void close(Order before, const ProgramLoop& producer, ir::Value producer_turns, ir::Value consumer_turns, std::int64_t taker);

  ir::Value ring_of_programs(Order& order);

  ProgramLoop consumer_;
  ir::Value programs_;                   // the ring of program numbers

 private:
  ProgramLoop make_loop();
  void take_next(const ProgramLoop& loop, ir::Value turns, bool takes, std::int64_t taker);
  ir::OperationId loop_over(ir::BlockId role, const ProgramLoop& loop, ir::Value first);

  ir::Value extents_[3], total_, worker_;
  Order outside_;                        // what comes before the roles
  Order slice_;                          // of the consumer's body: what is needed
};

}  // namespace flextile::backend
