#include "nvptx/bound.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nvptx/fragments.hpp"
#include "nvptx/layouts.hpp"
#include "nvptx/matmul.hpp"
#include "nvptx/operation_cost.hpp"
#include "nvptx/scratch.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed cost what operation_cost says

namespace flextile::backend {

using ir::AttributeName;
using ir::Opcode;

UnitClocks& UnitClocks::operator+=(const UnitClocks& other) {
  matrix += other.matrix, special += other.special, fp32 += other.fp32, integer += other.integer;
  issue += other.issue, shared += other.shared, global += other.global;
  return *this;
}

UnitClocks UnitClocks::operator*(double factor) const {
  return {matrix * factor, special * factor, fp32 * factor, integer * factor, issue * factor, shared * factor, global * factor};
}

double UnitClocks::most() const { return std::max({matrix, special, fp32, integer, issue, shared, global}); }

namespace {

/// What a multiprocessor does in a clock: FLOP of products of 16-bit numbers, operations of a thread, bytes.
struct Rates {
  double wgmma = 0;         // products of warpgroups
  double mma = 0;           // mma.sync
  double special = 16;
  double fp32 = 128;
  double integer = 64;
  double issue = 128;       // four warps
  double shared = 128;
  double cache = 64;        // from and to the L2 cache
  double memory = 20;       // from and to main memory: a multiprocessor's share
};

/// NVIDIA's "CUDA C++ Programming Guide", throughput of native arithmetic instructions, and architecture white papers; on Hopper
/// mma.sync reaches about 62 % of wgmma (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024). Main memory
/// is that of an A100, an A40, an L40S and an H200: TB/s by multiprocessors and clock.
bool rates_of(const Target& target, Rates& rates) {
  if (target.sm == 80) rates = {.mma = 2048, .fp32 = 64, .memory = 12};
  else if (target.sm == 86) rates = {.mma = 1024, .memory = 5};
  else if (target.sm == 89) rates = {.mma = 1024, .memory = 2.5};
  else if (target.sm == 90) rates = {.wgmma = 4096, .mma = 2560};
  else return false;
  return true;
}

class Work {
 public:
  Work(const ir::Function& function, const Rates& rates) : f_(function), rates_(rates), needed_(function.value_count(), false) {
    mark_needed(f_.body());
  }

  /// One run of a block.
  UnitClocks of_block(ir::BlockId block) const {
    UnitClocks sum;
    for (ir::OperationId id : f_.block(block).operations) sum += of_operation(f_.operation(id));
    return sum;
  }

 private:
  double threads() const { return lanes_per_warp * f_.num_warps; }

  /// Elements that all threads together hold of a tile, copies included.
  double held(ir::Value value) const {
    const int layout = f_.layout_of(value);
    return layout < 0 || f_.type(value).rank == 0 ? 0 : register_count(f_.layouts[layout]) * threads();
  }
  double bytes(const ir::Type& type) const { return static_cast<double>(type.elements()) * byte_size(type.element); }

  // ---- what is seldom taken counts as not needed

  /// A condition that went through `unlikely`.
  bool is_unlikely(ir::Value condition) const {
    const ir::Operation* operation = f_.defining(condition);
    while (operation && (operation->opcode == Opcode::expand_dims || operation->opcode == Opcode::broadcast || operation->opcode == Opcode::reshape ||
                         operation->opcode == Opcode::convert_layout)) operation = f_.defining(operation->operands[0]);
    return operation && operation->opcode == Opcode::unlikely;
  }
  bool is_seldom(const ir::Operation& operation) const { return operation.opcode == Opcode::select && is_unlikely(operation.operands[0]); }

  bool is_needed(const ir::Operation& operation) const {
    if (!ir::has(operation.opcode, ir::pure) || !operation.blocks.empty()) return true;
    return std::any_of(operation.results.begin(), operation.results.end(), [&](ir::Value result) { return needed_[result.index]; });
  }

  /// Users come before what they use.
  void mark_needed(ir::BlockId block) {
    const auto& operations = f_.block(block).operations;
    for (auto id = operations.rbegin(); id != operations.rend(); ++id) {
      const ir::Operation& operation = f_.operation(*id);
      if (!is_needed(operation)) continue;
      for (ir::BlockId inner : operation.blocks) mark_needed(inner);
      for (std::size_t i = 0; i < operation.operands.size(); ++i)
        if (i != 1 || !is_seldom(operation)) needed_[operation.operands[i].index] = true;
    }
  }

  // ---- clocks of one operation

  UnitClocks instructions(const OperationCost& each, double count) const {
    UnitClocks clocks;
    clocks.special = each.special * count / rates_.special;
    clocks.fp32 = each.fp32 * count / rates_.fp32;
    clocks.integer = each.integer * count / rates_.integer;
    clocks.issue = (each.special + each.fp32 + each.integer) * count / rates_.issue;
    return clocks;
  }

  UnitClocks through_shared(double count) const {
    UnitClocks clocks;
    clocks.shared = count / rates_.shared;
    return clocks;
  }

  UnitClocks through_global(double count) const {
    UnitClocks clocks;
    clocks.global = count / rates_.cache;
    return clocks;
  }

