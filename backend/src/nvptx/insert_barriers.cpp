// Puts a barrier wherever shared memory would otherwise be read before it is written, or overwritten before it is read, and
// between accesses of a program to global memory through one parameter that threads may have split differently.
// Operations with scratch space write it, wait at a barrier of their own and read it; asynchronous copies land at the
// waits that pipeline_loads put in, so a copy counts as a write only against earlier readers of its buffer.
#include <algorithm>

#include "nvptx/fragments.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/rings.hpp"
#include "nvptx/scratch.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed touches no memory, or only its scratch space

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

/// A stage of a ring that changes with the iteration: (turn + ahead) % stages. Within one iteration two of them with the same
/// turn are the same stage or different ones.
struct Turn {
  std::uint32_t turn = 0;
  std::int64_t ahead = 0;
  std::int64_t stages = 0;   // 0: which stage is not known
  bool operator==(const Turn&) const = default;
};

struct Bytes {
  std::int64_t first = 0;
  std::int64_t end = 0;
  Turn stage;
  bool operator==(const Bytes&) const = default;
};

bool overlap(const Bytes& a, const Bytes& b) {
  if (a.first >= b.end || b.first >= a.end) return false;
  const bool same_ring = a.first == b.first && a.end == b.end && a.stage.stages > 0 && a.stage.stages == b.stage.stages && a.stage.turn == b.stage.turn;
  return !same_ring || (a.stage.ahead - b.stage.ahead) % a.stage.stages == 0;
}

/// What threads may have done since the last barrier.
struct Since {
  std::vector<Bytes> reads;
  std::vector<Bytes> writes;
  std::vector<int> global_reads;    // parameters that memory was read or written through; -1: any
  std::vector<int> global_writes;
  std::vector<int> global_updates;  // atomic ones, which do not disturb each other

  template <class T> static void add(std::vector<T>& list, const T& entry) {
    if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
  }
  /// At the end of an iteration: turns have another meaning in the next.
  void forget_turns() {
    for (std::vector<Bytes>* list : {&reads, &writes}) {
      for (Bytes& bytes : *list) bytes.stage = {};
    }
  }
  void forget_global() { global_reads.clear(), global_writes.clear(), global_updates.clear(); }
  void merge(const Since& other) {
    for (const Bytes& bytes : other.reads) add(reads, bytes);
    for (const Bytes& bytes : other.writes) add(writes, bytes);
    for (int parameter : other.global_reads) add(global_reads, parameter);
    for (int parameter : other.global_writes) add(global_writes, parameter);
    for (int parameter : other.global_updates) add(global_updates, parameter);
  }
};

bool any(const std::vector<Bytes>& list, const Bytes& bytes) {
  return std::any_of(list.begin(), list.end(), [&](const Bytes& other) { return overlap(other, bytes); });
}

class Barriers {
 public:
  explicit Barriers(ir::Function& function) : f_(function) {}

  void walk(ir::BlockId block, Since& since) {
    for (ir::OperationId id : f_.block(block).operations) visit(id, since);
  }

 private:
  const std::int64_t* constant(ir::Value value) const {
    const ir::Operation* operation = f_.defining(value);
    if (!operation || operation->opcode != Opcode::constant) return nullptr;
    return std::get_if<std::int64_t>(operation->attributes.find(AttributeName::value));
  }

  /// turn % stages or (turn + ahead) % stages, as pipeline_loads writes it; turns are not negative.
  Turn turn_of(ir::Value stage, int stages) const {
    const ir::Operation* rem = f_.defining(stage);
    if (!rem || rem->opcode != Opcode::rem) return {};
    const std::int64_t* modulus = constant(rem->operands[1]);
    if (!modulus || *modulus != stages) return {};
    const ir::Operation* sum = f_.defining(rem->operands[0]);
    const std::int64_t* ahead = sum && sum->opcode == Opcode::add ? constant(sum->operands[1]) : nullptr;
    if (ahead) return {sum->operands[0].index, *ahead, stages};
    return {rem->operands[0].index, 0, stages};
  }

  /// The bytes of one stage, where it is known; without a stage, of all.
  Bytes stage_bytes(ir::Value buffer, ir::Value stage) const {
    const ir::Type& type = f_.type(buffer);
    const std::int64_t size = (type.elements() * byte_size(type.element) + 15) / 16 * 16;
    const std::int64_t first = f_.defining(buffer)->attributes.integer(AttributeName::offset);
    if (!stage) return {first, first + size * type.stages, {}};
    if (const std::int64_t* fixed = constant(stage)) return {first + *fixed * size, first + (*fixed + 1) * size, {}};
    return {first, first + size * type.stages, turn_of(stage, type.stages)};
  }

  void require(ir::OperationId id, Since& since) {
    f_.operation(id).attributes.set(AttributeName::barrier_before, std::int64_t{1});
    since = {};
  }

