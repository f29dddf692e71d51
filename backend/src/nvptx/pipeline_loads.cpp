// Tiles that dots read from memory go through shared memory by asynchronous copies.
//
// In a loop with {stages = S} they go through rings of S stages, S - 1 iterations ahead:
//
//   copies for iterations 0 .. S-2                        each copy is a group of its own; absent iterations copy nothing
//   loop i:
//     wait until the copies for i have landed; barrier    all threads see them, and are done with the stage of i - 1
//     copy for i + S - 1 into that stage
//     ... shared_load stage of i, at the dot ...
//
// What a copy's address depends on (indices, table entries) is computed again for the later iteration. Elsewhere a tile is
// copied once, waited for at once, and read at each dot, or kept in registers where it is small.
#include <algorithm>

#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/tile_copies.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Attributes;
using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;
using ir::Value;

/// A tile outside a pipelined loop stays in registers up to this many 32-bit registers per thread; where products of
/// warpgroups can read it from shared memory, it stays there.
constexpr std::int64_t most_kept_registers = 32;

class Pipeline : TileCopies {
 public:
  /// Rings get at most `most_stages`.
  Pipeline(const Function& source, std::int64_t most_stages, std::int64_t kept_registers)
      : TileCopies(source), most_stages_(most_stages), kept_registers_(kept_registers) {}

  Function run() {
    walk_loops(f_.body());
    walk_loads(f_.body());
    return std::move(f_);
  }

 private:
  /// Some dot that reads the value takes its elements one by one.
  bool feeds_scalar_dot(Value value) const {
    for (OperationId id : users(value)) {
      const Operation& user = f_.operation(id);
      if (user.opcode == Opcode::dot ? instruction_of(f_, user).name == "fma" : feeds_scalar_dot(user.results[0])) return true;
    }
    return false;
  }

  // ---- copies
  struct Ring {
    OperationId load;
    Value buffer;
    std::vector<OperationId> slice;   // what its offsets are computed from inside the loop
  };

  Value allocate(Order& order, BlockId block, const Operation& load, int stages) {
    const Type& tile = f_.type(load.results[0]);
    return emit_value(order, block, Opcode::alloc_shared, {}, Type::shared(tile.element, tile.shape(), stages), {{AttributeName::swizzle, std::int64_t{128}}});
  }

  void emit_copy(Order& order, BlockId block, Value buffer, Value stage, const std::vector<Value>& view_and_offsets, Value predicate) {
    std::vector<Value> operands{buffer, stage};
    operands.insert(operands.end(), view_and_offsets.begin(), view_and_offsets.end());
    Attributes attributes;
    if (predicate) {
      operands.push_back(predicate);
      attributes.set(AttributeName::has_predicate, std::int64_t{1});
    }
    emit_value(order, block, Opcode::async_copy, std::move(operands), Type::token(), std::move(attributes));
  }

  void emit_wait(Order& order, BlockId block, std::int64_t pending) {
    emit(order, block, {Opcode::async_wait, {}, {}, {}, {{AttributeName::pending, pending}}, location_}, {});
    emit(order, block, {Opcode::barrier, {}, {}, {}, {}, location_}, {});
  }

  void repeat_slices(Order& order, BlockId block, const std::vector<Ring>& rings, Value predicate, Renamed& names) {
    for (const Ring& ring : rings) repeat(order, block, ring.slice, predicate, names);
  }

  void emit_copies(Order& order, BlockId block, const std::vector<Ring>& rings, Value stage, Value predicate, const Renamed& names) {
    for (const Ring& ring : rings) {
      std::vector<Value> operands = f_.operation(ring.load).operands;
      for (Value& operand : operands) operand = renamed(names, operand);
      emit_copy(order, block, ring.buffer, stage, operands, predicate);
    }
  }

  // ---- the walk: rings first, so that a tile that is copied once knows what is in flight at its first use
  void walk_loops(BlockId block) {
    const Order operations = f_.block(block).operations;
    for (OperationId id : operations) {
      location_ = f_.operation(id).location;
      if (f_.operation(id).opcode == Opcode::for_) pipeline(id, block);
      for (BlockId inner : std::vector<BlockId>(f_.operation(id).blocks)) walk_loops(inner);
    }
  }

