// Tiles that dots read come by the copy engine (TMA) on sm_90a: one instruction of one thread fetches a tile, lays it out in
// shared memory as wgmma wants it, and counts its bytes at a barrier.
//
// Where a loop with {stages = S} is the only one at the kernel's top level, and what it fetches depends on the program's number and
// on memory that nobody writes, programs stay on the device (resident_programs.hpp), and warps have roles:
//
//   producer: for each program:  fill the rings of the tiles from in front of the loop
//                                for each step: fill each ring, as soon as its stage is empty
//   consumer: for each program:  loop: wait for a stage, at the first dot (or sum) that reads it; release it, behind the last
//
// The producer is four warps, of which each fills rings of its own, with one thread. It needs few registers and leaves the others to
// the consumers (setmaxnreg). No barrier of all threads stands in a loop and no warp waits for a slower one, so warpgroups drift
// apart: one multiplies while another exponentiates.
//
// Else the kernel's own warps fetch: before the loop turns 0 .. S-1, and, when all have released a stage, one thread the turn + S.
#include <algorithm>

#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/shared.hpp"
#include "nvptx/tensor_maps.hpp"
#include "nvptx/tile_index.hpp"

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
constexpr std::int64_t most_stages = 8;
constexpr std::int64_t other_registers = 30;     // that an instruction takes beside its sums

class BulkLoads : ResidentPrograms {
 public:
  BulkLoads(const Function& source, std::int64_t most_shared)
      : ResidentPrograms(source), free_bytes_(most_shared), other_widths_(wgmma_obstacle(source, ProductWidth::other)) {}

  Function run() {
    const Order operations = f_.block(f_.body()).operations;
    auto may_run_ahead = [&](OperationId id) {
      const Operation& operation = f_.operation(id);
      return operation.opcode == Opcode::for_ && operation.attributes.integer(AttributeName::stages, 1) > 1;
    };
    const auto loops = std::count_if(operations.begin(), operations.end(), may_run_ahead);
    for (OperationId id : operations) {
      if (!may_run_ahead(id)) continue;
      rings_.clear();
      single_.clear();
      location_ = f_.operation(id).location;
      if (const std::string reason = plan(id); !reason.empty()) {
        f_.operation(id).attributes.set(AttributeName::schedule, "the copy engine fetches nothing: " + reason);
      } else if (const std::string obstacle = loops > 1 ? "the kernel has other loops with stages" : specialise(id); !obstacle.empty()) {
        f_.operation(id).attributes.set(AttributeName::schedule, "no producer fetches, and programs do not stay on the device: " + obstacle);
        transform(id);
      }
    }
    return std::move(f_);
  }

 private:
  struct Copied {
    OperationId load;
    std::vector<OperationId> slice{};   // what its offsets are computed from inside the loop
    Value buffer{};
    OperationId gather{};               // that reads along the diagonals of what is loaded; else none
    std::int64_t diagonals = 0;         // of those reads
    Value first{};                      // and how many elements of what is loaded come before the first that they need
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
    const std::size_t of_dots = rings_.size();
    plan_tiles_for_threads(body);
    plan_windows(body);
    std::int64_t single = 0, stage = 0, fit = 0;
    for (;;) {
      single = alignment * static_cast<std::int64_t>(single_.size() + rings_.size()), stage = 0;
      for (const Copied& copied : single_) single += bytes(copied);
      for (const Copied& copied : rings_) stage += bytes(copied);
      fit = (free_bytes_ - single) / stage;
      if ((fit >= 2 && single_.size() + rings_.size() <= most_tensor_maps) || rings_.size() == of_dots) break;
      if (rings_.back().gather) {
        remove(rings_.back().load);
        read_by_threads(rings_.back().gather, fit < 2 ? "shared memory has no room for windows of the table" : "a launch has no room for more tensor maps");
      }
      rings_.pop_back();   // threads read it from memory themselves
    }
    stages_ = std::min(stages_, fit);
    if (stages_ < 2) return "two stages take " + std::to_string(single + 2 * stage) + " bytes of shared memory, " + std::to_string(free_bytes_) + " are left";
    free_bytes_ -= single + stages_ * stage;
    const bool may_be_early = loop.attributes.integer(AttributeName::early_tiles, 1) != 0;
    early_stages_ = may_be_early && free_bytes_ >= single + alignment ? 2 : 1;
    return "";
  }

