#include <flextile/attention/attention_config.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace flextile {
namespace {

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

/// The fewest equal parts of at most `limit` that cover `block`.
void split(int block, int limit, int& parts, int& step, int& tile) {
  parts = (block + limit - 1) / limit;
  step = (block + parts - 1) / parts;
  tile = round_up(step, 16);
}

/// Largest compute tile that the target's registers (or caches) hold well.
struct Limits {
  int block_m, block_n, num_warps, stages;
};

/// More than 160 KiB of shared memory per program; the other targets have about 99.
bool has_large_shared_memory(const Target& target) { return target.sm == 80 || target.sm == 87 || (target.sm >= 90 && target.sm < 120); }

/// The compiler makes wgmma of products whose operands the copy engine fetches: rows of whole 16-byte chunks.
bool multiplies_in_warpgroups(const AttentionShape& shape, const Target& target) {
  return target.sm == 90 && target.arch_specific && shape.element != ElementType::f32 && shape.dim % 8 == 0 && shape.value_dim % 8 == 0;
}

/// Blocks of 192 rows compute hardly more rows that do not exist than blocks of 128 would: 12 % more at 1,024 rows is too many.
bool suits_wide_blocks(std::int64_t q_len) {
  auto computed = [&](std::int64_t block) { return (q_len + block - 1) / block * block; };
  return computed(192) * 100 <= computed(128) * 106;
}

/// Defaults of kernels whose products are wgmma, measured on an H200 (docs/performance.md). Three warpgroups of 64 rows keep the matrix
/// units busier than two, where the rows of a block can be shared out so. Narrow steps leave registers for both products at once: half of
/// scores, weights and output take at most 128 of a thread's 160. A mod that reads memory for each score needs more of them still.
struct Defaults {
  int dim;            // head dims up to this one
  ModWeight weight;   // of the score mod
  Limits unmasked;    // all keys, where blocks of 192 rows suit the length; else as `usual`
  Limits wide;        // a block mask whose tiles have a multiple of 192 rows
  Limits usual;       // any other block mask
};

constexpr Defaults warpgroup_defaults[] = {
    {64, ModWeight::light, {192, 128, 12, 3}, {192, 128, 12, 3}, {128, 80, 8, 3}},
    {64, ModWeight::matrix, {192, 128, 12, 3}, {192, 128, 12, 3}, {128, 64, 8, 4}},
    {64, ModWeight::reads, {192, 96, 12, 3}, {192, 96, 12, 3}, {128, 80, 8, 3}},
    {80, ModWeight::light, {192, 112, 12, 3}, {192, 96, 12, 3}, {128, 128, 8, 2}},
    {96, ModWeight::light, {192, 96, 12, 3}, {192, 96, 12, 3}, {128, 128, 8, 2}},
    {96, ModWeight::matrix, {192, 64, 12, 3}, {192, 64, 12, 3}, {128, 64, 8, 3}},
    {96, ModWeight::reads, {128, 128, 8, 2}, {192, 96, 12, 3}, {128, 128, 8, 2}},
    {128, ModWeight::light, {192, 80, 12, 3}, {192, 80, 12, 3}, {128, 128, 8, 2}},
    {128, ModWeight::matrix, {192, 64, 12, 3}, {192, 64, 12, 3}, {128, 64, 8, 3}},
    {128, ModWeight::reads, {128, 128, 8, 2}, {192, 80, 12, 3}, {128, 128, 8, 2}},
    {256, ModWeight::light, {128, 80, 8, 2}, {128, 80, 8, 2}, {128, 80, 8, 2}},
    {256, ModWeight::matrix, {128, 80, 8, 2}, {128, 80, 8, 2}, {128, 80, 8, 2}},
    {256, ModWeight::reads, {128, 80, 8, 2}, {128, 80, 8, 2}, {128, 80, 8, 2}},
};

const Defaults& warpgroup_defaults_of(int dim, ModWeight weight) {
  return *std::find_if(std::begin(warpgroup_defaults), std::end(warpgroup_defaults), [&](const Defaults& row) { return dim <= row.dim && weight == row.weight; });
}

Limits limits_of(const AttentionShape& shape, const Target& target, std::int64_t q_len) {
  const int dim = std::max(shape.dim, shape.value_dim);
  if (!target.is_gpu()) return dim > 128 ? Limits{64, 64, 1, 1} : Limits{128, 128, 1, 1};
  if (shape.element == ElementType::f32) return dim > 128 ? Limits{32, 32, 8, 2} : dim > 64 ? Limits{64, 32, 8, 2} : Limits{64, 32, 4, 2};
  if (multiplies_in_warpgroups(shape, target)) {
    const Defaults& defaults = warpgroup_defaults_of(dim, shape.weight);
    if (shape.q_block == 0) return suits_wide_blocks(q_len) ? defaults.unmasked : defaults.usual;
    return shape.q_block % 192 == 0 ? defaults.wide : defaults.usual;
  }
  // Without warpgroups, four warps of 32 rows read each key and value tile half as often as eight
  // of 16, and two such programs share a multiprocessor; larger head dims have no registers for that.
  if (dim > 128 && !has_large_shared_memory(target)) return {64, 16, 4, 2};
  return dim > 128 ? Limits{128, 64, 8, 2} : dim > 64 ? Limits{128, 32, 4, 3} : Limits{128, 64, 4, 2};
}

/// Two programs share a multiprocessor where a thread of eight warps can hold its part of scores and output in 104 registers: four
/// warpgroups then take turns at the matrix units, of which each waits for its products. Two that keep a product in flight do worse.
int occupancy_of(const AttentionShape& shape, const AttentionConfig& config, const Target& target) {
  constexpr int most = 72;
  return multiplies_in_warpgroups(shape, target) && config.num_warps == 8 && config.block_m == 128 && (config.block_n + config.padded_value_dim) / 2 <= most ? 2 : 1;
}

}  // namespace

