// How an attention kernel is laid out: plain data, printable, part of the cache key.
#pragma once
#include <string>
#include <vector>

#include <flextile/backend/target.hpp>
#include <flextile/ir/element_type.hpp>

namespace flextile {

/// What a score mod asks of each score: arithmetic, what rows or columns alone decide, one table by distance, table(..., q - kv + c), of
/// 16- or 32-bit numbers in rows of whole 16 bytes, which is fetched in windows; an element of a captured matrix of 16-bit
/// numbers, matrix(..., q, kv), which is fetched in tiles that need room beside keys and values; or a read of its own, whose address
/// and value need registers.
enum class ModWeight { light, matrix, reads };

/// What decides the kernel's shape. Lengths, batch and head counts are not among it: they never recompile.
struct AttentionShape {
  ElementType element = ElementType::bf16;
  int dim = 64;           // E: head dim of query and key
  int value_dim = 64;     // Ev: head dim of value
  int q_block = 0;        // rows of a block mask's tile; 0: no block mask
  int kv_block = 0;       // its columns
  ModWeight weight = ModWeight::light;   // of the score mod
  bool operator==(const AttentionShape&) const = default;
};

/// Tiles and schedule of the forward kernel.
///
/// A program computes `block_m` query rows, `block_n` key columns at a time. Within a block mask's tile of q_block rows
/// there are `row_parts` programs of `row_step` rows each; its kv_block columns are taken in `column_parts` steps of
/// `column_step`. Where row_step < block_m (or column_step < block_n) the rest of the compute tile is padding.
struct AttentionConfig {
  int block_m = 64;
  int block_n = 64;
  int row_parts = 1;
  int row_step = 64;
  int column_parts = 1;
  int column_step = 64;
  int padded_dim = 64;        // dim, rounded up to a multiple of 16; the tail is zeros
  int padded_value_dim = 64;
  int num_warps = 4;
  int stages = 2;
  int occupancy = 1;          // programs that share a multiprocessor, each with its part of registers and shared memory
  bool operator==(const AttentionConfig&) const = default;
};

/// The library's own choice for a target and queries of q_len rows (0: many). `block_m`, `block_n` and `num_warps` greater than 0
/// are limits that the caller sets.
AttentionConfig choose_config(const AttentionShape& shape, const Target& target, int block_m = 0, int block_n = 0, int num_warps = 0, std::int64_t q_len = 0);

/// What is worth timing against the library's own choice, which comes first: a few configurations with other tiles, warps and stages,
/// each once. Tiles divide those of a block mask; where its own tile is padded (see AttentionConfig), that configuration stands alone.
std::vector<AttentionConfig> candidate_configs(const AttentionShape& shape, const Target& target, std::int64_t q_len = 0);

/// Rows and columns of a block mask's tiles.
struct MaskBlock {
  int q = 128;
  int kv = 128;
  bool operator==(const MaskBlock&) const = default;
};

/// The tiles of a block mask over q_len rows (0: many) that the target computes at the highest rate; 128x128 where none is better
/// known. Smaller tiles skip more.
MaskBlock best_mask_block(ElementType element, int dim, const Target& target, std::int64_t q_len = 0);

/// "block 128x32, 1x4 parts of 128x32, dims 128/128, 4 warps, 3 stages"
std::string to_string(const AttentionConfig& config);

}  // namespace flextile
