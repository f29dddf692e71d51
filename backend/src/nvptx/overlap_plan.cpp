#include "nvptx/overlap_plan.hpp"

#include <algorithm>

#include "effects.hpp"
#include "nvptx/layouts.hpp"
#include "nvptx/resident_programs.hpp"

namespace flextile::backend {
namespace {

constexpr int two_warpgroups = 8;          // warps
constexpr int most_work = 3;               // operations a score, exponential included, with which a late product is waited for in their midst
constexpr std::int64_t most_carried = 8;   // registers for what the update of the sum needs of the iteration before

/// Registers of a thread for the sums and operands of both products: what is known to be its own, less 32 for everything else, or
/// its share of all, less 40.
std::int64_t registers_for_products(const ir::Function& function) {
  const ir::OperationId roles = roles_of(function);
  const std::int64_t budget = roles ? function.operation(roles).attributes.list(ir::AttributeName::registers)[1] : 0;
  return budget > 0 ? budget - 32 : std::min<std::int64_t>(255, 65536 / (32 * function.num_warps * function.occupancy) / 8 * 8) - 40;
}

bool costs_nothing(const ir::Operation& operation) {
  return operation.opcode == ir::Opcode::broadcast || operation.opcode == ir::Opcode::expand_dims || operation.opcode == ir::Opcode::unlikely || operation.opcode == ir::Opcode::constant;
}

}  // namespace

bool OverlapPlan::plan(OperationId loop_id) {
  const Operation& loop = f_.operation(loop_id);
  body_ = loop.blocks[0];
  late_.clear();
  update_.clear();
  cast_ = {};
  std::vector<OperationId> dots;
  for (OperationId id : f_.block(body_).operations) {
    const Operation& operation = f_.operation(id);
    if (operation.opcode != Opcode::dot) continue;
    if (operation.attributes.string(AttributeName::instruction) != "wgmma") return false;
    dots.push_back(id);
  }
  const Operation* step = f_.defining(loop.operands[2]);
  if (dots.size() != 2 || !step || step->opcode != Opcode::constant) return false;
  first_ = dots[0];
  second_ = dots[1];
  if (!is_half(first_) || !is_half(second_)) return explain(loop_id, "elements of other than 16 bits change threads between a product's sums and the next one's operand");
  if (!carries_sums(loop) || !find_late_operations() || !find_update()) return explain(loop_id, "the second one's sums are not only carried from iteration to iteration, or its operands come from elsewhere than a ring");
  if (spare_registers() < 0) return explain(loop_id, "two at once are more than a thread's registers hold" + std::string(f_.occupancy > 1 ? ", of which each program on the multiprocessor has a part" : ""));
  find_needs();
  find_meanwhile();
  find_branch();
  for (const std::size_t side : {0, 1}) find_tiles_ahead(side);
  return true;
}

bool OverlapPlan::is_half(OperationId dot) const { return bit_width(f_.type(f_.operation(dot).operands[0]).element) == 16; }

/// Says why the loop's products are waited for one by one.
bool OverlapPlan::explain(OperationId loop, const std::string& reason) {
  Attributes& attributes = f_.operation(loop).attributes;
  if (attributes.string(AttributeName::schedule).empty()) attributes.set(AttributeName::schedule, "each product is waited for: " + reason);
  return false;
}

/// The second product's result is only carried into the next iteration.
bool OverlapPlan::carries_sums(const Operation& loop) {
  const Value sum = f_.operation(second_).results[0];
  const Operation& yield = f_.operation(f_.block(body_).operations.back());
  const auto at = std::find(yield.operands.begin(), yield.operands.end(), sum);
  if (at == yield.operands.end() || std::count(yield.operands.begin(), yield.operands.end(), sum) != 1 || users(sum) != 1) return false;
  slot_ = static_cast<std::size_t>(at - yield.operands.begin());
  return f_.layout_of(sum) == f_.layout_of(loop.results[slot_]) && !depends_on(f_.operation(first_), f_.block(body_).arguments[1 + slot_]);
}

/// The second product, its shared operands and their rings: they go into the next iteration.
bool OverlapPlan::find_late_operations() {
  const Operation& second = f_.operation(second_);
  std::set<std::uint32_t> buffers;
  late_.insert(second_.index);
  for (int i : {0, 1}) {
    Value operand = second.operands[i];
    std::vector<OperationId> read;
    while (const ir::OperationId id = f_.definition(operand).operation) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode != Opcode::transpose && operation.opcode != Opcode::shared_load) break;
      read.push_back(id);
      operand = operation.operands[0];
      if (operation.opcode == Opcode::shared_load) break;
    }
    const bool shared = !read.empty() && f_.operation(read.back()).opcode == Opcode::shared_load;
    if (shared != (i == 1)) return false;                        // p in registers, the other from a ring
    if (!shared) continue;
    for (OperationId id : read) late_.insert(id.index);
    buffers.insert(operand.index);
  }
  int waits = 0, releases = 0;
  for (OperationId id : f_.block(body_).operations) {
    const Operation& operation = f_.operation(id);
    const bool of_buffer = !operation.operands.empty() && buffers.contains(operation.operands[0].index);
    if (!of_buffer) continue;
    if (operation.opcode == Opcode::ring_wait) ++waits;
    else if (operation.opcode == Opcode::ring_release) ++releases;
    else if (operation.opcode == Opcode::shared_load && late_.contains(id.index)) continue;
    else return false;                                           // somebody else reads it
    late_.insert(id.index);
    turn_ = operation.operands[1];
  }
  // And what only they need.
  std::vector<OperationId> only_late;
  const auto& operations = f_.block(body_).operations;
  for (auto id = operations.rbegin(); id != operations.rend(); ++id) {
    const Operation& operation = f_.operation(*id);
    const bool read = operation.opcode == Opcode::load || operation.opcode == Opcode::gather;
    if (operation.results.empty() || !operation.blocks.empty() || (!read && !ir::has(operation.opcode, ir::pure)) || f_.type(operation.results[0]).rank > 0) continue;
    const auto users = [&](OperationId user) { return depends_on(f_.operation(user), operation.results[0]); };
    const bool used = std::any_of(operations.begin(), operations.end(), users);
    const bool needed = std::any_of(operations.begin(), operations.end(), [&](OperationId user) { return !late_.contains(user.index) && users(user); });
    if (used && !needed) late_.insert(id->index), only_late.push_back(*id);
  }
  const Value index = f_.block(body_).arguments[0];
  auto is_late = [&](Value value) {
    const OperationId id = f_.definition(value).operation;
    return value == index || value == turn_ || (id && late_.contains(id.index));
  };
  // Not where they take what the rest of the iteration computes: that is another iteration's then.
  for (bool changed = true; changed;) {
    changed = false;
    for (OperationId id : only_late) changed = (!needs_only(f_.operation(id), is_late) && late_.erase(id.index) > 0) || changed;
  }
  return waits == 1 && releases == 1 && std::all_of(operations.begin(), operations.end(), [&](OperationId id) {
    return f_.operation(id).opcode != Opcode::ring_release || !late_.contains(id.index) || needs_only(f_.operation(id), is_late);
  });
}

