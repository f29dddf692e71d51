// What a kernel is up against: an estimate of the clocks that each unit of a multiprocessor needs for the work of one iteration.
//
// The numbers are least times: a unit that is never idle needs so long. Tiles count as often as threads hold them. Scalars, addresses
// and barriers count nothing. Of two sides of a branch the cheaper one counts, and what only a select on `unlikely` takes counts
// nothing: masks and rescaling are the exception. What products read is shared by programs and comes at the L2 cache's rate; without
// products, everything comes from main memory.
#pragma once
#include <string>

#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile::backend {

/// One number per unit of a multiprocessor.
struct UnitClocks {
  double matrix = 0;    // matrix instructions
  double special = 0;   // exp2, tanh, reciprocals, ...
  double fp32 = 0;      // additions, multiplications, fma
  double integer = 0;   // integers, comparisons, selects, minima, conversions
  double issue = 0;     // instructions of all kinds, but for those of few threads
  double shared = 0;    // bytes through shared memory
  double global = 0;    // bytes from and to memory

  UnitClocks& operator+=(const UnitClocks& other);
  UnitClocks operator*(double factor) const;
  /// That of the unit that takes longest.
  double most() const;
};

struct Bound {
  UnitClocks clocks;            // of one iteration of the loop that does the products; where there is none, of a loop that reads; else of a program
  bool per_iteration = false;
  std::string products;         // "192x80x128 and 192x128x80": M, N and K of the products in it
  ir::Location location;        // of the loop
};

/// The bound of a scheduled function (after all passes) on a target whose rates we know; a Bound of zeros elsewhere.
Bound bound_of(const ir::Function& scheduled, const Target& target);

/// "[bound] matrix units: an iteration (192x80x128 and 192x128x80) takes at least 1920 clocks of a multiprocessor's matrix units, 960 of
/// special functions, ..."; "" where nothing is known.
std::string explain_bound(const ir::Function& scheduled, const Target& target);

}  // namespace flextile::backend
