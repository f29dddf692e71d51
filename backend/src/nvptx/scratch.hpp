// Which operations pass data between threads through shared memory, how much of it they need and how it lies there.
#pragma once
#include <cstdint>
#include <vector>

#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

#include "nvptx/layouts.hpp"

namespace flextile::backend {

/// A convert_layout to layout_of_wide_rows of 16-bit numbers: lanes exchange them by shuffles.
bool widens_rows(const ir::Function& function, const ir::Operation& operation);
/// A convert_layout of numbers in which each lane takes them from one other lane; else none.
std::optional<LaneMove> lane_move_of(const ir::Function& function, const ir::Operation& operation);
/// A move's registers when no thread needs another's element (see register_map); else empty.
std::vector<int> move_map(const ir::Function& function, const ir::Operation& operation);

/// How a moved tile lies in scratch memory, in elements.
struct ScratchShape {
  int element_bytes = 4;
  std::vector<int> source_strides;
  std::vector<int> target_strides;
  int source_run = 1;                  // elements per store
  int target_run = 1;                  // elements per load
  std::int64_t bytes = 0;
};
ScratchShape move_scratch(const ir::Function& function, const ir::Operation& operation);

/// Warps that share a row of this reduction; 1: no scratch is needed.
int reduce_warps(const ir::Function& function, const ir::Operation& operation);
/// Elements of one partial result of one warp position.
int reduce_partial_elements(const ir::Function& function, const ir::Operation& operation);

/// True when no operation of the function takes `value`.
bool has_no_use(const ir::Function& function, ir::Value value);

/// Bytes of scratch that an operation needs; 0: none. It then writes them, waits at a barrier and reads them.
std::int64_t scratch_bytes(const ir::Function& function, const ir::Operation& operation);

/// Bytes of shared memory that one program can have on the target, where `occupancy` of them share a multiprocessor.
std::int64_t shared_memory_limit(const Target& target, int occupancy);
/// Bytes of shared memory that one program needs; right after allocate_shared.
int shared_memory_bytes(const ir::Function& function);

}  // namespace flextile::backend