/// What is computed from the carried sum: it can wait until the late product is done.
bool OverlapPlan::find_update() {
  std::set<std::uint32_t> values{f_.block(body_).arguments[1 + slot_].index};
  const Value addend = f_.operation(second_).operands[2];
  for (OperationId id : f_.block(body_).operations) {
    const Operation& operation = f_.operation(id);
    if (late_.contains(id.index) || ir::has(operation.opcode, ir::terminator)) continue;
    if (std::none_of(operation.operands.begin(), operation.operands.end(), [&](Value operand) { return values.contains(operand.index); })) {
      if (std::any_of(values.begin(), values.end(), [&](std::uint32_t value) { return depends_on(operation, Value{value}); })) return false;
      continue;
    }
    if (!ir::has(operation.opcode, ir::pure) || !operation.blocks.empty()) return false;
    update_.insert(id.index);
    for (Value result : operation.results) values.insert(result.index);
  }
  // The operand's last conversion waits too: until then the old operand is in use.
  const ir::OperationId cast = f_.definition(f_.operation(second_).operands[0]).operation;
  if (!cast || f_.definition(f_.operation(second_).operands[0]).block != body_ || users(f_.operation(second_).operands[0]) != 1) return false;
  if (f_.operation(cast).opcode == Opcode::cast) cast_ = cast;
  const Operation& yield = f_.operation(f_.block(body_).operations.back());
  for (std::size_t i = 0; i < yield.operands.size(); ++i) {
    if (i != slot_ && values.contains(yield.operands[i].index)) return false;
  }
  return f_.definition(addend).block == body_ && values.contains(addend.index) && f_.layout_of(addend) == f_.layout_of(f_.operation(second_).results[0]);
}

