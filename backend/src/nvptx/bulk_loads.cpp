// Tiles that dots read come by the copy engine (TMA) on sm_90a: one instruction of one thread fetches a tile, lays it out in
// shared memory as wgmma wants it, and counts its bytes at a barrier.
//
// A loop with {stages = S} at the kernel's top level becomes
//
//   start of the rings                                   barriers; one thread fetches turns 0 .. S-1
//   loop:
//     wait for a stage, at the first dot that reads it
//     release it, behind the last                        when all warps have, one thread fetches turn + S into it
//
// Where such a loop is all that a program does before its epilogue, programs stay on the device (resident_programs.hpp): a release
// near a program's end fetches the next program's first tiles. Turns count on from program to program.
//
// No barrier of all threads stands in the loop and no warp waits for a slower one, so warpgroups drift apart: one multiplies
// while another exponentiates. There is no producer warp: a ninth warp would take a third of the registers of its quarter of
// the multiprocessor, and setmaxnreg, which gives them back, is ignored where PTX is assembled by nvJitLink (13.0), as one of
// several compilation units.
#include <algorithm>

#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/scratch.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Type;
using ir::Value;

constexpr std::int64_t alignment = 1024;         // of a buffer; its barriers lie behind it
constexpr int most_box_rows = 256;               // of the copy engine
constexpr std::int64_t most_stages = 8;

class BulkLoads : ResidentPrograms {
 public:
  BulkLoads(const Function& source, std::int64_t most_shared) : ResidentPrograms(source), free_bytes_(most_shared) {}

  Function run() {
    const Order operations = f_.block(f_.body()).operations;
    auto may_run_ahead = [&](OperationId id) {
      const Operation& operation = f_.operation(id);
      return operation.opcode == Opcode::for_ && operation.attributes.integer(AttributeName::stages, 1) > 1;
    };
    const bool alone = std::count_if(operations.begin(), operations.end(), may_run_ahead) == 1;
    for (OperationId id : operations) {
      if (!may_run_ahead(id)) continue;
      rings_.clear();
      single_.clear();
      location_ = f_.operation(id).location;
      if (const std::string reason = plan(id); !reason.empty()) f_.operation(id).attributes.set(AttributeName::schedule, "the copy engine fetches nothing: " + reason);
      else if (!alone || !transform_resident(id)) transform(id);
    }
    return std::move(f_);
  }

 private:
  struct Copied {
    OperationId load;
    std::vector<OperationId> slice;   // what its offsets are computed from inside the loop
    Value buffer;
  };

  // ---- the plan
  /// Empty where the loop can be transformed; else why not.
  std::string plan(OperationId loop_id) {
    if (f_.num_warps % 4 != 0) return "a program needs warps in fours, this one has " + std::to_string(f_.num_warps);
    const Operation& loop = f_.operation(loop_id);
    const BlockId body = loop.blocks[0];
    const Operation* step = f_.defining(loop.operands[2]);
    if (!step || step->opcode != Opcode::constant || step->attributes.integer(AttributeName::value) <= 0) return "the loop's step is not known";
    if (f_.type(loop.operands[0]).element != ElementType::i32) return "the loop's index is no i32";
    if (contains_loop(body)) return "the loop contains a loop";
    stride_ = step->attributes.integer(AttributeName::value);
    stages_ = std::min(loop.attributes.integer(AttributeName::stages), most_stages);
    if (std::string wrong = plan_rings(body); !wrong.empty()) return wrong;
    plan_single_tiles(loop_id);
    std::int64_t single = alignment * static_cast<std::int64_t>(single_.size() + rings_.size()), stage = 0;
    for (const Copied& copied : single_) single += bytes(copied);
    for (const Copied& copied : rings_) stage += bytes(copied);
    stages_ = std::min(stages_, (free_bytes_ - single) / stage);
    if (stages_ < 2) return "two stages take " + std::to_string(single + 2 * stage) + " bytes of shared memory, " + std::to_string(free_bytes_) + " are left";
    free_bytes_ -= single + stages_ * stage;
    return "";
  }

