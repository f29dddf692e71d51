// Tiles that dots read from memory, and how their loads become copies through shared memory: what pipeline_loads and
// bulk_loads share.
#pragma once
#include <map>
#include <vector>

#include <flextile/ir/function.hpp>

#include "effects.hpp"
#include "nvptx/facts.hpp"

namespace flextile::backend {

class TileCopies {
 public:
  explicit TileCopies(const ir::Function& source) : f_(source), facts_(index_facts(source)) {}

 protected:
  using Order = std::vector<ir::OperationId>;

  // ---- building: operations are made first and get their place afterwards
  ir::OperationId emit(Order& order, ir::BlockId block, ir::Operation operation, const std::vector<ir::Type>& types);
  ir::Value emit_value(Order& order, ir::BlockId block, ir::Opcode opcode, std::vector<ir::Value> operands, const ir::Type& type, ir::Attributes attributes = {});
  ir::Value number(Order& order, ir::BlockId block, std::int64_t value);
  ir::Value arithmetic(Order& order, ir::BlockId block, ir::Opcode opcode, ir::Value a, ir::Value b);
  void insert_before(ir::OperationId place, ir::BlockId block, const Order& order);
  void insert_after(ir::OperationId place, ir::BlockId block, const Order& order);
  void remove(ir::OperationId id);
  void substitute(ir::OperationId id, ir::Value old, ir::Value replacement);

  // ---- what can be copied
  std::vector<ir::OperationId> users(ir::Value value) const;
  /// Only dots read the value, directly or transposed.
  bool feeds_dots(ir::Value value, bool transposed = false) const;
  /// A tile whose rows are whole 16-byte chunks, aligned in memory.
  bool is_in_chunks(const ir::Operation& operation) const;
  /// Such a tile for dots alone.
  bool can_copy(const ir::Operation& operation) const { return is_in_chunks(operation) && feeds_dots(operation.results[0]); }
  const ir::Parameter* parameter_of(ir::Value value) const;
  bool reads_what_nobody_writes(const ir::Operation& read) const;
  /// The block in which an operation with results stands.
  ir::BlockId block_of(ir::OperationId id) const { return f_.definition(f_.operation(id).results[0]).block; }
  bool writes(ir::BlockId block) const { return writes_memory(f_, block); }
  bool contains_loop(ir::BlockId block) const;
  /// The operation or one in its blocks takes the value.
  bool uses(ir::OperationId id, ir::Value value) const;
  /// Adds the operations of `body` that `value` is computed from, operands first; false where it depends on a carried
  /// value or on memory that may be written meanwhile.
  bool collect_slice(ir::Value value, ir::BlockId body, bool loop_writes, std::vector<ir::OperationId>& slice) const;

  /// Values by the number of the one that they stand for.
  using Renamed = std::map<std::uint32_t, ir::Value>;
  static ir::Value renamed(const Renamed& names, ir::Value value);
  /// A slice again, for the index that `names` holds. Memory is read only where `predicate` (if there is one) holds.
  void repeat(Order& order, ir::BlockId block, const std::vector<ir::OperationId>& slice, ir::Value predicate, Renamed& names);

  /// Reads `stage` of `buffer` right before each dot that uses `load`, once per use. Gives the dots.
  std::vector<ir::OperationId> read_at_uses(ir::OperationId load, ir::Value buffer, ir::Value stage);

  ir::Function f_;
  std::vector<IndexFacts> facts_;
  ir::Location location_;                // of what is made

 private:
  ir::Value read_before(ir::OperationId dot, ir::Value buffer, ir::Value stage, const ir::Type& type);
};

}  // namespace flextile::backend