AttentionConfig choose_config(const AttentionShape& shape, const Target& target, int block_m, int block_n, int num_warps, std::int64_t q_len) {
  Limits limits = limits_of(shape, target, q_len);
  if (num_warps > 0) limits.num_warps = num_warps;
  if (block_m > 0) limits.block_m = round_up(block_m, 16);
  if (block_n > 0) limits.block_n = round_up(block_n, 16);
  AttentionConfig config;
  split(shape.q_block ? shape.q_block : limits.block_m, limits.block_m, config.row_parts, config.row_step, config.block_m);
  split(shape.kv_block ? shape.kv_block : limits.block_n, limits.block_n, config.column_parts, config.column_step, config.block_n);
  config.padded_dim = round_up(shape.dim, 16);
  config.padded_value_dim = round_up(shape.value_dim, 16);
  config.num_warps = limits.num_warps;
  config.stages = limits.stages;
  // A matrix instruction of half types takes 16 rows of a warp; f32 on a GPU is multiplied element by element.
  const int rows = shape.element == ElementType::f32 ? 4 : 16;
  while (config.num_warps > 1 && config.num_warps * rows > config.block_m) config.num_warps = config.num_warps == 12 ? 8 : config.num_warps / 2;
  // Every warp takes as many rows: the last ones may be padding, but an uneven tile would put whole rows of it into each warp.
  if (target.is_gpu()) config.block_m = round_up(config.row_step, config.num_warps * rows);
  // Warps with more rows than that keep fewer columns, or their registers spill.
  if (target.is_gpu() && shape.element != ElementType::f32 && !multiplies_in_warpgroups(shape, target) && std::max(shape.dim, shape.value_dim) > 64 && config.block_m > config.num_warps * rows)
    split(shape.kv_block ? shape.kv_block : 32, std::min(limits.block_n, 32), config.column_parts, config.column_step, config.block_n);
  config.occupancy = occupancy_of(shape, config, target);
  return config;
}

