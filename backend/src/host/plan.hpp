// What runs together and where values live, decided before any LLVM IR is written.
//
//   group    consecutive operations of one block that one sweep over a tile computes (or scalars, or one big operation)
//   lazy     a value that is never stored: every reader computes it again (arange, broadcast, index arithmetic)
//   slot     a piece of the scratch area; values whose lives do not meet, or that are updated in place, share one
//   wide     a bf16, f16 or i8 value that a dot reads: its slot holds f32 (or i32), already rounded to the narrow type
//   panels   a tile that dots read only as their right operand: its slot is laid out as the micro-kernel reads it
//   position groups and the ends of loops are numbered in the order in which they run; lives are ranges of positions
#pragma once
#include <cstdint>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::backend::host {

struct Group {
  enum class Kind : std::uint8_t { scalars, sweep, single };
  Kind kind = Kind::single;
  ir::Shape shape;                              // sweep: what is swept
  std::vector<ir::OperationId> operations;
  int begin = 0;                                // positions
  int end = 0;                                  // after the group's blocks; begin when it has none
};

struct Slot {
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
  int begin = 0;                                // life
  int end = 0;
};

struct Plan {
  std::vector<std::vector<Group>> blocks;       // by block
  std::vector<bool> lazy;                       // by value
  std::vector<bool> wide;                       // by value
  std::vector<int> panel;                       // by value: columns of a panel; 0: row-major
  std::vector<int> slot;                        // by value; -1: lives in no slot
  std::vector<Slot> slots;
  std::vector<std::vector<int>> temporaries;    // by operation: slots that it needs while it runs
  std::int64_t scratch_bytes = 0;
};

/// How many lanes a vector of 32-bit elements has, and how many vector registers there are.
struct Machine {
  int lanes = 4;
  int registers = 16;
};

/// The fewest facts that planning and lowering a dot must agree on.
struct DotShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool left_transposed = false, right_transposed = false;
  ir::Value left, right;                        // below the transposes
  int panel = 0;                                // columns of a packed panel of the right operand
  std::int64_t element_bytes = 4;
  std::int64_t packed_right_bytes() const { return (n + panel - 1) / panel * panel * k * element_bytes; }
  std::int64_t packed_left_bytes() const { return left_transposed ? m * k * element_bytes : 0; }
};
DotShape dot_shape(const ir::Function& function, const ir::Operation& operation, const Machine& machine);

/// Groups the operations of all blocks (group.cpp).
void form_groups(const ir::Function& function, Plan& plan);
/// Which values are wide, and which lie in panels (storage.cpp).
void choose_storage(const ir::Function& function, const Machine& machine, Plan& plan);
/// Gives the values slots, and the slots offsets (buffers.cpp).
void assign_slots(const ir::Function& function, const Machine& machine, Plan& plan);
/// All three.
Plan make_plan(const ir::Function& function, const Machine& machine);

/// The values that a read of `value` reads: itself, or what lies below a lazy value.
void append_leaves(const ir::Function& function, const Plan& plan, ir::Value value, std::vector<ir::Value>& leaves);
/// Bytes of one element of `value` in its slot.
std::int64_t stored_bytes(const ir::Function& function, const Plan& plan, ir::Value value);
/// A reshape that only inserts or drops extents of 1.
bool reshapes_ones_only(const ir::Shape& from, const ir::Shape& to);
bool is_tile(const ir::Type& type);

}  // namespace flextile::backend::host