  /// The warps of a product along one axis of its result.
  double warps_along(ir::Value value, int axis) const {
    const int layout = f_.layout_of(value);
    double warps = 1;
    if (layout >= 0)
      for (const Digit& digit : f_.layouts[layout].warps) warps *= digit.axis == axis ? digit.size : 1;
    return warps;
  }

  UnitClocks of_dot(const ir::Operation& dot) const {
    const ir::Type &left = f_.type(dot.operands[0]), &right = f_.type(dot.operands[1]);
    const double multiplications = static_cast<double>(left.elements()) * right.extents[1];
    const MatrixInstruction instruction = instruction_of(f_, dot);
    if (instruction.name == "fma") return instructions({0, 1, 0}, multiplications);
    const bool warpgroups = instruction.name == "wgmma";
    UnitClocks clocks;
    // tf32 takes twice as long as 16-bit numbers, 8-bit ones half.
    clocks.matrix = 2 * multiplications / (warpgroups ? rates_.wgmma : rates_.mma) * (instruction.packed == 1 ? 2 : instruction.packed == 4 ? 0.5 : 1);
    // Each 64 rows of a warpgroup, and each warp, read the other operand for themselves.
    const double rows = warpgroups ? left.extents[0] / 64.0 : warps_along(dot.results[0], 0), columns = warps_along(dot.results[0], 1);
    if (fragment_source(f_, dot, 0).load) clocks += through_shared(bytes(left) * columns);
    if (fragment_source(f_, dot, 1).load) clocks += through_shared(bytes(right) * rows);
    return clocks;
  }

  /// A stage that the copy engine fills: bytes that come from memory into shared memory.
  UnitClocks of_stage(ir::Value buffer) const {
    const ir::Operation* allocation = f_.defining(buffer);
    if (!allocation || allocation->attributes.integer(AttributeName::readers) != 0) return {};   // scalars, for roles
    UnitClocks clocks = through_global(bytes(f_.type(buffer)));
    clocks += through_shared(bytes(f_.type(buffer)));
    return clocks;
  }

  /// Times that the loop runs, where that is known; else once.
  double trips(const ir::Operation& loop) const {
    double bounds[3];
    for (int i = 0; i < 3; ++i) {
      const ir::Operation* constant = f_.defining(loop.operands[i]);
      if (!constant || constant->opcode != Opcode::constant) return 1;
      bounds[i] = static_cast<double>(constant->attributes.integer(AttributeName::value));
    }
    return std::max(0.0, std::ceil((bounds[1] - bounds[0]) / bounds[2]));
  }

  UnitClocks of_operation(const ir::Operation& operation) const {
    if (!is_needed(operation) || is_seldom(operation)) return {};
    const ir::Value result = operation.results.empty() ? ir::Value{} : operation.results[0];
    switch (operation.opcode) {
      case Opcode::dot: return of_dot(operation);
      case Opcode::reduce: {
        UnitClocks clocks = instructions(operation_cost(f_, operation), held(operation.operands[0]) * static_cast<double>(operation.results.size()));
        return clocks += through_shared(2.0 * static_cast<double>(scratch_bytes(f_, operation)));
      }
      case Opcode::convert_layout:
      case Opcode::reshape:
      case Opcode::transpose: return is_read_by_fragments(f_, operation) ? UnitClocks{} : through_shared(2.0 * static_cast<double>(scratch_bytes(f_, operation)));
      case Opcode::shared_load: {
        // Along diagonals some half of a thread's elements are read, each alone: a word's time, whatever its width.
        if (operation.attributes.integer(AttributeName::diagonals) != 0) return through_shared(held(result) * 2.0);
        return is_read_by_fragments(f_, operation) ? UnitClocks{} : through_shared(held(result) * byte_size(f_.type(result).element));
      }
      case Opcode::shared_store: return through_shared(bytes(f_.type(operation.operands[2])));
      case Opcode::async_copy:
      case Opcode::ring_wait: return of_stage(operation.operands[0]);
      case Opcode::gather: return {};   // how many of the elements are the same one, nobody knows
      case Opcode::load:
      case Opcode::view_load: return f_.type(result).rank == 0 ? UnitClocks{} : through_global(bytes(f_.type(result)));
      case Opcode::store:
      case Opcode::view_store: return f_.type(operation.operands[1]).rank == 0 ? UnitClocks{} : through_global(bytes(f_.type(operation.operands[1])));
      case Opcode::atomic: return f_.type(operation.operands[1]).rank == 0 ? UnitClocks{} : through_global(bytes(f_.type(operation.operands[1])));
      case Opcode::if_: {
        const UnitClocks taken = of_block(operation.blocks[0]), otherwise = of_block(operation.blocks[1]);
        return taken.most() < otherwise.most() ? taken : otherwise;
      }
      case Opcode::for_: return of_block(operation.blocks[0]) * trips(operation);
      case Opcode::while_: return of_block(operation.blocks[1]);
      case Opcode::roles: return of_block(operation.blocks.back());   // the producer's threads are few
      default: return result ? instructions(operation_cost(f_, operation), held(result)) : UnitClocks{};
    }
  }

