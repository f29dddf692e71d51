// Tiles of 16-bit numbers that products end in go to memory by the copy engine (TMA) on sm_90a:
//
//   view_store v, x      becomes      warpgroup_barrier                 what the warpgroup's products have read may be overwritten
//                                     matrix_store place, x             stmatrix, each warpgroup its own rows
//                                     proxy_fence
//                                     warpgroup_barrier
//                                     bulk_store place, v               one thread of each warpgroup
//
// No barrier of all threads: warpgroups stay apart. The place is one of two:
//
//   a ring's stage    whose tile has the same shape and is read by the products as their left operand alone, none of them behind the
//                     store (attention's query). It is released when the copy engine has read the stage (bulk_wait), at the program's
//                     end.
//   own buffers       where no ring has the shape: one or two of 64 columns, which the tile goes through piece by piece: each piece
//                     waits for the one that lay there before.
#include <algorithm>

#include "nvptx/bulk_stores.hpp"

#include "nvptx/matmul.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/shared.hpp"
#include "nvptx/tensor_maps.hpp"
#include "nvptx/tile_copies.hpp"
#include "nvptx/wgmma.hpp"

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

constexpr std::int64_t most_buffers = 2;
constexpr int least_stages = 2;        // of a ring whose stage takes a tile: with one the next program's tile waits for this one's store
constexpr std::int64_t alignment = 1024;
constexpr std::int64_t all_registers = 65536, other_registers = 30;   // of a multiprocessor; of a thread, beside sums

class BulkStores : TileCopies {
 public:
  BulkStores(const Function& source, const Target& target) : TileCopies(source), target_(target) {}

  Function run() {
    find_program(f_.body());
    for (BlockId block : blocks_) {
      for (OperationId id : Order(f_.block(block).operations)) {
        if (f_.operation(id).opcode == Opcode::view_store) visit(id, block);
      }
    }
    return std::move(f_);
  }

 private:
  /// Where the tile passes through shared memory: a ring's stage, or buffers.
  struct Place {
    OperationId release;               // of the ring
    Value buffer, stage;
    std::int64_t buffers = 0;
  };