namespace {

/// Bytes of a program's tiles on a GPU: the query's, and those of keys and values in flight.
std::int64_t tile_bytes(const AttentionShape& shape, const AttentionConfig& c) {
  const std::int64_t query = std::int64_t{c.block_m} * c.padded_dim, keys = std::int64_t{c.stages} * c.block_n * (c.padded_dim + c.padded_value_dim);
  return (query + keys) * byte_size(shape.element);
}

/// The table of what else may be fastest: at most so many rows, columns, warps and stages.
std::vector<Limits> alternatives(const AttentionShape& shape, const Target& target) {
  const int dim = std::max(shape.dim, shape.value_dim);
  if (!target.is_gpu()) return {{128, 128, 1, 1}, {64, 128, 1, 1}, {128, 64, 1, 1}, {64, 64, 1, 1}, {32, 128, 1, 1}};
  if (shape.element == ElementType::f32) return {{64, 32, 8, 2}, {64, 32, 4, 2}, {32, 32, 4, 2}, {32, 32, 8, 2}, {64, 64, 8, 2}};
  if (multiplies_in_warpgroups(shape, target)) {
    if (dim <= 64) return {{192, 128, 12, 3}, {192, 128, 12, 2}, {192, 96, 12, 3}, {192, 64, 12, 4}, {128, 128, 8, 3}, {128, 96, 8, 3}, {128, 64, 8, 4}, {64, 128, 4, 3}};
    if (dim <= 128) return {{192, 80, 12, 3}, {192, 80, 12, 2}, {192, 64, 12, 3}, {128, 128, 8, 2}, {128, 96, 8, 2}, {128, 80, 8, 3}, {128, 64, 8, 3}, {64, 128, 4, 2}};
    return {{128, 96, 8, 2}, {128, 80, 8, 2}, {128, 64, 8, 2}, {128, 48, 8, 2}, {64, 80, 4, 2}, {64, 64, 4, 2}};
  }
  if (dim <= 64) return {{128, 64, 4, 2}, {128, 64, 4, 3}, {128, 32, 4, 3}, {64, 64, 4, 2}, {64, 64, 4, 3}, {64, 32, 4, 3}, {128, 64, 8, 2}};
  if (dim <= 128) return {{128, 32, 4, 3}, {128, 32, 4, 2}, {128, 64, 8, 2}, {64, 64, 4, 2}, {64, 64, 4, 3}, {64, 32, 4, 3}};
  return {{128, 64, 8, 2}, {128, 32, 8, 2}, {64, 64, 4, 2}, {64, 32, 4, 2}, {64, 16, 4, 2}};
}

/// Steps and tiles are equal, and a block mask's tile is a whole number of them.
bool is_unpadded(const AttentionShape& shape, const AttentionConfig& c) {
  const bool rows = c.row_step == c.block_m && (shape.q_block == 0 || c.row_parts * c.row_step == shape.q_block);
  const bool columns = c.column_step == c.block_n && (shape.kv_block == 0 || c.column_parts * c.column_step == shape.kv_block);
  return rows && columns;
}

}  // namespace

std::vector<AttentionConfig> candidate_configs(const AttentionShape& shape, const Target& target, std::int64_t q_len) {
  constexpr std::int64_t most_shared_memory = 227 << 10;   // of any target: what fits less is refused by the compiler
  std::vector<AttentionConfig> configs = {choose_config(shape, target, 0, 0, 0, q_len)};
  if (!is_unpadded(shape, configs[0])) return configs;
  for (const Limits& limits : alternatives(shape, target)) {
    AttentionConfig config = choose_config(shape, target, limits.block_m, limits.block_n, limits.num_warps, q_len);
    config.stages = limits.stages;
    const bool fits = !target.is_gpu() || tile_bytes(shape, config) <= most_shared_memory;
    if (fits && is_unpadded(shape, config) && std::find(configs.begin(), configs.end(), config) == configs.end()) configs.push_back(config);
  }
  return configs;
}

MaskBlock best_mask_block(ElementType element, int dim, const Target& target, std::int64_t q_len) {
  if (!multiplies_in_warpgroups({.element = element, .dim = dim, .value_dim = dim}, target)) return {};
  const std::int64_t rows = q_len > 0 ? q_len : std::numeric_limits<std::int64_t>::max();
  if (rows <= 1024 || dim > 192) return {};              // as quick there
  if (rows <= 4096 && dim > 80) return {};               // keys and values are not yet read so often that others pay
  if (dim > 128) return {128, 80};
  if (rows <= 4096 && dim <= 64) return {128, 80};
  if (!suits_wide_blocks(q_len)) return {};
  const Limits& wide = warpgroup_defaults_of(dim, ModWeight::light).wide;
  return {wide.block_m, wide.block_n};
}

std::string to_string(const AttentionConfig& c) {
  auto number = [](int value) { return std::to_string(value); };
  return "block " + number(c.block_m) + "x" + number(c.block_n) + ", " + number(c.row_parts) + "x" + number(c.column_parts) + " parts of " +
         number(c.row_step) + "x" + number(c.column_step) + ", dims " + number(c.padded_dim) + "/" + number(c.padded_value_dim) + ", " +
         number(c.num_warps) + " warps, " + number(c.stages) + " stages" +
         (c.occupancy == 1 ? "" : ", " + number(c.occupancy) + " programs a multiprocessor");
}

}  // namespace flextile