/// What the update takes from the rest of the iteration, seen through operations that cost nothing: it can be carried into the
/// next where it is little.
void OverlapPlan::find_needs() {
  needs_.clear();
  repeated_.clear();
  std::vector<Value> open;
  auto look_at = [&](const Operation& operation) { open.insert(open.end(), operation.operands.begin(), operation.operands.end()); };
  for (std::uint32_t id : update_) look_at(f_.operation(OperationId{id}));
  const Value sum = f_.block(body_).arguments[1 + slot_];
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    const OperationId id = f_.definition(value).operation;
    if (f_.definition(value).block != body_ || value == sum || (id && (update_.contains(id.index) || repeated_.contains(id.index)))) continue;
    if (id && costs_nothing(f_.operation(id))) {
      repeated_.insert(id.index);
      look_at(f_.operation(id));
    } else if (std::find(needs_.begin(), needs_.end(), value) == needs_.end()) {
      needs_.push_back(value);
    }
  }
  std::int64_t registers = 0;
  for (Value need : needs_) {
    if (!f_.definition(need).operation) registers = most_carried;   // of an argument the iteration before has another
    registers += f_.type(need).has_shape() && f_.type(need).rank > 0 ? register_count(f_.layouts[f_.layout_of(need)]) : 1;
  }
  update_first_ = registers <= most_carried;
}

/// The rows' sums of the late operand. Its conversion stands behind the wait for the late product, and the assembler mixes that with what
/// is converted: so it puts the wait in front of all of it, where the product still runs. With two warpgroups there is not always another
/// one that works meanwhile, so the wait comes behind half of the rows; not where a score mod's work takes as long as the product.
void OverlapPlan::find_meanwhile() {
  meanwhile_ = {};
  if (!cast_ || f_.num_warps != two_warpgroups) return;
  const ir::Shape shape = f_.type(f_.operation(first_).results[0]).shape();
  Value tile = f_.operation(cast_).operands[0];
  int work = 0;
  for (OperationId id : f_.block(body_).operations) {
    const Operation& operation = f_.operation(id);
    if (ir::has(operation.opcode, ir::elementwise) && is_early(id) && !costs_nothing(operation) && f_.type(operation.results[0]).shape() == shape) ++work;
    if (operation.operands.empty() || operation.operands[0] != tile) continue;
    const bool sums = operation.opcode == Opcode::reduce && operation.attributes.string(AttributeName::kind) == "sum" && f_.type(tile).element == ElementType::f32 && f_.type(operation.results[0]).rank > 0;
    if (sums) meanwhile_ = operation.results[0];
    if (sums || operation.opcode == Opcode::reshape) tile = operation.results[0];   // and what is summed further
  }
  if (!meanwhile_) return;
  auto registers = [&](Value value) { return register_count(f_.layouts[f_.layout_of(value)]); };
  const bool sums_rows = registers(meanwhile_) >= 2 && registers(meanwhile_) * 8 <= registers(f_.operation(cast_).operands[0]);
  if (work > most_work || !sums_rows) meanwhile_ = {};
}

