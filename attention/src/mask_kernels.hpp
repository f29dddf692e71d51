// The kernels that build a block mask: tile programs, without anything of a device.
//
//   classify   every tile of a chunk of tile rows: absent, partial or full, as one byte
//   count      adds to each list's count the visible tiles of a chunk
//   compact    appends each list's visible tiles of a chunk, in ascending order
//   order      ranks the lists of a group, those with most tiles first
//
// Lists by row and lists by column run the same kernels, on the classes and on their transpose.
#pragma once
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::attention {

enum class TileClass : std::uint8_t { absent = 0, partial = 1, full = 2 };

struct ClassifyKernel {
  const ir::Function* mask = nullptr;      // the mask mod's fragment
  int q_block = 128, kv_block = 128;
  bool operator==(const ClassifyKernel&) const = default;
  std::uint64_t hash() const;
  int tiles_per_program() const;
  std::vector<ir::Parameter> signature() const;
  /// `facts` is signature() with what is known of the arguments.
  ir::Function trace(const std::vector<ir::Parameter>& facts) const;
};

struct CompactKernel {
  bool count_only = false;                 // count; else compact
  bool packed = false;                     // the starts are given; else they are list * pitch and are written
  bool operator==(const CompactKernel&) const = default;
  std::uint64_t hash() const;
  std::vector<ir::Parameter> signature() const;
  ir::Function trace(const std::vector<ir::Parameter>& facts) const;
};

struct OrderKernel {
  bool operator==(const OrderKernel&) const = default;
  std::uint64_t hash() const { return 0; }
  /// Lists that a program ranks.
  static constexpr int lists_per_program = 32;
  std::vector<ir::Parameter> signature() const;
  ir::Function trace(const std::vector<ir::Parameter>& facts) const;
};

}  // namespace flextile::attention