  /// A tile of 16-bit numbers in boxes that the copy engine can fetch: whole panels of 128 bytes.
  bool in_boxes(const Operation& load) const {
    if (!can_copy(load)) return false;
    const Type& type = f_.type(load.results[0]);
    return bit_width(type.element) == 16 && type.extents[1] % 64 == 0 && type.extents[0] % 8 == 0 && type.extents[0] <= most_box_rows && f_.type(load.operands[0]).rank <= 5;
  }

  std::string plan_rings(BlockId body) {
    const bool loop_writes = writes(body);
    for (OperationId id : f_.block(body).operations) {
      const Operation& load = f_.operation(id);
      if (load.opcode != Opcode::view_load || !feeds_dots(load.results[0])) continue;
      if (!in_boxes(load)) return "a tile that a dot reads is none of 16-bit numbers in rows of whole 128 bytes, aligned in memory";
      if (loop_writes && !parameter_of(load.operands[0])->read_only) return "the loop may write what it reads";
      Copied ring{id, {}, {}};
      for (std::size_t i = 1; i < load.operands.size(); ++i) {
        if (!collect_slice(load.operands[i], body, loop_writes, ring.slice)) return "a tile's offsets depend on what the loop computed before";
      }
      if (!read_in(body, load.results[0])) return "a dot that reads a tile of the loop stands in a branch";
      rings_.push_back(std::move(ring));
    }
    return rings_.empty() ? "no load in the loop feeds a dot alone" : "";
  }

  bool read_in(BlockId block, Value value) const {
    for (OperationId id : users(value)) {
      if (block_of(id) != block) return false;
      if (f_.operation(id).opcode == Opcode::transpose && !read_in(block, f_.operation(id).results[0])) return false;
    }
    return true;
  }

  /// Tiles from in front of the loop that are first read in it.
  void plan_single_tiles(OperationId loop) {
    const Order& operations = f_.block(f_.body()).operations;
    for (auto id = operations.begin(); *id != loop; ++id) {
      const Operation& load = f_.operation(*id);
      if (!in_boxes(load) || !parameter_of(load.operands[0])->read_only) continue;
      const auto first = std::find_if(id + 1, operations.end(), [&](OperationId user) { return uses(user, load.results[0]); });
      if (first != operations.end() && *first == loop) single_.push_back({*id, {}, {}});
    }
  }

  std::int64_t bytes(const Copied& copied) const {
    const Type& type = f_.type(f_.operation(copied.load).results[0]);
    return type.elements() * byte_size(type.element);
  }

  // ---- the transformation
  void allocate(Order& order, Copied& copied, std::int64_t stages) {
    const Type tile = f_.type(f_.operation(copied.load).results[0]);
    copied.buffer = emit_value(order, f_.body(), Opcode::alloc_shared, {}, Type::shared(tile.element, tile.shape(), static_cast<int>(stages)),
                               {{AttributeName::swizzle, std::int64_t{128}}, {AttributeName::barriers, std::int64_t{1}}});
  }

  void ring_operation(Order& order, BlockId block, Opcode opcode, const Copied& copied, Value turn, std::vector<BlockId> blocks = {}) {
    emit(order, block, {opcode, {copied.buffer, turn}, {}, std::move(blocks), {}, f_.operation(copied.load).location}, {});
  }

  /// Fetches the tile of another iteration, which `names` maps the loop's index to.
  void fetch(Order& order, BlockId block, const Copied& copied, Value turn, Renamed& names) {
    repeat(order, block, copied.slice, {}, names);
    std::vector<Value> operands{copied.buffer, turn};
    for (Value operand : f_.operation(copied.load).operands) operands.push_back(renamed(names, operand));
    emit(order, block, {Opcode::bulk_copy, std::move(operands), {}, {}, {}, f_.operation(copied.load).location}, {});
  }

  Value is_reached(Order& order, BlockId block, Value index, Value upper) {
    return emit_value(order, block, Opcode::lt, {index, upper}, Type::scalar(ElementType::i1));
  }

