#include "forward_kernel.hpp"

#include <algorithm>
#include <limits>

#include <flextile/dsl/dsl.hpp>

#include "kernel_families.hpp"
#include "kernel_parameters.hpp"
#include "mod_arguments.hpp"
#include "mod_trend.hpp"
#include "mod_weight.hpp"

namespace flextile::attention {
namespace {

ir::Parameter tensor(const char* name, ElementType element, int rank, bool read_only) {
  return {.name = name, .type = ir::Type::view(element, rank), .read_only = read_only};
}

constexpr float slack = 8;   // in powers of 2: weights stay below 256, far from where f32 or f16 end

/// The first reference of a row. Scores below it count for nothing: f32 is so coarse there that a score and its reference, which is
/// rounded, may be further apart than an exponent of the weights' type goes.
float first_reference(ElementType element) { return element == ElementType::f16 ? -0x1p28f : -0x1p31f; }

/// x[M] as a column [M, 1].
AnyTile column(const AnyTile& x) { return expand_dims(x, 1); }

/// first, first + 1, ...: rows or columns, which are 0 or more.
AnyTile positions(const AnyTile& first, int count) {
  const AnyTile sum = first + arange(count);
  ir::Function& function = builder_here().function();
  function.operation(function.definition(sum.value()).operation).attributes.set(ir::AttributeName::position, std::int64_t{1});
  return sum;
}

/// Stores rows first .. first + M that lie below `end` into axis 2 of `view` (batch, head, row[, column]).
/// Only where the compute tile has padding: otherwise view stores drop what lies outside.
void store_rows_below(const AnyView& view, const AnyTile& value, const AnyTile& batch, const AnyTile& head, const AnyTile& rows, const AnyTile& end) {
  AnyPointer first = view.base() + (cast(batch, ElementType::i64) * view.stride(0) + cast(head, ElementType::i64) * view.stride(1));
  if (value.rank() == 1) {
    store(first + cast(rows, ElementType::i64) * view.stride(2), value, rows < end);
    return;
  }
  AnyTile columns = expand_dims(arange(value.extent(1)), 0);
  AnyPointer at = first + (column(cast(rows, ElementType::i64) * view.stride(2)) + cast(columns, ElementType::i64) * view.stride(3));
  store(at, value, column(rows < end) && columns < view.size(3));
}

/// The score mod with leave to use the target's quick instructions.
ir::Function quick(const ir::Function& mod) {
  ir::Function result = mod;
  for (std::uint32_t i = 0; i < result.operation_count(); ++i) {
    ir::Operation& operation = result.operation({i});
    const ir::Opcode opcode = operation.opcode;
    if (opcode == ir::Opcode::cast || opcode == ir::Opcode::div || opcode == ir::Opcode::tanh) operation.attributes.set(ir::AttributeName::approximate, std::int64_t{1});
  }
  return result;
}

/// The mod indexes captured tensors.
bool reads_memory(const ir::Function& mod) {
  for (std::uint32_t i = 0; i < mod.operation_count(); ++i) {
    if (ir::has(mod.operation({i}).opcode, ir::reads)) return true;
  }
  return false;
}

}  // namespace

std::uint64_t ForwardKernel::hash() const {
  const AttentionConfig& c = config;
  return Hash()
      .add(static_cast<int>(shape.element)).add(shape.dim).add(shape.value_dim).add(shape.q_block).add(shape.kv_block)
      .add(c.block_m).add(c.block_n).add(c.num_warps).add(c.stages).add(c.occupancy)
      .add(reinterpret_cast<std::uintptr_t>(score)).add(reinterpret_cast<std::uintptr_t>(mask))
      .add(listed).add(return_lse).add(return_max_scores).add(positive_scale).add(tf32).add(exact_math).add(clamped)
      .value();
}

std::string ForwardKernel::describe() const {
  const Trend trend = score ? trend_along_keys(*score) : Trend::same;
  const std::vector<bool>& by_distance = reads_of(score).by_distance;
  const bool by_distances = std::find(by_distance.begin(), by_distance.end(), true) != by_distance.end();
  const char* reads = shape.weight == ModWeight::matrix ? ", the score mod reads tiles of a matrix" : shape.weight == ModWeight::reads ? ", the score mod reads memory for each score" :
                      by_distances ? ", the score mod reads a table by distance" : "";
  return "[flex_attention] " + to_string(config) + reads + (trend == Trend::rises ? ", the last keys first" : trend == Trend::one_way ? ", the keys with the largest scores first" : "");
}

std::vector<ir::Parameter> ForwardKernel::signature() const {
  std::vector<ir::Parameter> parameters = {tensor("query", shape.element, 4, true), tensor("key", shape.element, 4, true),
                                           tensor("value", shape.element, 4, true), tensor("out", shape.element, 4, false)};
  if (return_lse) parameters.push_back(tensor("lse", ElementType::f32, 3, false));
  if (return_max_scores) parameters.push_back(tensor("max_scores", ElementType::f32, 3, false));
  if (listed) {
    parameters.push_back(tensor("tile_rows", ElementType::i64, 4, true));
    parameters.push_back({.name = "tile_entries", .type = ir::Type::pointer(ElementType::i32), .read_only = true});
  }
  parameters.push_back({.name = "scale", .type = ir::Type::scalar(ElementType::f32)});
  parameters.push_back({.name = "heads_at_once", .type = ir::Type::scalar(ElementType::i32)});
  parameters.push_back({.name = "last_blocks", .type = ir::Type::scalar(ElementType::i32)});
  append_parameters(parameters, score, score_indices, "score");
  append_parameters(parameters, mask, mask_indices, "mask");
  return parameters;
}

ir::Function ForwardKernel::trace(const std::vector<ir::Parameter>& facts) const {
  const AttentionConfig& c = config;
  const bool exact_rows = c.row_step == c.block_m && (!listed || c.row_parts * c.row_step == shape.q_block);
  const bool exact_columns = !listed || (c.column_step == c.block_n && c.column_parts * c.column_step == shape.kv_block);   // steps have no padding
  // Exponentials are taken in base 2, and the factor for that in the multiply-add that subtracts the reference: log2(e) alone
  // behind a score mod, with the scale where there is none and the scale keeps the order of the scores.
  const Precision precision = tf32 ? Precision::tf32 : Precision::ieee;
  const bool scale_late = !score && positive_scale;
  const Trend trend = score ? trend_along_keys(*score) : Trend::same;
  const bool in_strands = shape.element != ElementType::f32 && c.num_warps > 1;   // products hold a row in several threads
  // Only what reads captured tensors must be kept from positions that do not exist: what comes of those is hidden, or not stored.
  const ir::Function quick_score = score && !exact_math ? quick(*score) : ir::Function{};
  const bool clamp_for_score = clamped && score && reads_memory(*score), clamp_for_mask = clamped && mask && reads_memory(*mask);

  return flextile::trace("flex_attention", [&](Parameters& declared) {
    KernelParameters p(declared, facts);
    AnyView query = p.view(), key = p.view(), value = p.view(), out = p.view();
    AnyView lse = return_lse ? p.loose_view() : out;
    AnyView max_scores = return_max_scores ? p.loose_view() : out;
    AnyView tile_rows = listed ? p.loose_view() : out;
    AnyPointer entries = listed ? p.pointer() : out.base();
    AnyTile scale = p.scalar(), heads_at_once = p.scalar(), last_blocks = p.scalar();
    const std::vector<CallArgument> score_captures = p.some(score ? score->parameters.size() - score_indices : 0, [&](std::size_t i) { return static_cast<bool>(reads_of(score).by_distance[score_indices + i]); });
    const std::vector<CallArgument> mask_captures = p.rest();
    AnyTile q_len = query.size(2), kv_len = key.size(2), heads = query.size(1);

    // A program computes one block of query rows. Some heads go together; of these the blocks that see most go first. Blocks
    // with equal work share a head's keys and values in the caches when they are neighbours. The last blocks of all heads, which
    // see least, come at the end: they even out when multiprocessors finish.
    AnyTile blocks = listed ? AnyTile(tile_rows.size(2) * c.row_parts) : AnyTile((q_len + (c.block_m - 1)) / c.block_m);
    AnyTile all_heads = heads * query.size(0);                                              // of all batches
    AnyTile first_last = blocks - last_blocks;
    AnyTile at_end = program_id(0) >= first_last * all_heads;
    AnyTile number = program_id(0) - where(at_end, first_last * all_heads, 0);
    AnyTile blocks_here = where(at_end, last_blocks, first_last), together = where(at_end, all_heads, heads_at_once);
    AnyTile first_head = number / (blocks_here * together) * together;
    AnyTile heads_here = min(together, all_heads - first_head);
    AnyTile place = number - first_head * blocks_here;
    AnyTile head = (first_head + place % heads_here) % heads;
    AnyTile batch = (first_head + place % heads_here) / heads;
    AnyTile turn = place / heads_here + where(at_end, first_last, 0);
    AnyTile kv_head = head / (heads / key.size(1));
    AnyTile kv_batch = min(batch, key.size(0) - 1);
    AnyTile mask_batch = listed ? AnyTile(min(batch, tile_rows.size(0) - 1)) : batch;
    AnyTile mask_head = listed ? AnyTile(min(head, tile_rows.size(1) - 1)) : head;
    auto listing = [&](int what) { return gather(tile_rows, mask_batch, mask_head, turn / c.row_parts, what); };   // row, count, start
    AnyTile tile_row = listed ? AnyTile(cast(listing(0), ElementType::i32)) : turn;
    AnyTile first_row = listed ? AnyTile(tile_row * shape.q_block + turn % c.row_parts * c.row_step) : AnyTile(turn * c.block_m);
    AnyTile rows = positions(first_row, c.block_m);
    AnyTile mod_rows = column(clamped ? AnyTile(min(rows, q_len - 1)) : rows);

    // The key tiles that this block visits: those that the block mask lists for its row, or all.
    AnyTile steps = listed ? AnyTile(cast(listing(1), ElementType::i32) * c.column_parts)
                           : AnyTile((kv_len + (c.block_n - 1)) / c.block_n);
    AnyTile start = listed ? AnyTile(listing(2)) : steps;

    // The keys that the score mod gives the largest scores come first, where it can be seen which these are, or the numbers that it
    // captured tell: a row's reference then has little to follow.
    auto raised = [&](const AnyTile& kv) { return call(*score, with({full(ElementType::f32, {}, 0), batch, head, clamped ? AnyTile(min(first_row, q_len - 1)) : first_row, kv}, score_captures)); };
    AnyTile last_keys_first = trend == Trend::one_way ? AnyTile(raised(kv_len) > raised(full(ElementType::i32, {}, 0))) : full(ElementType::i1, {}, trend == Trend::rises ? 1 : 0);

    AnyTile q = load(query, {batch, head, first_row, 0}, {c.block_m, c.padded_dim});
    AnyVar reference = full(ElementType::f32, {c.block_m}, first_reference(shape.element));   // of a row that has seen nothing: 2^(-inf - reference) is 0
    AnyVar row_max = full(ElementType::f32, {c.block_m}, -infinity);
    // A row's sum is kept in `strands`, of eight neighbouring columns two to one: threads that share a row meet once, behind the loop.
    const int strands = in_strands ? 4 : 1;
    auto sum_in_strands = [&](const AnyTile& x) { return sum(sum(reshape(x, {c.block_m, c.block_n / 8, 4, 2}), 1), 2); };
    AnyVar row_sums = full(ElementType::f32, {c.block_m, strands}, 0);
    AnyVar acc = full(ElementType::f32, {c.block_m, c.padded_value_dim}, 0);
    AnyTile factor = scale_late ? AnyTile(scale * log2e) : full(ElementType::f32, {}, log2e);

    for (auto number_of_step : range(0, steps, 1, {.stages = c.stages})) {
      AnyTile step = where(last_keys_first, steps - 1 - number_of_step, number_of_step);
      AnyTile entry = listed ? AnyTile(load(entries + (start + step / c.column_parts))) : AnyTile(step);
      AnyTile tile_column = listed ? AnyTile((entry >> 1) * shape.kv_block) : AnyTile(step * c.block_n);
      AnyTile first_column = listed ? AnyTile(tile_column + step % c.column_parts * c.column_step) : tile_column;
      AnyTile end_column = exact_columns ? kv_len : AnyTile(min(min(first_column + c.column_step, tile_column + shape.kv_block), kv_len));

      AnyTile k = load(key, {kv_batch, kv_head, first_column, 0}, {c.block_n, c.padded_dim});
      AnyTile v = load(value, {kv_batch, kv_head, first_column, 0}, {c.block_n, c.padded_value_dim});
      AnyVar s = dot(q, trans(k), precision);

      // Modify, then mask.
      AnyTile columns = expand_dims(positions(first_column, c.block_n), 0);
      auto mod_columns = [&](bool clamped) { return clamped ? AnyTile(min(columns, kv_len - 1)) : columns; };
      if (score) s = call(exact_math ? *score : quick_score, with({s * scale, batch, head, mod_rows, mod_columns(clamp_for_score)}, score_captures));
      else if (!scale_late) s = s * scale;
      AnyTile ragged = listed && exact_columns && c.column_parts == 1 ? AnyTile(entry >= kv_len / c.block_n * 2)   // whole tiles have smaller numbers
                                                                      : AnyTile(first_column + c.block_n > end_column);
      auto hide = [&](const AnyTile& visible) { s = where(visible, s, -infinity); };
      if (listed && mask) {
        AnyTile partial = (entry & 1) != 0;
        if_(partial || ragged, [&] {                             // one branch that most tiles do not take
          if_(partial, [&] { hide(call(*mask, with({batch, head, mod_rows, mod_columns(clamp_for_mask)}, mask_captures))); });
          if_(ragged, [&] { hide(columns < end_column); });
        });
      } else {
        if_(ragged, [&] { hide(columns < end_column); });
      }

      // Online softmax. Weights are 2^(score - reference). The reference follows the largest score of its row, but only
      // once that has grown past it by `slack`: until then no weight exceeds 2^slack and nothing needs rescaling.
      AnyTile step_max = max(s, 1);
      AnyTile level = step_max * factor;
      AnyTile grown = unlikely(level - reference > slack);
      AnyTile shrink = where(grown, exp2(reference - level), 1.0f);
      reference = where(grown, level, reference);
      AnyTile weights = exp2(fma(s, factor, -column(reference)));
      row_sums = row_sums * column(shrink) + (in_strands ? sum_in_strands(weights) : column(sum(weights, 1)));
      acc = where(column(grown), acc * column(shrink), acc);
      acc = dot(cast(weights, shape.element), v, acc, precision);
      if (return_max_scores) row_max = max(row_max, step_max);
    }

    AnyTile row_sum = sum(row_sums, 1);

    // A row that saw nothing: 0, and -inf as the logarithm of its sum.
    AnyTile empty = row_sum == 0.0f;
    AnyTile divisor = where(empty, 1.0f, row_sum);
    AnyTile result = cast(acc * column(1.0f / divisor), shape.element);
    AnyTile end_row = listed ? AnyTile(min(min(first_row + c.row_step, (tile_row + 1) * shape.q_block), q_len)) : q_len;
    AnyTile natural_max = scale_late ? AnyTile(row_max * scale) : AnyTile(row_max);
    auto put = [&](const AnyView& view, const AnyTile& x) {
      if (!exact_rows) store_rows_below(view, x, batch, head, rows, end_row);
      else if (x.rank() == 1) store(view, x, {batch, head, first_row});
      else store(view, x, {batch, head, first_row, 0});
    };
    put(out, result);
    if (return_lse) put(lse, where(empty, -infinity, (reference + log2(divisor)) * ln2));
    // max passes over NaN; a sum that is NaN tells, but it is NaN under a maximum of +inf too.
    if (return_max_scores) put(max_scores, where(row_sum != row_sum && natural_max < infinity, row_sum, natural_max));
  }, {.num_warps = c.num_warps, .occupancy = c.occupancy});
}

}  // namespace flextile::attention
