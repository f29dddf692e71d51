// Programs that stay on the device: as many are launched as it holds at a time, and each takes over programs of the grid, one
// after the other. The next one's first tiles are fetched while this one's result is stored, and nobody waits for a program to
// start.
#pragma once
#include "nvptx/tile_copies.hpp"

namespace flextile::backend {

/// The loop over programs is in the function.
bool is_resident(const ir::Function& function);

/// Puts the function's body into a loop over the programs of a worker:
///
///   worker, workers, total = programs of the grid
///   for round in 0 .. rounds, carrying what fetching needs to know of this program:
///     program = round * workers + worker, every second round the other way round (workers - 1 - worker)
///     the body, for that program
///     yield the same of the next program
///
/// Rows of an attention mask come longest first: going to and fro evens out what each worker gets. Steps: wrap, needs for every
/// scalar that fetching depends on, carry, begin, close.
class ResidentPrograms : protected TileCopies {
 protected:
  using TileCopies::TileCopies;

  /// The loop's body becomes a block of its own; the loop itself comes last (close).
  void wrap();
  /// Notes a value that must be known of the next program too. False where it cannot: it depends on more than the program's
  /// number and memory that nobody writes.
  bool needs(ir::Value value);
  /// From now on what is needed is carried. start_ holds operations for the body's beginning.
  void carry();
  /// Puts start_ in front of the body.
  void begin();
  /// The loop with its carried values; `next_base` is the base of the next program.
  void close(ir::Value next_base);

  ir::BlockId program_;                  // the body
  ir::Value round_, rounds_;
  ir::Value follows_;                    // i1: another program follows
  ir::Value base_;                       // turns of rings that the programs before have used
  std::vector<ir::Value> here_;          // what is needed, of this program
  Renamed first_names_;                  // here_ → of the first program, in front of the loop
  Renamed next_names_;                   // here_ → of the next program
  Order start_;

 private:
  void remove_unused();

  std::vector<ir::Value> needed_;        // as the body computes it
  std::vector<ir::OperationId> slice_;   // from the round
};

}  // namespace flextile::backend