  /// A branch on `condition` around what `fill` makes.
  template <class Fill> void when(Order& order, BlockId block, Value condition, Fill fill) {
    const BlockId inside = f_.add_block(), otherwise = f_.add_block();
    Order inner;
    fill(inner, inside);
    finish(inside, inner);
    finish(otherwise, {});
    emit(order, block, {Opcode::if_, {condition}, {}, {inside, otherwise}, {}, location_}, {});
  }

  void finish(BlockId block, Order order) {
    emit(order, block, {Opcode::yield, {}, {}, {}, {}, location_}, {});
    f_.block(block).operations = std::move(order);
  }

  // ---- a program of its own
  void transform(OperationId loop_id) {
    const Operation loop = f_.operation(loop_id);
    Order before;
    allocate_all(before);
    start(before, loop, {});
    insert_before(loop_id, f_.body(), before);
    Order wait;
    const Value zero = number(wait, f_.body(), 0);
    insert_before(loop_id, f_.body(), wait);
    for (const Copied& copied : single_) read_single(copied, loop_id, f_.body(), zero);
    read_rings(loop);
  }

  void allocate_all(Order& order) {
    for (Copied& copied : single_) allocate(order, copied, 1);
    for (Copied& copied : rings_) allocate(order, copied, stages_);
  }

  /// Starts the rings and fetches the first turns; `names` says what stands for values of the program.
  void start(Order& order, const Operation& loop, const Renamed& names) {
    const BlockId block = f_.add_block();
    Order inner;
    for (const Copied& copied : single_) {
      Renamed same = names;
      fetch(inner, block, copied, number(inner, block, 0), same);
    }
    const Value lower = renamed(names, loop.operands[0]), upper = renamed(names, loop.operands[1]);
    for (std::int64_t turn = 0; turn < stages_; ++turn) {
      const Value index = turn == 0 ? lower : arithmetic(inner, block, Opcode::add, lower, number(inner, block, turn * stride_));
      when(inner, block, is_reached(inner, block, index, upper), [&](Order& inside, BlockId at) {
        Renamed here = names;
        here[f_.block(loop.blocks[0]).arguments[0].index] = index;
        for (const Copied& ring : rings_) fetch(inside, at, ring, number(inside, at, turn), here);
      });
    }
    finish(block, std::move(inner));
    std::vector<Value> buffers;
    for (const std::vector<Copied>* list : {&single_, &rings_}) {
      for (const Copied& copied : *list) buffers.push_back(copied.buffer);
    }
    emit(order, f_.body(), {Opcode::ring_start, std::move(buffers), {}, {block}, {}, location_}, {});
  }

  void read_single(const Copied& copied, OperationId loop_id, BlockId block, Value turn) {
    Order wait;
    ring_operation(wait, block, Opcode::ring_wait, copied, turn);
    const Value stage = number(wait, block, 0);
    insert_before(loop_id, block, wait);
    read_at_uses(copied.load, copied.buffer, stage);
    remove(copied.load);
  }