  const ir::Function& f_;
  const Rates& rates_;
  std::vector<bool> needed_;
};

/// What a loop's body holds, but for the loops in it.
struct Contents {
  bool reads = false;
  std::vector<const ir::Operation*> products;
};

void look_into(const ir::Function& function, ir::BlockId block, Contents& contents) {
  for (ir::OperationId id : function.block(block).operations) {
    const ir::Operation& operation = function.operation(id);
    if (operation.opcode == Opcode::dot) contents.products.push_back(&operation);
    const bool reads = operation.opcode == Opcode::load || operation.opcode == Opcode::view_load || operation.opcode == Opcode::gather;
    contents.reads = contents.reads || operation.opcode == Opcode::async_copy || operation.opcode == Opcode::ring_wait || (reads && function.type(operation.results[0]).rank > 0);
    if (operation.opcode == Opcode::if_)
      for (ir::BlockId inner : operation.blocks) look_into(function, inner, contents);
  }
}

/// Calls visit(operation) for all loops of the program's own threads, but for those over programs.
template <class Visit> void for_each_loop(const ir::Function& function, ir::BlockId block, Visit&& visit) {
  for (ir::OperationId id : function.block(block).operations) {
    const ir::Operation& operation = function.operation(id);
    const bool programs = operation.attributes.integer(AttributeName::programs) != 0;
    if ((operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_) && !programs) visit(operation);
    const std::size_t first = operation.opcode == Opcode::roles ? operation.blocks.size() - 1 : 0;
    for (std::size_t i = first; i < operation.blocks.size(); ++i) for_each_loop(function, operation.blocks[i], visit);
  }
}

/// "192x80x128 and 192x128x80", each once.
std::string products_text(const ir::Function& function, const std::vector<const ir::Operation*>& products) {
  std::vector<std::string> texts;
  for (const ir::Operation* dot : products) {
    const ir::Type &left = function.type(dot->operands[0]), &result = function.type(dot->operands[2]);
    std::string text = std::to_string(result.extents[0]) + "x" + std::to_string(result.extents[1]) + "x" + std::to_string(left.extents[1]);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  std::string list;
  for (std::size_t i = 0; i < texts.size(); ++i) list += (i == 0 ? "" : i + 1 == texts.size() ? " and " : ", ") + texts[i];
  return list;
}

}  // namespace

Bound bound_of(const ir::Function& scheduled, const Target& target) {
  Rates rates;
  Bound bound;
  if (!rates_of(target, rates)) return bound;
  const Work work(scheduled, rates);
  bool multiplies = false;
  for_each_loop(scheduled, scheduled.body(), [&](const ir::Operation& loop) {
    Contents contents;
    look_into(scheduled, loop.blocks.back(), contents);
    const bool products = !contents.products.empty();
    if (!products && (multiplies || !contents.reads)) return;
    const UnitClocks clocks = work.of_block(loop.blocks.back());
    if (bound.per_iteration && products == multiplies && clocks.most() <= bound.clocks.most()) return;
    multiplies = products;
    bound = {clocks, true, products_text(scheduled, contents.products), loop.location};
  });
  if (!bound.per_iteration) bound.clocks = work.of_block(scheduled.body());
  if (bound.products.empty()) bound.clocks.global *= rates.cache / rates.memory;
  return bound;
}

std::string explain_bound(const ir::Function& scheduled, const Target& target) {
  const Bound bound = bound_of(scheduled, target);
  struct Unit {
    double clocks;
    const char *limit, *name;
  };
  const UnitClocks& c = bound.clocks;
  std::vector<Unit> units = {{c.matrix, "matrix units", "matrix instructions"}, {c.special, "special functions", "special functions"}, {c.fp32, "FP32", "FP32"},
                             {c.integer, "integers and conversions", "integers and conversions"}, {c.issue, "instruction issue", "instruction issue"},
                             {c.shared, "shared memory", "shared memory"}, {c.global, "global memory", bound.products.empty() ? "global memory (at main memory's rate)" : "global memory (at the L2 cache's rate)"}};
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.clocks > b.clocks; });
  if (units[0].clocks < 1) return "";
  std::string text = "[bound] " + std::string(units[0].limit) + ": " + (bound.per_iteration ? "an iteration" : "a program") +
                     (bound.products.empty() ? "" : " (" + bound.products + ")") + " takes at least ";
  for (std::size_t i = 0; i < units.size() && units[i].clocks >= 1; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(std::llround(std::min(units[i].clocks, 1e18))) + (i == 0 ? " clocks of " : " of ") + units[i].name;
  const long long share = std::llround(100 * c.matrix / units[0].clocks);   // what schedules with different iterations have in common
  if (c.matrix >= 1 && share < 100) text += "; matrix units work at most " + std::to_string(share) + " % of them";
  const bool placed = bound.location.line > 0 && bound.location.file < scheduled.files.size();
  return (placed ? scheduled.files[bound.location.file] + ":" + std::to_string(bound.location.line) + ": " : "") + text;
}

}  // namespace flextile::backend
