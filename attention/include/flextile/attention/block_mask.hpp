// Which tiles of the score matrix a mask leaves to compute.
//
//   auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
//   BlockMask mask = create_block_mask(causal, {.q_len = T, .kv_len = T});
//   std::cout << mask << '\n';
#pragma once
#include <array>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <flextile/dsl/mod.hpp>
#include <flextile/ir/mod.hpp>
#include <flextile/runtime/tensor.hpp>

namespace flextile {

struct BlockMaskOptions {
  std::int64_t batch = 1;          // give it where the mod reads b, and the query has several; else one mask serves every batch
  std::int64_t heads = 1;          // query heads; give it where the mod reads h, and the query has several
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  int q_block = 0;                 // rows of a tile, 8 to 256; 0: 128
  int kv_block = 0;                // columns of a tile, 8 to 256; 0: 128. Where both are 0, flex_attention may take the mask in tiles that suit the
                                   // head dim better (docs/attention.md, "In which tiles")
  int head_dim = 0;                // not 0: tiles that suit attention of this head dim and of `element` best on the device, in place of
  ElementType element = ElementType::bf16;   // q_block and kv_block (best_mask_block)
  std::int64_t workspace = 64 << 20;   // bytes that building may use beside the result
  std::optional<Device> device{};  // where the mask is built and used; default: where the captured tensors are, else Device::best()
};

/// Per row of tiles, the tiles that are not empty, in ascending order. `rows` lists the key tiles of each row of query
/// tiles, `columns` the query tiles of each column of key tiles.
struct TileLists {
  Tensor<i64> starts;              // [batch, heads, rows]: where the row's entries start
  Tensor<i32> counts;              // [batch, heads, rows]
  Tensor<i64> order;               // [batch, heads, rows, 3]: row, count, start; rows with most tiles first; of rows that differ by less than half, the last row first
  Tensor<i32> entries;             // 2 * tile + 1 where some scores of the tile are hidden, 2 * tile where none is
  bool packed = false;             // rows follow one another without gaps; else each row has room for all its tiles
};

/// PyTorch's padded tables. Entries past a row's count mean nothing. The full lists, and the lists by key tile (q_*), may
/// be left out of what is given to from_kv_blocks.
struct KvBlocks {
  Tensor<i32> kv_num_blocks;       // [batch, heads, query tiles]: number of partial key tiles
  Tensor<i32> kv_indices;          // [batch, heads, query tiles, key tiles]
  Tensor<i32> full_kv_num_blocks;
  Tensor<i32> full_kv_indices;
  Tensor<i32> q_num_blocks;        // [batch, heads, key tiles]: number of partial query tiles
  Tensor<i32> q_indices;           // [batch, heads, key tiles, query tiles]
  Tensor<i32> full_q_num_blocks;
  Tensor<i32> full_q_indices;
};

/// The visible tiles of a mask and the mod that decides inside partial tiles. A value; copies share the tables.
class BlockMask {
 public:
  BlockMask() = default;

  /// Tables in PyTorch's form, with the mod that is applied inside partial tiles (none: all is visible there). Lengths of
  /// 0 in `options` mean tiles times block. Throws ArgumentError where a count or a column is out of range, a tile is
  /// listed twice, or shapes disagree. The q_* tables are not read; they follow from the others.
  static BlockMask from_kv_blocks(const KvBlocks& tables, const BlockMaskOptions& options = {}) { return from_tables(tables, {}, options); }
  template <class MaskMod> static BlockMask from_kv_blocks(const KvBlocks& tables, const MaskMod& mask_mod, const BlockMaskOptions& options) {
    return from_tables(tables, erase_mask(mask_mod), options);
  }
  /// The same lists as PyTorch's padded tables, on the mask's device.
  KvBlocks to_kv_blocks() const;

  /// Not built yet.
  bool empty() const { return q_len_ == 0; }
  /// batch, heads, query positions, key positions; batch and heads are 1 where the mod does not read them.
  std::array<std::int64_t, 4> shape() const { return {batch_, heads_, q_len_, kv_len_}; }
  std::int64_t numel() const { return batch_ * heads_ * q_len_ * kv_len_; }
  int q_block() const { return q_block_; }
  int kv_block() const { return kv_block_; }
  std::int64_t q_tiles() const { return empty() ? 0 : (q_len_ + q_block_ - 1) / q_block_; }
  std::int64_t kv_tiles() const { return empty() ? 0 : (kv_len_ + kv_block_ - 1) / kv_block_; }
  /// Tiles that are not skipped, over all batches and heads of shape().
  std::int64_t visible_tiles() const;
  /// Percentage of the tiles that are skipped.
  double sparsity() const;
  /// 1 for every visible tile: [batch, heads, query tiles, key tiles], on the host.
  Tensor<i32> to_dense() const;
  /// A picture per batch and head, at most `limit` of them, at most `grid` characters high and wide (grid < 1: one
  /// character per tile): '#' full, '+' partial, '.' skipped.
  std::string to_string(int grid = 32, int limit = 4) const;
  /// A copy whose tables and captured tensors are on `device`.
  BlockMask to(const Device& device) const;

  const TileLists& rows() const { return rows_; }
  const TileLists& columns() const { return columns_; }
  const ir::Mod& mod() const { return mod_; }
  const Device& device() const { return device_; }
  /// Where attention keeps the same mask in tiles that suit a head dim better; null where it always takes the mask's own. Copies share it.
  class OtherTiles;
  OtherTiles* other_tiles() const { return other_tiles_.get(); }
  /// -1: the host; else the CUDA ordinal.
  std::int32_t device_index() const;
  /// Throws ArgumentError where a captured tensor was written since the mask was built.
  void check_fresh(const char* caller) const;

 private:
  friend BlockMask build_block_mask(ir::Mod mod, const BlockMaskOptions& options);
  static BlockMask from_tables(const KvBlocks& tables, ir::Mod mod, const BlockMaskOptions& options);
  void remember_versions();

  std::int64_t batch_ = 0, heads_ = 0, q_len_ = 0, kv_len_ = 0;
  int q_block_ = 0, kv_block_ = 0;
  Device device_ = Device::host();
  ir::Mod mod_;
  std::vector<std::uint64_t> versions_;   // of the mod's captured tensors, when the mask was built
  TileLists rows_, columns_;
  std::shared_ptr<OtherTiles> other_tiles_;
};

std::ostream& operator<<(std::ostream& stream, const BlockMask& mask);

/// Behind create_block_mask: `mod` is a mask mod.
BlockMask build_block_mask(ir::Mod mod, const BlockMaskOptions& options);

/// Evaluates mask_mod(b, h, q, kv) on every position, on the mask's device, and lists the tiles. Beside the result it needs
/// at most `workspace` bytes. A tile at the edge is full when each of its existing scores is visible.
template <class MaskMod> BlockMask create_block_mask(const MaskMod& mask_mod, const BlockMaskOptions& options) {
  return build_block_mask(erase_mask(mask_mod), options);
}

}  // namespace flextile