  /// All blocks; and that of a program, which runs once for each.
  void find_program(BlockId block) {
    blocks_.push_back(block);
    for (OperationId id : f_.block(block).operations) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode == Opcode::reduce) continue;
      if (operation.attributes.integer(AttributeName::programs) != 0) role_ = block, program_ = operation.blocks.back();
      for (BlockId inner : std::vector<BlockId>(operation.blocks)) find_program(inner);
    }
    if (block == f_.body() && !program_) role_ = program_ = block;
  }

  void visit(OperationId id, BlockId block) {
    const Value wide = f_.operation(id).operands[1], held = held_value(f_.operation(id));
    if (!is_of_products(held)) return;
    Place place;
    if (const std::string reason = obstacle(id, block, place); !reason.empty()) {
      f_.operation(id).attributes.set(AttributeName::schedule, "by threads: " + reason);
      return;
    }
    location_ = f_.operation(id).location;
    if (place.release) store_from_ring(id, held, place);
    else store_from_buffers(id, held, buffers_for(f_.type(held), place.buffers));
    auto& operations = f_.block(block).operations;
    operations.erase(std::find(operations.begin(), operations.end(), id));
    if (wide != held && users(wide).empty()) remove(f_.definition(wide).operation);
  }

  /// The value as products hold it, in front of the exchange for wide stores.
  Value held_value(const Operation& store) const {
    const Operation* source = f_.defining(store.operands[1]);
    return source && source->opcode == Opcode::convert_layout ? source->operands[0] : store.operands[1];
  }

  bool is_of_products(Value value) const {
    const Type& type = f_.type(value);
    if (type.rank != 2 || bit_width(type.element) != 16 || f_.layout_of(value) < 0) return false;
    if (f_.num_warps % 4 != 0 || type.extents[0] % (16 * f_.num_warps) != 0 || type.extents[1] % 16 != 0) return false;
    return f_.layouts[static_cast<std::size_t>(f_.layout_of(value))] == accumulator_layout(type.extents[0], type.extents[1], f_.num_warps, {f_.num_warps, 1, true});
  }

  /// Who stores a tile of products is decided here and nowhere else. Empty: the copy engine, through `place`; else why threads do.
  std::string obstacle(OperationId id, BlockId block, Place& place) {
    const Operation& store = f_.operation(id);
    const Type& type = f_.type(store.operands[1]);
    const ir::Parameter* view = parameter_of(store.operands[0]);
    if (block != program_) return "the store stands in a loop or a branch";
    if (!view || !view->aligned || !view->unit_stride) return "the view is not known to be aligned in memory, in rows of neighbours";
    if (view->type.rank > most_tensor_map_axes) return "the view has more than " + std::to_string(most_tensor_map_axes) + " axes";
    if (type.extents[1] % panel_columns(type.element) != 0) return "its rows are not whole panels of 128 bytes";
    if (facts_[store.operands.back().index].divisor * byte_size(type.element) % 16 != 0) return "its first column is not known to lie at a multiple of 16 bytes";
    if (type.extents[0] * 4 / f_.num_warps > most_box_extent) return "a warpgroup has more rows than a box of the copy engine";
    // The copy engine takes its time: whoever else touches the memory, or is told that it is written, would have to wait for it.
    if (is_used_elsewhere(store.operands[0], id)) return "the kernel uses the view elsewhere too";
    if (has_atomics()) return "the kernel has atomic operations, which may tell others that the tile is there";
    if (tensor_maps(f_).size() >= most_tensor_maps) return "the kernel has " + std::to_string(most_tensor_maps) + " tensor maps already, and a launch has no room for more";
    if (find_ring(id, type, place)) {
      if (f_.occupancy > 1) return "another program on the multiprocessor works while threads store, and nobody waits until a ring's stage is read";
      const bool waits = f_.type(place.buffer).stages < least_stages;
      return waits ? "the ring that has its shape has one stage, and the next program's tile would have to wait for the store" : "";
    }
    if (find_buffers(type, place)) return "";
    return "no stage of a ring has its shape and is free by then, and " + std::to_string(bytes_of_buffer(type)) + " bytes of shared memory for a part of it are not left";
  }

  bool is_used_elsewhere(Value view, OperationId store) const {
    const std::vector<OperationId> all = users(view);
    return std::any_of(all.begin(), all.end(), [&](OperationId user) {
      const Opcode opcode = f_.operation(user).opcode;
      return user != store && opcode != Opcode::view_size && opcode != Opcode::view_stride;
    });
  }
  bool has_atomics() const {
    for (BlockId block : blocks_) {
      for (OperationId id : f_.block(block).operations) {
        if (f_.operation(id).opcode == Opcode::atomic || f_.operation(id).opcode == Opcode::atomic_cas) return true;
      }
    }
    return false;
  }

  // ---- a ring's stage
  bool find_ring(OperationId store, const Type& type, Place& place) const {
    for (BlockId block : blocks_) {
      for (OperationId id : f_.block(block).operations) {
        const Operation& release = f_.operation(id);
        if (release.opcode != Opcode::ring_release || f_.block(release.blocks[0]).operations.size() > 1) continue;
        const Type& buffer = f_.type(release.operands[0]);
        if (buffer.element != type.element || buffer.shape() != type.shape() || is_used_behind(store, release.operands[0])) continue;
        const Value stage = stage_of_left_operand(release.operands[0]);
        const bool of_program = stage && f_.definition(stage).block == program_ && f_.definition(release.operands[1]).block == program_;
        if (of_program) place = {id, release.operands[0], stage};
      }
    }
    return static_cast<bool>(place.release);
  }

  bool is_used_behind(OperationId store, Value buffer) const {
    const Order& operations = f_.block(program_).operations;
    return std::any_of(std::find(operations.begin(), operations.end(), store), operations.end(), [&](OperationId id) { return uses(id, buffer); });
  }

  /// The one stage that the program's products read as their left operand, each warpgroup its own rows; none where others read it, or
  /// another stage.
  Value stage_of_left_operand(Value buffer) const {
    Value stage;
    for (OperationId id : users(buffer)) {
      const Operation& operation = f_.operation(id);
      if (operation.opcode == Opcode::matrix_store || operation.opcode == Opcode::bulk_store) return {};
      if (operation.opcode != Opcode::shared_load) continue;
      if (stage && stage != operation.operands[1]) return {};
      stage = operation.operands[1];
      const std::vector<OperationId> readers = users(operation.results[0]);
      const bool left = std::all_of(readers.begin(), readers.end(), [&](OperationId reader) {
        const Operation& dot = f_.operation(reader);
        return dot.opcode == Opcode::dot && dot.operands[0] == operation.results[0] && dot.operands[1] != operation.results[0] && instruction_of(f_, dot).name == "wgmma";
      });
      if (!left) return {};
    }
    return stage;
  }

  /// A program releases the stage once, whatever path it takes: now at its end.
  void store_from_ring(OperationId id, Value held, const Place& place) {
    Order order, end;
    const Operation store = f_.operation(id), release = f_.operation(place.release);
    meet(order);
    piece(order, store, held, place.buffer, place.stage, 0, "by the copy engine, through the stage of a ring that the program has read");
    insert_before(id, program_, order);
    for (BlockId block : blocks_) {
      std::erase_if(f_.block(block).operations, [&](OperationId each) {
        const Operation& other = f_.operation(each);
        return other.opcode == Opcode::ring_release && other.operands[0] == place.buffer && other.operands[1] == release.operands[1];
      });
    }
    wait_for_stores(end, program_, 0);
    end.push_back(place.release);
    insert_before(f_.block(program_).operations.back(), program_, end);
  }

  // ---- own buffers
  std::int64_t bytes_of_buffer(const Type& type) const { return std::int64_t{type.extents[0]} * panel_columns(type.element) * byte_size(type.element); }

  std::vector<Value>* known_buffers(const Type& type) {
    const auto known = std::find_if(buffers_.begin(), buffers_.end(), [&](const std::vector<Value>& list) {
      const Type& buffer = f_.type(list.front());
      return buffer.element == type.element && buffer.extents[0] == type.extents[0];
    });
    return known == buffers_.end() ? nullptr : &*known;
  }

  /// How many programs the registers of a multiprocessor are enough for, if a thread has no more than one product's sums and a few others.
  std::int64_t most_programs() const {
    const std::int64_t threads = lanes_per_warp * (f_.num_warps + (is_resident(f_) ? producer_warps : 0));
    std::int64_t sums = 0;
    for (BlockId block : blocks_) {
      for (OperationId id : f_.block(block).operations) {
        const Operation& operation = f_.operation(id);
        if (operation.opcode == Opcode::dot) sums = std::max(sums, f_.type(operation.results[0]).elements() / (lanes_per_warp * f_.num_warps));
      }
    }
    return std::max<std::int64_t>(1, all_registers / (threads * (sums + other_registers)));
  }

  /// Those of another tile, or as many as there is room for; not where fewer programs would fit a multiprocessor.
  bool find_buffers(const Type& type, Place& place) {
    if (known_buffers(type)) return true;
    const std::int64_t used = (shared_memory_bytes(allocate_shared(f_, target_)) + alignment - 1) / alignment * alignment, most = shared_memory_limit(target_, 1);
    const std::int64_t own = shared_memory_limit(target_, f_.occupancy);   // where the kernel wants more programs than one
    auto programs = [&](std::int64_t bytes) { return std::min(most / std::max(bytes, alignment), most_programs()); };
    place.buffers = std::min<std::int64_t>(most_buffers, type.extents[1] / panel_columns(type.element));
    auto needed = [&] { return used + place.buffers * bytes_of_buffer(type); };
    while (place.buffers > 0 && (needed() > own || programs(needed()) < programs(used))) --place.buffers;
    return place.buffers > 0;
  }

  /// Their bytes are nobody else's, and nobody leaves before they were read.
  std::vector<Value> buffers_for(Type type, std::int64_t count) {
    if (const std::vector<Value>* known = known_buffers(type)) return *known;
    std::vector<Value> buffers;
    Order order, wait;
    for (std::int64_t i = 0; i < count; ++i) {
      buffers.push_back(emit_value(order, f_.body(), Opcode::alloc_shared, {}, Type::shared(type.element, {type.extents[0], panel_columns(type.element)}, 1), {{AttributeName::swizzle, std::int64_t{128}}}));
    }
    auto& operations = f_.block(f_.body()).operations;
    operations.insert(operations.begin(), order.begin(), order.end());
    wait_for_stores(wait, role_, 0);
    insert_before(f_.block(role_).operations.back(), role_, wait);
    buffers_.push_back(buffers);
    return buffers;
  }

  void store_from_buffers(OperationId id, Value held, const std::vector<Value>& buffers) {
    Order order;
    const Operation store = f_.operation(id);
    const auto count = static_cast<int>(buffers.size());
    const Value zero = number(order, program_, 0);
    const std::string how = "by the copy engine, in parts of " + std::to_string(panel_columns(f_.type(held).element)) + " columns, through " + std::to_string(count) + (count == 1 ? " buffer of " : " buffers of ") + std::to_string(bytes_of_buffer(f_.type(held))) + " bytes";
    const int columns = panel_columns(f_.type(held).element);
    for (int panel = 0; panel * columns < f_.type(held).extents[1]; ++panel) {
      if (panel == 0 || panel >= count) {   // the first one waits for all pieces of the tile before
        wait_for_stores(order, program_, panel == 0 ? 0 : count - 1);
        meet(order);
      }
      piece(order, store, held, buffers[static_cast<std::size_t>(panel % count)], zero, panel * columns, how);
    }
    insert_before(id, program_, order);
  }

  // ---- what both do
  void wait_for_stores(Order& order, BlockId block, std::int64_t pending) { emit(order, block, {Opcode::bulk_wait, {}, {}, {}, {{AttributeName::pending, pending}}, location_}, {}); }

  void meet(Order& order) { emit(order, program_, {Opcode::warpgroup_barrier, {}, {}, {}, {}, location_}, {}); }

  /// Columns from `column` on go through the stage.
  void piece(Order& order, const Operation& store, Value held, Value buffer, Value stage, std::int64_t column, const std::string& how) {
    std::vector<Value> operands{buffer, stage, store.operands[0]};
    operands.insert(operands.end(), store.operands.begin() + 2, store.operands.end());
    if (column > 0) operands.back() = arithmetic(order, program_, Opcode::add, operands.back(), number(order, program_, column));
    emit(order, program_, {Opcode::matrix_store, {buffer, stage, held}, {}, {}, {{AttributeName::start, column}}, location_}, {});
    emit(order, program_, {Opcode::proxy_fence, {}, {}, {}, {}, location_}, {});
    meet(order);
    emit(order, program_, {Opcode::bulk_store, std::move(operands), {}, {}, {{AttributeName::schedule, how}}, location_}, {});
  }

  const Target& target_;
  std::vector<BlockId> blocks_;
  BlockId program_, role_;             // what runs once for each program, and the block that its loop stands in
  std::vector<std::vector<Value>> buffers_;
};

}  // namespace

int rows_of_warpgroup(const Function& function, Value buffer) { return function.type(buffer).extents[0] * 4 / function.num_warps; }

bool is_store_buffer(const Function& function, Value buffer) {
  if (function.defining(buffer)->attributes.integer(AttributeName::barriers) != 0) return false;
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    const Operation& operation = function.operation({i});
    if (operation.opcode == Opcode::matrix_store && operation.operands[0] == buffer) return true;
  }
  return false;
}

Function bulk_stores(const Function& function, const Target& target) {
  return has_wgmma(target) && uses_wgmma(function) ? BulkStores(function, target).run() : function;
}

}  // namespace flextile::backend