/// The first branch behind the first product that the iteration's start can decide.
void OverlapPlan::find_branch() {
  branch_ = {};
  decides_.clear();
  in_front_.clear();
  read_ahead_.clear();
  const auto& operations = f_.block(body_).operations;
  const bool writes = writes_memory(f_, body_);
  for (auto id = std::find(operations.begin(), operations.end(), first_); id != operations.end() && !branch_; ++id) {
    const Operation& operation = f_.operation(*id);
    std::set<std::uint32_t> slice, of_turn;
    if (operation.opcode != Opcode::if_ || !is_early(*id) || !is_known_early(operation.operands[0], writes, slice) || !is_known_early(turn_, writes, of_turn)) continue;
    branch_ = *id;
    decides_ = std::move(slice);
    in_front_ = std::move(of_turn);
    in_front_.insert(decides_.begin(), decides_.end());
    for (OperationId each : operations) {
      if (decides_.contains(each.index) && ir::has(f_.operation(each).opcode, ir::reads)) read_ahead_.push_back(each);
    }
  }
}

/// From the index and what comes from outside; adds the operations to `slice`.
bool OverlapPlan::is_known_early(Value value, bool writes, std::set<std::uint32_t>& slice) const {
  if (f_.definition(value).block != body_ || value == f_.block(body_).arguments[0]) return true;
  const OperationId id = f_.definition(value).operation;
  if (!id) return false;   // carried
  const Operation& operation = f_.operation(id);
  const bool reads = !writes && (operation.opcode == Opcode::load || operation.opcode == Opcode::gather);
  if (f_.type(value).rank > 0 || !operation.blocks.empty() || (!reads && !ir::has(operation.opcode, ir::pure)) || late_.contains(id.index)) return false;
  slice.insert(id.index);
  return std::all_of(operation.operands.begin(), operation.operands.end(), [&](Value operand) { return is_known_early(operand, writes, slice); });
}

/// Negative where both products at once are too much for a thread.
std::int64_t OverlapPlan::spare_registers() const {
  const Operation &first = f_.operation(first_), &second = f_.operation(second_);
  const std::int64_t threads = 32 * f_.num_warps;
  const Type &s = f_.type(first.results[0]), &sum = f_.type(second.results[0]), &p = f_.type(second.operands[0]);
  if (s.extents[0] != sum.extents[0]) return -1;
  return registers_for_products(f_) - (s.elements() + sum.elements() + p.elements() / 2) / threads;
}

/// What a mask reads of captured tensors at this tile's columns is asked for before the products: it comes while they run. A gather
/// looks at bounds itself, so it may be read where the branch's inner conditions do not hold. And what follows from positions alone is
/// decided there, as bits of words, which costs a few instructions: nobody waits for that when the scores are there.
void OverlapPlan::find_tiles_ahead(std::size_t side) {
  tiles_ahead_[side].clear();
  if (!branch_ || writes_memory(f_, body_)) return;
  std::set<std::uint32_t> slice;
  std::vector<BlockId> blocks{body_, f_.operation(branch_).blocks[side]};
  std::int64_t spare = spare_registers();
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    for (OperationId id : f_.block(blocks[i]).operations) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode == Opcode::if_) blocks.insert(blocks.end(), operation.blocks.begin(), operation.blocks.end());
      std::set<std::uint32_t> needed;
      if (operation.opcode == Opcode::select) {
        if (!is_kept_as_bits(operation.operands[0], blocks, needed)) continue;
      } else if (operation.opcode == Opcode::gather && f_.type(operation.results[0]).rank > 0) {
        const std::int64_t registers = register_count(f_.layouts[f_.layout_of(operation.results[0])]);
        if (registers > spare || !collect_tile(operation.results[0], blocks, needed)) continue;
        spare -= registers;
      }
      slice.insert(needed.begin(), needed.end());
    }
  }
  for (BlockId block : blocks) {
    for (OperationId id : f_.block(block).operations) {
      if (slice.contains(id.index)) tiles_ahead_[side].push_back(id);
    }
  }
}