  bool is_half(const Operation& load) const { return bit_width(f_.type(load.results[0]).element) == 16; }

  /// A tile in boxes that the copy engine can fetch: whole panels of 128 bytes.
  bool in_boxes(const Operation& load) const {
    if (!is_in_chunks(load)) return false;
    const Type& type = f_.type(load.results[0]);
    // Rows that end within a panel are fetched with what follows them; that pays where they are whole rows of the tensor, as head dims of 80 are.
    const Operation* column = f_.defining(load.operands.back());
    const bool whole_rows = column && column->opcode == Opcode::constant && column->attributes.integer(AttributeName::value) == 0;
    return type.extents[1] * byte_size(type.element) % (whole_rows ? 32 : panel_row) == 0 && type.extents[0] % 8 == 0 && type.extents[0] <= most_box_extent && f_.type(load.operands[0]).rank <= most_tensor_map_axes;
  }

  std::string plan_rings(BlockId body) {
    const bool loop_writes = writes(body);
    for (OperationId id : f_.block(body).operations) {
      const Operation& load = f_.operation(id);
      if (load.opcode != Opcode::view_load || !feeds_dots(load.results[0])) continue;
      // Other widths pay where wgmma reads them; ldmatrix does not.
      if (!is_half(load) && !other_widths_.empty()) return other_widths_;
      if (!in_boxes(load)) return "a tile that a dot reads is none in rows of whole 128 bytes, aligned in memory";
      // The copy engine does not wait for what threads have written to memory, nor does another warp of this program.
      if (!parameter_of(load.operands[0])->read_only && writes(f_.body())) return "the kernel may write what the loop reads: where it does not, make that view const";
      Copied ring{id};
      for (std::size_t i = 1; i < load.operands.size(); ++i) {
        if (!collect_slice(load.operands[i], body, loop_writes, ring.slice)) return "a tile's offsets depend on what the loop computed before";
      }
      if (!read_in(body, load.results[0])) return "a dot that reads a tile of the loop stands in a branch";
      rings_.push_back(std::move(ring));
    }
    return rings_.empty() ? "no load in the loop feeds a dot alone" : "";
  }

  /// Tiles that threads read, such as a bias added to scores: fetched too where there is room.
  void plan_tiles_for_threads(BlockId body) {
    const bool loop_writes = writes(body);
    for (OperationId id : f_.block(body).operations) {
      const Operation& load = f_.operation(id);
      if (load.opcode != Opcode::view_load || feeds_dots(load.results[0]) || !is_half(load) || !in_boxes(load) || !parameter_of(load.operands[0])->read_only) continue;
      Copied ring{id};
      const bool known = std::all_of(load.operands.begin() + 1, load.operands.end(), [&](Value offset) { return collect_slice(offset, body, loop_writes, ring.slice); });
      if (read_by_elements(load.results[0], body) && known) rings_.push_back(std::move(ring));
    }
  }

  /// The gather's last index is c + row - column (1) or c + column - row (-1), and its others are the same for a tile; else 0.
  static std::int64_t direction_of(const std::vector<TileIndex>& indices) {
    if (indices.empty()) return 0;
    const std::array<int, 2> still{};
    if (std::any_of(indices.begin(), indices.end() - 1, [&](const TileIndex& index) { return index.steps != still; })) return 0;
    const auto [row, column] = indices.back().steps;
    return row * column == -1 ? row : 0;
  }