  void visit(ir::OperationId id, Since& since) {
    const ir::Operation& operation = f_.operation(id);
    switch (operation.opcode) {
      case Opcode::for_:
      case Opcode::while_: return visit_loop(operation, since);
      case Opcode::if_: {
        Since other = since;
        walk(operation.blocks[0], since);
        if (operation.blocks.size() > 1) walk(operation.blocks[1], other);
        return since.merge(other);
      }
      case Opcode::roles: return walk(operation.blocks.back(), since);   // a producer touches rings alone
      case Opcode::ring_start: {   // writes the barriers, then waits for all threads; what fills the stages comes after that
        for (ir::Value buffer : operation.operands) {
          Bytes bytes = stage_bytes(buffer, {});
          bytes.end += barrier_bytes(f_, *f_.defining(buffer));
          if (any(since.reads, bytes) || any(since.writes, bytes)) require(id, since);
        }
        since = {};
        return;
      }
      case Opcode::barrier: since = {}; return;
      case Opcode::shared_load: {
        const Bytes bytes = stage_bytes(operation.operands[0], operation.operands[1]);
        if (any(since.writes, bytes)) require(id, since);
        return Since::add(since.reads, bytes);
      }
      case Opcode::shared_store: {
        const Bytes bytes = stage_bytes(operation.operands[0], operation.operands[1]);
        if (any(since.reads, bytes) || any(since.writes, bytes)) require(id, since);
        return Since::add(since.writes, bytes);
      }
      case Opcode::async_copy: {
        const Bytes bytes = stage_bytes(operation.operands[0], operation.operands[1]);
        const int root = root_of(operation.operands[2]);
        if (any(since.reads, bytes) || any(since.writes, bytes) || meets(since.global_writes, root) || meets(since.global_updates, root)) require(id, since);
        if (root < 0 || !f_.parameters[root].read_only) Since::add(since.global_reads, root);
        return;
      }
      case Opcode::store:
      case Opcode::view_store: {
        const int root = root_of(operation.operands[0]);
        if (meets(since.global_reads, root) || meets(since.global_writes, root) || meets(since.global_updates, root)) require(id, since);
        return Since::add(since.global_writes, root);
      }
      case Opcode::load:
      case Opcode::view_load:
      case Opcode::gather: {
        const int root = root_of(operation.operands[0]);
        if (root >= 0 && f_.parameters[root].read_only) return;
        if (meets(since.global_writes, root) || meets(since.global_updates, root)) require(id, since);
        return Since::add(since.global_reads, root);
      }
      default: break;
    }
    if (operation.opcode == Opcode::atomic || operation.opcode == Opcode::atomic_cas) {
      const int root = root_of(operation.operands[0]);
      const std::string_view order = operation.attributes.string(AttributeName::order);
      const bool joins = order == "acquire" || order == "acq_rel";   // asked before require(), which may move the attribute
      if (order == "release" || order == "acq_rel") since = {};      // it waits by itself
      if (meets(since.global_reads, root) || meets(since.global_writes, root)) require(id, since);
      visit_scratch(id, since);
      if (!joins) Since::add(since.global_updates, root);
      return;
    }
    visit_scratch(id, since);
    if (operation.opcode != Opcode::dot) return;
    for (int i : {0, 1}) {   // read after the dot's own barrier, if it has one
      const FragmentSource source = fragment_source(f_, operation, i);
      if (source.load) Since::add(since.reads, stage_bytes(source.load->operands[0], source.load->operands[1]));
    }
  }

  void visit_scratch(ir::OperationId id, Since& since) {
    const ir::Operation& operation = f_.operation(id);
    const std::int64_t scratch = scratch_bytes(f_, operation);
    if (scratch == 0) return;
    const std::int64_t first = operation.attributes.integer(AttributeName::offset);
    const Bytes bytes{first, first + scratch, {}};
    if (any(since.reads, bytes) || any(since.writes, bytes)) require(id, since);
    since = {};   // the operation's own barrier
    Since::add(since.reads, bytes);
  }

  /// The second walk sees what the first iteration left behind.
  void visit_loop(const ir::Operation& operation, Since& since) {
    const std::vector<ir::BlockId> blocks = operation.blocks;
    const Since before = since;
    for (int round = 0; round < 2; ++round) {
      for (ir::BlockId block : blocks) walk(block, since);
      since.forget_turns();
      if (operation.attributes.integer(AttributeName::programs) != 0) since.forget_global();   // programs are independent
      since.merge(before);
    }
  }

  /// The parameter that a pointer or view comes from; -1 where it is not known.
  int root_of(ir::Value value) const {
    while (true) {
      const ir::Definition& definition = f_.definition(value);
      if (!definition.operation) return definition.block == f_.body() ? static_cast<int>(definition.position) : -1;
      const ir::Operation& operation = f_.operation(definition.operation);
      const bool same_memory = operation.opcode == Opcode::offset || operation.opcode == Opcode::broadcast || operation.opcode == Opcode::expand_dims ||
                               operation.opcode == Opcode::reshape || operation.opcode == Opcode::transpose || operation.opcode == Opcode::convert_layout ||
                               operation.opcode == Opcode::view_base;
      if (!same_memory) return -1;
      value = operation.operands[0];
    }
  }

  static bool meets(const std::vector<int>& roots, int root) {
    return std::any_of(roots.begin(), roots.end(), [root](int other) { return other == root || other < 0 || root < 0; });
  }

  ir::Function& f_;
};

}  // namespace

ir::Function insert_barriers(const ir::Function& function, const Target&) {
  ir::Function result = function;
  Since since;
  Barriers(result).walk(result.body(), since);
  return result;
}

}  // namespace flextile::backend