  void walk_loads(BlockId block) {
    const Order operations = f_.block(block).operations;
    for (OperationId id : operations) {
      location_ = f_.operation(id).location;
      for (BlockId inner : std::vector<BlockId>(f_.operation(id).blocks)) walk_loads(inner);
      if (can_copy(f_.operation(id))) copy_once(id, block);
    }
  }

  void copy_once(OperationId id, BlockId block) {
    const Operation load = f_.operation(id);
    const Type type = f_.type(load.results[0]);
    Order order;
    const Value buffer = allocate(order, block, load, 1);
    const Value stage = number(order, block, 0);
    emit_copy(order, block, buffer, stage, load.operands, {});
    insert_before(id, block, order);

    // The wait stands at the first use; copies that were issued since may stay in flight. Memory that the program may
    // write is read at once.
    OperationId first_use = id;
    std::int64_t newer = 0;
    if (parameter_of(load.operands[0])->read_only) {
      const Order& operations = f_.block(block).operations;
      auto at = std::find(operations.begin(), operations.end(), id) + 1;
      while (at != operations.end() && !uses(*at, load.results[0])) newer += f_.operation(*at++).opcode == Opcode::async_copy;
      if (at != operations.end()) first_use = *at;
      else newer = 0;
    }
    Order wait;
    emit_wait(wait, block, newer);
    const bool kept = type.elements() * byte_size(type.element) / 4 / (lanes_per_warp * f_.num_warps) <= kept_registers_ && used_deeper(load.results[0], block) && !feeds_scalar_dot(load.results[0]);
    if (kept) {
      const Value read = emit_value(wait, block, Opcode::shared_load, {buffer, stage}, type);
      for (OperationId user : users(load.results[0])) substitute(user, load.results[0], read);
    }
    auto& operations = f_.block(block).operations;
    auto place = std::find(operations.begin(), operations.end(), first_use);
    auto reads = [&](OperationId each) { return f_.operation(each).opcode == Opcode::shared_load || f_.operation(each).opcode == Opcode::transpose; };
    while (place != operations.begin() && reads(*(place - 1))) --place;   // nothing comes between another operand's read and its dot
    operations.insert(place, wait.begin(), wait.end());
    if (!kept) read_at_uses(id, buffer, stage);
    remove(id);
  }

  /// Some user stands in an inner block: a loop would read it again and again.
  bool used_deeper(Value value, BlockId block) const {
    for (OperationId id : users(value)) {
      const Operation& user = f_.operation(id);
      if (block_of(id) != block) return true;
      if (user.opcode == Opcode::transpose && used_deeper(user.results[0], block)) return true;
    }
    return false;
  }