  /// Reads of a captured table at the distance of row and column, table(h, q - kv + c): what a tile reads is a window of it.
  void plan_windows(BlockId body) {
    const bool loop_writes = writes(body);
    const Order operations = f_.block(body).operations;
    for (OperationId id : operations) {
      const Operation gather = f_.operation(id);
      if (gather.opcode != Opcode::gather) continue;
      const Type tile = f_.type(gather.results[0]);
      if (tile.rank != 2 || tile.extents[0] == 1 || tile.extents[1] == 1) continue;   // once a row, once a column
      const std::vector<TileIndex> indices = gathered_indices(f_, gather);
      if (const std::string obstacle = obstacle_to_window(gather, indices); !obstacle.empty()) {
        read_by_threads(id, obstacle);
        continue;
      }
      const std::int64_t direction = direction_of(indices);
      Order order;
      const ir::Location of_loop = std::exchange(location_, gather.location);
      std::vector<Value> operands{gather.operands[0]};
      auto binary = [&](Opcode opcode, Value a, Value b) { return arithmetic(order, body, opcode, a, b); };
      for (const TileIndex& index : indices) {
        operands.push_back(first_of(index, binary, [&](std::int64_t constant) { return number(order, body, constant); }, [](Value scalar) { return scalar; }));
      }
      operands.back() = binary(Opcode::sub, operands.back(), number(order, body, (direction > 0 ? tile.extents[1] : tile.extents[0]) - 1));
      const int chunk = 16 / byte_size(tile.element);   // a box begins at a multiple of 16 bytes
      const Value before = binary(Opcode::bit_and, operands.back(), number(order, body, chunk - 1));
      operands.back() = binary(Opcode::sub, operands.back(), before);
      const int columns = boxed_columns(tile.extents[0] + tile.extents[1] - 1 + chunk - 1, tile.element);
      const Value window = emit_value(order, body, Opcode::view_load, operands, Type::tile(tile.element, {columns}));
      location_ = of_loop;
      insert_before(id, body, order);
      Copied ring{.load = f_.definition(window).operation, .gather = id, .diagonals = direction, .first = before};
      const bool known = std::all_of(operands.begin() + 1, operands.end(), [&](Value offset) { return collect_slice(offset, body, loop_writes, ring.slice); });
      if (known) {
        rings_.push_back(std::move(ring));
      } else {
        remove(ring.load);
        read_by_threads(id, "where its window begins depends on what the loop computed before");
      }
    }
  }

  /// Empty where a window of the table can be fetched; else why not.
  std::string obstacle_to_window(const Operation& gather, const std::vector<TileIndex>& indices) const {
    const ir::Parameter* table = parameter_of(gather.operands[0]);
    const Type& tile = f_.type(gather.results[0]);
    if (direction_of(indices) == 0) return "its last index is no distance of row and column, q - kv + c or kv - q + c, or another index is not the same for a tile";
    if (!table || !table->read_only) return "the kernel may write the table";
    if (!table->aligned || !table->unit_stride) return "the table's rows are not known to begin at multiples of 16 bytes";
    if (bit_width(tile.element) != 16 && bit_width(tile.element) != 32) return "its elements have neither 16 nor 32 bits";
    if (table->type.rank > most_tensor_map_axes) return "the table has more than " + std::to_string(most_tensor_map_axes) + " axes";
    if (!read_by_elements(gather.results[0], block_of(f_.definition(gather.results[0]).operation))) return "others than element-wise operations of the loop's body read it";
    return "";
  }

  void read_by_threads(OperationId gather, const std::string& reason) { f_.operation(gather).attributes.set(AttributeName::schedule, "element by element: " + reason); }

