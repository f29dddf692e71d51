#include "attention_problem.hpp"

#include <cmath>
#include <utility>

#include "argument_checks.hpp"

namespace flextile::attention {
namespace {

const std::string caller = "flex_attention";

void check_tensors(const AttentionProblem& p) {
  const ir::TensorHandle* others[] = {&p.key, &p.value};
  const char* names[] = {"key", "value"};
  for (const auto& [tensor, what] : {std::pair{&p.query, "query"}, std::pair{&p.key, "key"}, std::pair{&p.value, "value"}})
    if (!tensor->data && tensor->rank == 0)
      refuse(caller, std::string(what) + " is empty: it was default-constructed or moved from; make it first, for instance with from_host");
  if (p.query.element != ElementType::f32 && p.query.element != ElementType::f16 && p.query.element != ElementType::bf16)
    refuse(caller, "query is " + describe(p.query) + ": it must be f32, f16 or bf16");
  for (int i = 0; i < 2; ++i) {
    if (others[i]->device != p.query.device)
      refuse(caller, std::string(names[i]) + " is on " + describe_device(others[i]->device) + ", query is on " + describe_device(p.query.device) +
                         ": query, key and value must be on one device");
    if (others[i]->element != p.query.element)
      refuse(caller, std::string(names[i]) + " is " + describe(*others[i]) + ", query holds " + std::string(name(p.query.element)) +
                         ": query, key and value must have one element type");
  }
  auto last = [](const ir::TensorHandle& t) { return t.sizes[t.rank - 1]; };
  if (p.query.rank >= 2 && p.key.rank >= 2 && last(p.query) != last(p.key))
    refuse(caller, "query has head dim " + text(last(p.query)) + ", key has " + text(last(p.key)) + ": they must be equal");
  if (p.query.rank != 4) refuse(caller, "query is " + describe(p.query) + ": it must have 4 axes (batch, heads, length, head dim)");
  for (int i = 0; i < 2; ++i)
    if (others[i]->rank != 4)
      refuse(caller, std::string(names[i]) + " is " + describe(*others[i]) + ": it must have 4 axes (batch, kv heads, length, head dim)");
}

constexpr float largest_scale = 1e38f;      // times log2(e) it is still a number

void check_sizes(const AttentionProblem& p) {
  const char* axes[] = {"batch", "heads", "length", "head dim"};
  const ir::TensorHandle* tensors[] = {&p.query, &p.key, &p.value};
  const char* names[] = {"query", "key", "value"};
  for (int t = 0; t < 3; ++t)
    for (int axis = 0; axis < 4; ++axis) {
      const std::int64_t size = tensors[t]->sizes[axis];
      const std::int64_t most = axis == 3 ? 256 : axis == 2 ? longest : 0x7fffffff;
      if (size < 1 || size > most)
        refuse(caller, std::string(names[t]) + " has " + axes[axis] + " " + text(size) + ": it must be from 1 to " + text(most));
    }
  for (int axis = 0; axis < 3; ++axis)
    if (p.value.sizes[axis] != p.key.sizes[axis])
      refuse(caller, std::string("value has ") + axes[axis] + " " + text(p.value.sizes[axis]) + ", key has " + text(p.key.sizes[axis]) +
                         ": key and value must have the same batch, heads and length");
  if (p.heads % p.kv_heads)
    refuse(caller, "query has " + text(p.heads) + " heads, key and value have " + text(p.kv_heads) + ": the heads of query must be a multiple");
  if (p.key.sizes[0] != p.batch && p.key.sizes[0] != 1)
    refuse(caller, "key and value have batch " + text(p.key.sizes[0]) + ", query has " + text(p.batch) + ": they must be equal, or 1 for key and value");
}

/// Tables of one head (batch) are those of h (b) 0: no other head may use them where the mod reads h (b).
void check_shared(bool reads, std::int64_t made, std::int64_t has, const std::string& parameter, const std::string& axis, const std::string& option) {
  auto counted = [&](std::int64_t count) { return text(count) + " " + axis + (count == 1 ? "" : axis == "batch" ? "es" : "s"); };
  if (reads && made == 1 && has > 1)
    refuse(caller, "block_mask: its mask_mod reads " + parameter + ", but the mask was made for " + counted(made) + " and the query has " + text(has) +
                       ": pass " + option + " = " + text(has) + " to create_block_mask, or tables for " + counted(has) + " to from_kv_blocks");
}

void check_mask(const AttentionProblem& p) {
  const BlockMask& mask = *p.mask;
  if (mask.empty()) refuse(caller, "block_mask was never built: make it with create_block_mask");
  const auto shape = mask.shape();
  auto lengths = [](std::int64_t q, std::int64_t kv) { return text(q) + " query and " + text(kv) + " key positions"; };
  if (shape[0] != 1 && shape[0] != p.batch)
    refuse(caller, "block_mask was made for batch " + text(shape[0]) + ", query has " + text(p.batch) + ": it must be 1 or the batch of query");
  if (shape[1] != 1 && shape[1] != p.heads)
    refuse(caller, "block_mask was made for " + text(shape[1]) + " heads, query has " + text(p.heads) + ": it must be 1 or the heads of query");
  check_shared(p.mask->mod().reads_head, shape[1], p.heads, "h", "head", ".heads");
  check_shared(p.mask->mod().reads_batch, shape[0], p.batch, "b", "batch", ".batch");
  if (shape[2] != p.q_len || shape[3] != p.kv_len)
    refuse(caller, "block_mask was made for " + lengths(shape[2], shape[3]) + ", the call has " + lengths(p.q_len, p.kv_len) +
                       ": make one for these lengths with create_block_mask");
  if (mask.device_index() != p.query.device)
    refuse(caller, "block_mask is on " + describe_device(mask.device_index()) + ", query is on " + describe_device(p.query.device) +
                       ": move it with block_mask.to(device)");
  mask.check_fresh("flex_attention");
}

void check_captures(const ir::Mod& mod, const char* what, std::int32_t device) {
  for (std::size_t i = 0; i < mod.tensors.size(); ++i)
    if (mod.tensors[i].device != device)
      refuse(caller, std::string("captured tensor ") + text(static_cast<std::int64_t>(i)) + " of " + what + " is " + describe(mod.tensors[i]) +
                         ", query is on " + describe_device(device) + ": they must be on one device");
}

}  // namespace

AttentionProblem check_problem(const ir::TensorHandle& query, const ir::TensorHandle& key, const ir::TensorHandle& value,
                               const ir::Mod* score, const BlockMask* mask, const AttentionOptions& options) {
  AttentionProblem p{.query = query, .key = key, .value = value, .score = score, .mask = mask};
  check_tensors(p);
  p.batch = query.sizes[0], p.heads = query.sizes[1], p.q_len = query.sizes[2], p.dim = query.sizes[3];
  p.kv_heads = key.sizes[1], p.kv_len = key.sizes[2], p.value_dim = value.sizes[3];
  check_sizes(p);
  if (options.scale && !(std::abs(*options.scale) <= largest_scale))
    refuse(caller, "scale is " + std::to_string(*options.scale) + ": it must be finite, and at most 1e38 in magnitude");
  p.scale = options.scale ? *options.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.dim)));
  if (mask) check_mask(p);
  if (score) check_captures(*score, "score_mod", query.device);
  if (mask) check_captures(mask->mod(), "mask_mod", query.device);
  return p;
}

}  // namespace flextile::attention