  void pipeline(OperationId loop_id, BlockId outside) {
    const Operation loop = f_.operation(loop_id);
    const std::int64_t stages = std::min(most_stages_, loop.attributes.integer(AttributeName::stages, 1));
    const BlockId body = loop.blocks[0];
    const Operation* step = f_.defining(loop.operands[2]);
    if (stages < 2 || !step || step->opcode != Opcode::constant || step->attributes.integer(AttributeName::value) <= 0) return;
    if (f_.type(loop.operands[0]).element != ElementType::i32 || contains_loop(body)) return;
    const std::int64_t stride = step->attributes.integer(AttributeName::value);
    const bool loop_writes = writes(body);

    std::vector<Ring> rings;
    for (OperationId id : f_.block(body).operations) {
      const Operation& load = f_.operation(id);
      if (!can_copy(load) || (loop_writes && !parameter_of(load.operands[0])->read_only)) continue;
      Ring ring{id, {}, {}};
      bool sliced = true;
      for (std::size_t i = 1; i < load.operands.size(); ++i) sliced = sliced && collect_slice(load.operands[i], body, loop_writes, ring.slice);
      if (sliced) rings.push_back(std::move(ring));
    }
    if (rings.empty()) return;
    const bool reads_tables = std::any_of(rings.begin(), rings.end(), [&](const Ring& ring) {
      return std::any_of(ring.slice.begin(), ring.slice.end(), [&](OperationId id) { return !ir::has(f_.operation(id).opcode, ir::pure); });
    });

    Order before;
    const Value lower = loop.operands[0], upper = loop.operands[1];
    const Value index = f_.block(body).arguments[0];
    const Type bit = Type::scalar(ElementType::i1);
    for (Ring& ring : rings) ring.buffer = allocate(before, outside, f_.operation(ring.load), static_cast<int>(stages));
    for (std::int64_t ahead = 0; ahead + 1 < stages; ++ahead) {
      const Value later = ahead == 0 ? lower : arithmetic(before, outside, Opcode::add, lower, number(before, outside, ahead * stride));
      const Value exists = emit_value(before, outside, Opcode::lt, {later, upper}, bit);
      Renamed names{{index.index, later}};
      repeat_slices(before, outside, rings, exists, names);
      emit_copies(before, outside, rings, number(before, outside, ahead), exists, names);
    }
    insert_before(loop_id, outside, before);

    Order start;
    emit_wait(start, body, static_cast<std::int64_t>(rings.size()) * (stages - 2));
    Value turn = arithmetic(start, body, Opcode::sub, index, lower);
    if (stride != 1) turn = arithmetic(start, body, Opcode::div, turn, number(start, body, stride));
    const Value ring_size = number(start, body, stages);
    const Value stage = arithmetic(start, body, Opcode::rem, turn, ring_size);
    const Value ahead = arithmetic(start, body, Opcode::add, turn, number(start, body, stages - 1));
    const Value next_stage = arithmetic(start, body, Opcode::rem, ahead, ring_size);
    const Value later = arithmetic(start, body, Opcode::add, index, number(start, body, (stages - 1) * stride));
    const Value exists = emit_value(start, body, Opcode::lt, {later, upper}, bit);
    Renamed names{{index.index, later}};
    repeat_slices(start, body, rings, exists, names);
    Order issue;
    emit_copies(issue, body, rings, next_stage, exists, names);
    auto& operations = f_.block(body).operations;
    operations.insert(operations.begin(), start.begin(), start.end());
    // Where addresses come from a table, the first dot runs while the table's entry is on its way.
    auto place = operations.begin() + static_cast<std::ptrdiff_t>(start.size());
    if (reads_tables) {
      const auto dot = std::find_if(place, operations.end(), [&](OperationId id) { return f_.operation(id).opcode == Opcode::dot; });
      if (dot != operations.end()) place = dot + 1;
    }
    operations.insert(place, issue.begin(), issue.end());
    for (const Ring& ring : rings) {
      location_ = f_.operation(ring.load).location;
      read_at_uses(ring.load, ring.buffer, stage);
      remove(ring.load);
    }
  }

  std::int64_t most_stages_;
  std::int64_t kept_registers_;
};

/// Scratch space that other operations are left.
constexpr std::int64_t reserve = 8192;

std::int64_t buffer_bytes(const Function& function) {
  std::int64_t sum = 0;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (OperationId id : function.block({block}).operations) {
      if (function.operation(id).opcode != Opcode::alloc_shared) continue;
      const Type& type = function.type(function.operation(id).results[0]);
      sum += type.elements() * byte_size(type.element) * type.stages;
    }
  }
  return sum;
}

}  // namespace

/// With as many stages as were asked for and fit into shared memory; without copies where even single buffers do not fit.
ir::Function pipeline_loads(const ir::Function& function, const Target& target) {
  std::int64_t stages = 1;
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    const Operation& operation = function.operation({i});
    if (operation.opcode == Opcode::for_) stages = std::max(stages, operation.attributes.integer(AttributeName::stages, 1));
  }
  for (stages = std::min<std::int64_t>(stages, 16); stages >= 1; --stages) {
    Function result = Pipeline(function, stages, has_wgmma(target) ? 0 : most_kept_registers).run();
    if (buffer_bytes(result) + reserve <= shared_memory_limit(target, function.occupancy)) return result;
  }
  return function;
}

}  // namespace flextile::backend