  /// Element-wise operations of the block alone take the value.
  bool read_by_elements(Value value, BlockId block) const {
    const std::vector<OperationId> all = users(value);
    return !all.empty() && std::all_of(all.begin(), all.end(), [&](OperationId user) { return ir::has(f_.operation(user).opcode, ir::elementwise) && block_of(user) == block; });
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
      if (load.opcode != Opcode::view_load || !feeds_dots(load.results[0]) || (!is_half(load) && !other_widths_.empty()) || !in_boxes(load) || !parameter_of(load.operands[0])->read_only) continue;
      const auto first = std::find_if(id + 1, operations.end(), [&](OperationId user) { return uses(user, load.results[0]); });
      if (first == operations.end() || *first != loop) continue;
      if (std::none_of(first + 1, operations.end(), [&](OperationId user) { return uses(user, load.results[0]); })) single_.push_back({*id});
    }
  }

  std::int64_t bytes(const Copied& copied) const {
    const Type type = whole_panels(f_.type(f_.operation(copied.load).results[0]));
    return type.elements() * byte_size(type.element);
  }

  static Type whole_panels(Type tile) {
    std::int32_t& columns = tile.extents[tile.rank - 1];
    const int panel = panel_columns(tile.element);
    columns = (columns + panel - 1) / panel * panel;
    return tile;
  }

  // ---- the transformation
  void allocate(Order& order, Copied& copied, std::int64_t stages) {
    const Type tile = whole_panels(f_.type(f_.operation(copied.load).results[0]));
    copied.buffer = emit_value(order, f_.body(), Opcode::alloc_shared, {}, Type::shared(tile.element, tile.shape(), static_cast<int>(stages)),
                               {{AttributeName::swizzle, std::int64_t{copied.gather ? 0 : panel_row}}, {AttributeName::barriers, std::int64_t{1}}});
  }

  void ring_operation(Order& order, BlockId block, Opcode opcode, const Copied& copied, Value turn, std::vector<BlockId> blocks = {}) {
    emit(order, block, {opcode, {copied.buffer, turn}, {}, std::move(blocks), {}, f_.operation(copied.load).location}, {});
  }

  /// Fetches the tile of another iteration, which `names` maps the loop's index to.
  void fetch(Order& order, BlockId block, const Copied& copied, Value turn, Renamed& names) {
    repeat(order, block, copied.slice, {}, names);
    std::vector<Value> operands{copied.buffer, turn};
    for (Value operand : f_.operation(copied.load).operands) operands.push_back(renamed(names, operand));
    ir::Attributes attributes;
    if (f_.type(copied.buffer).element == ElementType::f32 && !copied.gather) attributes.set(AttributeName::precision, std::string("tf32"));   // dots alone read it
    emit(order, block, {Opcode::bulk_copy, std::move(operands), {}, {}, std::move(attributes), f_.operation(copied.load).location}, {});
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

  // ---- the kernel's own warps fetch
  void transform(OperationId loop_id) {
    const Operation loop = f_.operation(loop_id);
    Order before;
    allocate_all(before, 1);
    start(before, loop);
    insert_before(loop_id, f_.body(), before);
    for (const Copied& copied : single_) {
      Order zero;
      const Value turn = number(zero, f_.body(), 0);
      insert_before(loop_id, f_.body(), zero);
      read_single(copied, loop_id, f_.body(), turn, 1);
    }
    const Value index = f_.block(loop.blocks[0]).arguments[0];
    Order order;
    const Value turn = turn_of(order, loop, index, {});
    read_rings(loop, order, turn, [&](const Copied& ring) { return refill(ring, loop, index, turn); });
  }

  void allocate_all(Order& order, std::int64_t single_stages) {
    for (Copied& copied : single_) allocate(order, copied, single_stages);
    for (Copied& copied : rings_) allocate(order, copied, stages_);
  }

  std::vector<Value> buffers() const {
    std::vector<Value> result;
    for (const std::vector<Copied>* list : {&single_, &rings_}) {
      for (const Copied& copied : *list) result.push_back(copied.buffer);
    }
    return result;
  }

  void start(Order& order, const Operation& loop) {
    const BlockId block = f_.add_block();
    Order inner;
    for (const Copied& copied : single_) {
      Renamed none;
      fetch(inner, block, copied, number(inner, block, 0), none);
    }
    const Value lower = loop.operands[0];
    for (std::int64_t turn = 0; turn < stages_; ++turn) {
      const Value index = turn == 0 ? lower : arithmetic(inner, block, Opcode::add, lower, number(inner, block, turn * stride_));
      when(inner, block, is_reached(inner, block, index, loop.operands[1]), [&](Order& inside, BlockId at) {
        Renamed names{{f_.block(loop.blocks[0]).arguments[0].index, index}};
        for (const Copied& ring : rings_) fetch(inside, at, ring, number(inside, at, turn), names);
      });
    }
    finish(block, std::move(inner));
    emit(order, f_.body(), {Opcode::ring_start, buffers(), {}, {block}, {}, location_}, {});
  }

  void read_single(const Copied& copied, OperationId loop_id, BlockId block, Value turn, std::int64_t stages) {
    Order wait;
    ring_operation(wait, block, Opcode::ring_wait, copied, turn);
    const Value stage = stages == 1 ? number(wait, block, 0) : arithmetic(wait, block, Opcode::rem, turn, number(wait, block, stages));
    insert_before(loop_id, block, wait);
    read_at_uses(copied.load, copied.buffer, stage);
    remove(copied.load);
  }

  /// The turn of the loop's iteration `index`; `base` turns came before the loop (none: 0).
  Value turn_of(Order& order, const Operation& loop, Value index, Value base) {
    const BlockId body = f_.definition(index).block;
    Value turn = arithmetic(order, body, Opcode::sub, index, loop.operands[0]);
    if (stride_ != 1) turn = arithmetic(order, body, Opcode::div, turn, number(order, body, stride_));
    return base ? arithmetic(order, body, Opcode::add, turn, base) : turn;
  }

  /// Waits, reads and releases of the loop's rings. `order` computes the turn.
  template <class Refill> void read_rings(const Operation& loop, Order order, Value turn, Refill refill_of) {
    const BlockId body = loop.blocks[0];
    const Value stage = arithmetic(order, body, Opcode::rem, turn, number(order, body, stages_));
    auto& operations = f_.block(body).operations;
    operations.insert(operations.begin(), order.begin(), order.end());
    for (const Copied& ring : rings_) {
      const std::vector<OperationId> dots = ring.gather ? read_diagonals(ring, stage) : read_at_uses(ring.load, ring.buffer, stage);
      auto position = [&](OperationId id) { return std::find(f_.block(body).operations.begin(), f_.block(body).operations.end(), id); };
      auto earlier = [&](OperationId a, OperationId b) { return position(a) < position(b); };
      Order release;
      ring_operation(release, body, Opcode::ring_release, ring, turn, {refill_of(ring)});
      insert_after(*std::max_element(dots.begin(), dots.end(), earlier), body, release);
      Order wait;
      ring_operation(wait, body, Opcode::ring_wait, ring, turn);
      auto first = position(*std::min_element(dots.begin(), dots.end(), earlier));
      while (first != f_.block(body).operations.begin() && is_read(*(first - 1))) --first;   // nothing comes between an operand's read and its dot
      f_.block(body).operations.insert(first, wait.begin(), wait.end());
      remove(ring.load);
      if (ring.gather) remove(ring.gather);
    }
  }

  /// Reads along the diagonals of a stage, right before each use. Gives the users.
  std::vector<OperationId> read_diagonals(const Copied& ring, Value stage) {
    const Value gathered = f_.operation(ring.gather).results[0];
    const std::vector<OperationId> list = users(gathered);
    for (OperationId user : list) {
      Order order;
      const Value read = emit_value(order, block_of(user), Opcode::shared_load, {ring.buffer, stage, ring.first}, f_.type(gathered), {{AttributeName::diagonals, ring.diagonals}});
      insert_before(user, block_of(user), order);
      substitute(user, gathered, read);
    }
    return list;
  }

  /// The block that fetches turn + stages. Lists that it reads are read in order and so lie in the nearest cache.
  BlockId refill(const Copied& ring, const Operation& loop, Value index, Value turn) {
    const BlockId block = f_.add_block();
    Order order;
    const Value later = arithmetic(order, block, Opcode::add, index, number(order, block, stages_ * stride_));
    Renamed names{{index.index, later}};
    when(order, block, is_reached(order, block, later, loop.operands[1]), [&](Order& inside, BlockId at) {
      fetch(inside, at, ring, arithmetic(inside, at, Opcode::add, turn, number(inside, at, stages_)), names);
    });
    finish(block, std::move(order));
    return block;
  }

  // ---- roles
  /// Before a role says how many registers it keeps, all warps have the same share of them, and the assembler must fit each
  /// instruction's sums into that.
  bool may_have_roles() const {
    const std::int64_t share = registers_at_start(f_);
    if (f_.num_warps > 12) return false;
    for (std::uint32_t i = 0; i < f_.operation_count(); ++i) {
      const Operation& operation = f_.operation({i});
      if (operation.opcode != Opcode::dot) continue;
      if (f_.type(operation.results[0]).extents[1] / 2 + other_registers > share) return false;
    }
    return true;
  }

  /// Empty where it was done; else why it cannot be.
  std::string specialise(OperationId loop_id) {
    if (!may_have_roles()) return "with a producer's four warps a thread would have too few registers for one product's sums";
    const Function before = f_;
    end_behind_start(loop_id);
    wrap();
    if (!plan_producer(f_.operation(loop_id))) {
      f_ = before;
      facts_.resize(f_.value_count());
      return "what it fetches depends on more than the program's number and memory that nobody writes";
    }
    Order outside;
    const std::vector<Value> of_scalars = share(outside);
    const Operation loop = f_.operation(loop_id);
    allocate_all(outside, early_stages_);
    std::vector<Value> rings = buffers();
    rings.insert(rings.end(), of_scalars.begin(), of_scalars.end());
    emit(outside, f_.body(), {Opcode::ring_start, std::move(rings), {}, {empty_block()}, {}, location_}, {});

    Renamed names;
    const ProgramLoop made = producer(names);
    Order order = std::exchange(f_.block(made.body).operations, {});
    std::int64_t warp = 0;
    for (const Copied& copied : single_) {
      Renamed here = names;
      fill(order, made.body, copied, made.round, here, warp++);
    }
    const Value made_turns = trips(order, made.body, renamed(names, loop.operands[0]), renamed(names, loop.operands[1]));
    produce_steps(order, made, loop, made_turns, names, warp);
    f_.block(made.body).operations = std::move(order);

    OperationId last_work = loop_id;
    for (const Copied& copied : single_) {
      read_single(copied, loop_id, consumer_.body, consumer_.round, early_stages_);
      Order release;
      ring_operation(release, consumer_.body, Opcode::ring_release, copied, consumer_.round, {empty_block()});
      insert_after(loop_id, consumer_.body, release);
      if (last_work == loop_id) last_work = release.front();
    }
    Order turns;
    const Value turn = turn_of(turns, loop, f_.block(loop.blocks[0]).arguments[0], consumer_.base);
    read_rings(loop, turns, turn, [&](const Copied&) { return empty_block(); });
    Order end;
    const Value used_turns = trips(end, consumer_.body, loop.operands[0], loop.operands[1]);
    close(std::move(outside), made, made_turns, last_work, std::move(end), used_turns);
    return "";
  }

  /// A loop that runs never ends where it starts: the difference of its ends is the number of steps, and does not wrap.
  void end_behind_start(OperationId loop_id) {
    const Value lower = f_.operation(loop_id).operands[0], upper = f_.operation(loop_id).operands[1];
    const Operation* start = f_.defining(lower);
    if (start && start->opcode == Opcode::constant && start->attributes.integer(AttributeName::value) == 0) return;
    Order order;
    const Value end = arithmetic(order, f_.body(), Opcode::max, upper, lower);
    insert_before(loop_id, f_.body(), order);
    f_.operation(loop_id).operands[1] = end;
  }

  /// What the producer must be able to compute by itself.
  bool plan_producer(const Operation& loop) {
    std::vector<Value> wanted(loop.operands.begin(), loop.operands.begin() + 3);
    const bool written = writes(consumer_.body);   // by the program, in front of the loop too: another warp would read it too early
    auto may_read = [&](OperationId id) { return !written || !ir::has(f_.operation(id).opcode, ir::reads) || reads_what_nobody_writes(f_.operation(id)); };
    for (const std::vector<Copied>* list : {&single_, &rings_}) {
      for (const Copied& copied : *list) {
        if (!std::all_of(copied.slice.begin(), copied.slice.end(), may_read)) return false;
        for (OperationId id : copied.slice) wanted.insert(wanted.end(), f_.operation(id).operands.begin(), f_.operation(id).operands.end());
        const auto& operands = f_.operation(copied.load).operands;
        wanted.insert(wanted.end(), operands.begin() + 1, operands.end());
      }
    }
    return std::all_of(wanted.begin(), wanted.end(), [&](Value value) { return needs(value); });
  }

  BlockId empty_block() {
    const BlockId block = f_.add_block();
    finish(block, {});
    return block;
  }

  /// The producer's warp `warp` fetches a tile as soon as its stage is empty.
  void fill(Order& order, BlockId block, const Copied& copied, Value turn, Renamed& names, std::int64_t warp) {
    const BlockId filled = f_.add_block();
    Order inner;
    fetch(inner, filled, copied, turn, names);
    finish(filled, std::move(inner));
    emit(order, block, {Opcode::ring_refill, {copied.buffer, turn}, {}, {filled}, {{AttributeName::warp, warp % producer_warps}}, f_.operation(copied.load).location}, {});
  }

  /// The loop that fills the rings. The next program is taken when this one's last tiles but one are fetched: early enough to have
  /// its first tiles in time, and late enough that long programs are not kept by those who are busy.
  void produce_steps(Order& order, const ProgramLoop& made, const Operation& loop, Value trips, const Renamed& names, std::int64_t warp) {
    const std::int64_t taker = (warp + static_cast<std::int64_t>(rings_.size()) - 1) % producer_warps;   // whose ring is needed last
    const BlockId body = f_.add_block();
    const Value index = f_.add_argument(body, f_.type(loop.operands[0]));
    Operation steps{Opcode::for_, {}, {}, {body}, {}, location_};
    for (std::size_t i = 0; i < 3; ++i) steps.operands.push_back(renamed(names, loop.operands[i]));
    const Type condition = Type::scalar(ElementType::i1);
    const Value zero = number(order, made.body, 0);
    const Value early = arithmetic(order, made.body, Opcode::max, arithmetic(order, made.body, Opcode::sub, trips, number(order, made.body, 2)), zero);
    const Value at = arithmetic(order, made.body, Opcode::add, steps.operands[0], arithmetic(order, made.body, Opcode::mul, early, number(order, made.body, stride_)));
    Order inner;
    const Value turn = turn_of(inner, steps, index, made.base);
    for (const Copied& ring : rings_) {
      Renamed here = names;
      here[f_.block(loop.blocks[0]).arguments[0].index] = index;
      fill(inner, body, ring, turn, here, warp++);
    }
    when(inner, body, emit_value(inner, body, Opcode::eq, {index, at}, condition), [&](Order& inside, BlockId block) { take(inside, block, made, taker); });
    finish(body, std::move(inner));
    emit(order, made.body, std::move(steps), {});
    when(order, made.body, emit_value(order, made.body, Opcode::eq, {trips, zero}, condition), [&](Order& inside, BlockId block) { take(inside, block, made, taker); });
  }

  /// How often the loop runs.
  Value trips(Order& order, BlockId block, Value lower, Value upper) {
    Value length = arithmetic(order, block, Opcode::max, arithmetic(order, block, Opcode::sub, upper, lower), number(order, block, 0));
    if (stride_ == 1) return length;
    length = arithmetic(order, block, Opcode::add, length, number(order, block, stride_ - 1));
    return arithmetic(order, block, Opcode::div, length, number(order, block, stride_));
  }

  bool is_read(OperationId id) const { return f_.operation(id).opcode == Opcode::shared_load || f_.operation(id).opcode == Opcode::transpose; }

  std::int64_t free_bytes_;
  std::string other_widths_;        // why dots of other than 16-bit numbers are no wgmma; empty where they can be
  std::int64_t stride_ = 1;
  std::int64_t stages_ = 2;
  std::int64_t early_stages_ = 1;   // of tiles from in front of the loop, where programs stay: with 2 the next program's come while this one's are read
  std::vector<Copied> rings_;
  std::vector<Copied> single_;   // read once, before the loop
};

}  // namespace

/// Where a loop's loads stay as they are, the loop's attribute says why.
ir::Function bulk_loads(const ir::Function& function, const Target& target) {
  return has_wgmma(target) ? BulkLoads(function, shared_memory_limit(target, function.occupancy)).run() : function;
}

}  // namespace flextile::backend