  void read_rings(const Operation& loop) {
    const BlockId body = loop.blocks[0];
    const Value index = f_.block(body).arguments[0];
    Order start;
    Value turn = arithmetic(start, body, Opcode::sub, index, loop.operands[0]);
    if (stride_ != 1) turn = arithmetic(start, body, Opcode::div, turn, number(start, body, stride_));
    if (base_) turn = arithmetic(start, body, Opcode::add, turn, base_);
    const Value stage = arithmetic(start, body, Opcode::rem, turn, number(start, body, stages_));
    std::vector<BlockId> refills;
    for (const Copied& ring : rings_) refills.push_back(refill(ring, loop, index, turn));
    auto& operations = f_.block(body).operations;
    operations.insert(operations.begin(), start.begin(), start.end());
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const Copied& ring = rings_[i];
      const std::vector<OperationId> dots = read_at_uses(ring.load, ring.buffer, stage);
      auto position = [&](OperationId id) { return std::find(f_.block(body).operations.begin(), f_.block(body).operations.end(), id); };
      auto earlier = [&](OperationId a, OperationId b) { return position(a) < position(b); };
      Order release;
      ring_operation(release, body, Opcode::ring_release, ring, turn, {refills[i]});
      insert_after(*std::max_element(dots.begin(), dots.end(), earlier), body, release);
      Order wait;
      ring_operation(wait, body, Opcode::ring_wait, ring, turn);
      auto first = position(*std::min_element(dots.begin(), dots.end(), earlier));
      while (first != f_.block(body).operations.begin() && is_read(*(first - 1))) --first;   // nothing comes between an operand's read and its dot
      f_.block(body).operations.insert(first, wait.begin(), wait.end());
      remove(ring.load);
    }
  }

  /// The block that fetches turn + stages, of this program or of the next. Lists that it reads are read in order and so lie in the
  /// nearest cache; nobody else spends registers on them.
  BlockId refill(const Copied& ring, const Operation& loop, Value index, Value turn) {
    const BlockId block = f_.add_block();
    Order order;
    Value later = arithmetic(order, block, Opcode::add, index, number(order, block, stages_ * stride_));
    Value reached = is_reached(order, block, later, loop.operands[1]);
    Renamed names;
    if (base_) {
      const Value here = reached;
      auto choose = [&](Value a, Value b) { return emit_value(order, block, Opcode::select, {here, a, b}, f_.type(a)); };
      // Steps into the next program: what is left when this one's turns are over.
      const Value steps = arithmetic(order, block, Opcode::sub, arithmetic(order, block, Opcode::add, turn, number(order, block, stages_)), arithmetic(order, block, Opcode::add, base_, trips_));
      const Value in_next = emit_value(order, block, Opcode::lt, {steps, next_trips_}, Type::scalar(ElementType::i1));
      later = choose(later, index_in_next(order, block, loop, steps));
      reached = emit_value(order, block, Opcode::bit_or, {here, in_next}, Type::scalar(ElementType::i1));
      for (Value value : used_by(ring)) names[value.index] = choose(value, renamed(next_names_, value));
    }
    names[index.index] = later;
    when(order, block, reached, [&](Order& inside, BlockId at) {
      fetch(inside, at, ring, arithmetic(inside, at, Opcode::add, turn, number(inside, at, stages_)), names);
    });
    finish(block, std::move(order));
    return block;
  }

  // ---- programs that stay
  bool transform_resident(OperationId loop_id) {
    const Function before = f_;
    wrap();
    if (!plan_next(f_.operation(loop_id))) {
      f_ = before;
      facts_.resize(f_.value_count());
      program_ = {};
      return false;
    }
    carry();
    const Operation loop = f_.operation(loop_id);
    auto next = [&](Value value) { return renamed(next_names_, value); };
    trips_ = trips(loop.operands[0], loop.operands[1]);
    next_trips_ = emit_value(start_, program_, Opcode::select, {follows_, trips(next(loop.operands[0]), next(loop.operands[1])), number(start_, program_, 0)}, f_.type(trips_));
    Order outside;
    allocate_all(outside);
    start(outside, loop, first_names_);
    auto& around = f_.block(f_.body()).operations;
    around.insert(around.end() - 1, outside.begin(), outside.end());
    fetch_ahead(loop);
    begin();
    for (const Copied& copied : single_) {
      read_single(copied, loop_id, program_, round_);
      Order release;
      const BlockId block = f_.add_block();
      Order inner;
      when(inner, block, follows_, [&](Order& inside, BlockId at) {
        Renamed names = next_names_;
        fetch(inside, at, copied, arithmetic(inside, at, Opcode::add, round_, number(inside, at, 1)), names);
      });
      finish(block, std::move(inner));
      ring_operation(release, program_, Opcode::ring_release, copied, round_, {block});
      insert_after(loop_id, program_, release);
    }
    read_rings(loop);
    Order end;
    const Value base = arithmetic(end, program_, Opcode::add, base_, trips_);
    auto& operations = f_.block(program_).operations;
    operations.insert(operations.end(), end.begin(), end.end());
    close(base);
    return true;
  }

  /// What must be known of the next program.
  bool plan_next(const Operation& loop) {
    const std::vector<Value> bounds(loop.operands.begin(), loop.operands.begin() + 2);
    std::vector<Value> wanted = bounds;
    for (const std::vector<Copied>* list : {&single_, &rings_}) {
      for (const Copied& copied : *list) {
        for (OperationId id : copied.slice) wanted.insert(wanted.end(), f_.operation(id).operands.begin(), f_.operation(id).operands.end());
        const auto& operands = f_.operation(copied.load).operands;
        wanted.insert(wanted.end(), operands.begin() + 1, operands.end());
      }
    }
    return std::all_of(wanted.begin(), wanted.end(), [&](Value value) { return needs(value); });
  }

  /// Carried values that fetching into the ring takes.
  std::vector<Value> used_by(const Copied& copied) const {
    std::vector<Value> result;
    for (Value value : here_) {
      const bool used = uses(copied.load, value) || std::any_of(copied.slice.begin(), copied.slice.end(), [&](OperationId id) { return uses(id, value); });
      if (used) result.push_back(value);
    }
    return result;
  }

  Value trips(Value lower, Value upper) {
    Value length = arithmetic(start_, program_, Opcode::max, arithmetic(start_, program_, Opcode::sub, upper, lower), number(start_, program_, 0));
    if (stride_ == 1) return length;
    length = arithmetic(start_, program_, Opcode::add, length, number(start_, program_, stride_ - 1));
    return arithmetic(start_, program_, Opcode::div, length, number(start_, program_, stride_));
  }

  Value index_in_next(Order& order, BlockId block, const Operation& loop, Value steps) {
    const Value distance = stride_ == 1 ? steps : arithmetic(order, block, Opcode::mul, steps, number(order, block, stride_));
    return arithmetic(order, block, Opcode::add, distance, renamed(next_names_, loop.operands[0]));
  }

  /// A program of fewer turns than there are stages cannot fetch all of the next one's first turns when it releases its own: the
  /// rest is fetched when it begins.
  void fetch_ahead(const Operation& loop) {
    when(start_, program_, emit_value(start_, program_, Opcode::lt, {trips_, number(start_, program_, stages_)}, Type::scalar(ElementType::i1)), [&](Order& order, BlockId block) {
      for (std::int64_t j = 0; j < stages_; ++j) {
        const Value steps = arithmetic(order, block, Opcode::sub, number(order, block, j), trips_);
        const Value inside = emit_value(order, block, Opcode::bit_and,
                                        {emit_value(order, block, Opcode::ge, {steps, number(order, block, 0)}, Type::scalar(ElementType::i1)),
                                         emit_value(order, block, Opcode::lt, {steps, next_trips_}, Type::scalar(ElementType::i1))},
                                        Type::scalar(ElementType::i1));
        when(order, block, inside, [&](Order& fetches, BlockId at) {
          const Value turn = arithmetic(fetches, at, Opcode::add, base_, number(fetches, at, j));
          for (const Copied& ring : rings_) {
            const BlockId filled = f_.add_block();
            Order fill;
            Renamed names = next_names_;
            names[f_.block(loop.blocks[0]).arguments[0].index] = index_in_next(fill, filled, loop, steps);
            fetch(fill, filled, ring, turn, names);
            finish(filled, std::move(fill));
            ring_operation(fetches, at, Opcode::ring_refill, ring, turn, {filled});
          }
        });
      }
    });
  }

  bool is_read(OperationId id) const { return f_.operation(id).opcode == Opcode::shared_load || f_.operation(id).opcode == Opcode::transpose; }

  Value trips_, next_trips_;     // of this program and of the next
  std::int64_t free_bytes_;
  std::int64_t stride_ = 1;
  std::int64_t stages_ = 2;
  std::vector<Copied> rings_;
  std::vector<Copied> single_;   // read once, before the loop
};

}  // namespace

/// Where a loop's loads stay as they are, the loop's attribute says why.
ir::Function bulk_loads(const ir::Function& function, const Target& target) {
  return has_wgmma(target) ? BulkLoads(function, shared_memory_limit(target)).run() : function;
}

}  // namespace flextile::backend