/// The condition of a select, or of one that what is read decides too, the part that stands in front (canonical_positions.cpp).
bool OverlapPlan::is_kept_as_bits(Value condition, const std::vector<BlockId>& inside, std::set<std::uint32_t>& needed) {
  if (collect_tile(condition, inside, needed) && keep_as_bits(condition, needed)) return true;
  needed.clear();
  const Operation* both = f_.defining(condition);
  while (both && both->opcode == Opcode::broadcast) both = f_.defining(both->operands[0]);
  if (!both || both->opcode != Opcode::bit_and) return false;
  const Value part = both->operands[0];
  return collect_tile(part, inside, needed) && keep_as_bits(part, needed);
}

/// Where the condition of a tile of two axes, for which `needed` is computed, follows from comparisons that are a shift each; says so of
/// what computes it.
bool OverlapPlan::keep_as_bits(Value condition, const std::set<std::uint32_t>& needed) {
  if (f_.type(condition).rank != 2) return false;
  const Operation* from = f_.defining(condition);
  while (from && from->opcode == Opcode::broadcast) condition = from->operands[0], from = f_.defining(condition);
  if (!from || !needed.contains(f_.definition(condition).operation.index)) return false;
  for (std::uint32_t id : needed) {
    const Operation& operation = f_.operation(OperationId{id});
    const bool is_tile = f_.type(operation.results[0]).rank == 2, is_decision = f_.type(operation.results[0]).element == ElementType::i1;
    const bool in_order = operation.opcode == Opcode::lt || operation.opcode == Opcode::le || operation.opcode == Opcode::gt || operation.opcode == Opcode::ge;
    const bool logical = operation.opcode == Opcode::bit_and || operation.opcode == Opcode::bit_or || operation.opcode == Opcode::bit_xor || operation.opcode == Opcode::bit_not;
    const bool counts = costs_nothing(operation) || operation.opcode == Opcode::arange || operation.opcode == Opcode::add || operation.opcode == Opcode::sub;
    if (is_tile && !counts && !(is_decision && (in_order || logical))) return false;
  }
  for (std::uint32_t id : needed) {
    Operation& operation = f_.operation(OperationId{id});
    const bool is_decision = f_.type(operation.results[0]).rank == 2 && f_.type(operation.results[0]).element == ElementType::i1;
    if (is_decision && !costs_nothing(operation)) operation.attributes.set(AttributeName::bits, std::int64_t{1});
  }
  return true;
}

/// From what the iteration's start knows: the index, what comes from outside, and what stands in front of the branch.
bool OverlapPlan::collect_tile(Value value, const std::vector<BlockId>& inside, std::set<std::uint32_t>& slice) const {
  const auto& definition = f_.definition(value);
  const OperationId id = definition.operation;
  if (std::find(inside.begin(), inside.end(), definition.block) == inside.end()) return true;
  if (!id) return value == f_.block(body_).arguments[0];
  if (in_front_.contains(id.index)) return true;
  const Operation& operation = f_.operation(id);
  const bool may_move = operation.opcode == Opcode::gather || (ir::has(operation.opcode, ir::pure) && operation.opcode != Opcode::dot && operation.blocks.empty());
  if (!may_move || late_.contains(id.index) || update_.contains(id.index)) return false;
  slice.insert(id.index);
  return std::all_of(operation.operands.begin(), operation.operands.end(), [&](Value operand) { return collect_tile(operand, inside, slice); });
}

}  // namespace flextile::backend
