// Gives every buffer and every operation's scratch space its place in shared memory, by lifetime: what is never alive
// together may share bytes. First fit, largest first.
#include <algorithm>
#include <limits>

#include <flextile/ir/error.hpp>

#include "nvptx/fragments.hpp"
#include "nvptx/nvptx.hpp"
#include "nvptx/rings.hpp"
#include "nvptx/scratch.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

constexpr std::int64_t swizzle_alignment = 1024, usual_alignment = 128;

/// Something that needs bytes from the operation numbered `first` to the one numbered `last`.
struct Request {
  ir::OperationId operation;
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
  std::int64_t alignment = usual_alignment;
  std::int64_t offset = 0;
};

class Lifetimes {
 public:
  explicit Lifetimes(const ir::Function& function) : function_(function), request_of_(function.value_count(), -1) { walk(function.body()); }
  std::vector<Request> requests;

 private:
  void walk(ir::BlockId block) {
    for (ir::OperationId id : function_.block(block).operations) {
      const ir::Operation& operation = function_.operation(id);
      const int now = clock_++;
      if (operation.opcode == Opcode::alloc_shared) {
        const ir::Type& type = function_.type(operation.results[0]);
        const std::int64_t stage = (type.elements() * byte_size(type.element) + 15) / 16 * 16;
        request_of_[operation.results[0].index] = static_cast<int>(requests.size());
        requests.push_back({id, stage * type.stages + barrier_bytes(function_, operation), now, now,
                            operation.attributes.integer(AttributeName::swizzle) ? swizzle_alignment : usual_alignment, 0});
      } else if (const std::int64_t bytes = scratch_bytes(function_, operation); bytes > 0) {
        requests.push_back({id, bytes, now, now, usual_alignment, 0});
      }
      for (ir::Value operand : operation.operands) {
        if (request_of_[operand.index] >= 0) extend(requests[request_of_[operand.index]], now);
      }
      // What the copy engine stores from is nobody else's: it reads it at any time.
      if (operation.opcode == Opcode::matrix_store) requests[request_of_[operation.operands[0].index]].last = std::numeric_limits<int>::max();
      for (int i = 0; operation.opcode == Opcode::dot && i < 2; ++i) {   // read by the dot itself
        const FragmentSource source = fragment_source(function_, operation, i);
        if (source.load) extend(requests[request_of_[source.load->operands[0].index]], now);
      }
      if (operation.opcode == Opcode::reduce) continue;
      // Loops come back to their beginning, and roles run side by side.
      const bool repeats = operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || operation.opcode == Opcode::roles;
      if (repeats) loops_.push_back(now);
      const std::size_t before = requests.size();
      for (ir::BlockId inner : operation.blocks) walk(inner);
      if (!repeats) continue;
      loops_.pop_back();
      // What was allocated outside and used inside stays alive until the loop ends.
      for (std::size_t i = 0; i < before; ++i) {
        if (requests[i].last > now) requests[i].last = std::max(requests[i].last, clock_);
      }
      ++clock_;
    }
  }

  /// Barriers stay barriers: their bytes are nobody else's once they were made.
  void extend(Request& request, int now) {
    const ir::Operation& operation = function_.operation(request.operation);
    const bool barriers = operation.opcode == Opcode::alloc_shared && operation.attributes.integer(AttributeName::barriers) != 0;
    request.last = barriers ? std::numeric_limits<int>::max() : std::max(request.last, now);
  }

  const ir::Function& function_;
  std::vector<int> request_of_;
  std::vector<int> loops_;
  int clock_ = 0;
};

}  // namespace

ir::Function allocate_shared(const ir::Function& function, const Target& target) {
  ir::Function result = function;
  std::vector<Request> requests = Lifetimes(result).requests;
  std::vector<Request*> order;
  for (Request& request : requests) order.push_back(&request);
  std::stable_sort(order.begin(), order.end(), [](const Request* a, const Request* b) { return a->bytes > b->bytes; });
  std::vector<const Request*> placed;
  for (Request* request : order) {
    std::vector<const Request*> together;
    for (const Request* other : placed) {
      if (other->first <= request->last && request->first <= other->last) together.push_back(other);
    }
    std::sort(together.begin(), together.end(), [](const Request* a, const Request* b) { return a->offset < b->offset; });
    for (const Request* other : together) {
      if (request->offset + request->bytes <= other->offset) break;
      request->offset = std::max(request->offset, (other->offset + other->bytes + request->alignment - 1) / request->alignment * request->alignment);
    }
    placed.push_back(request);
    result.operation(request->operation).attributes.set(AttributeName::offset, request->offset);
  }
  const std::int64_t needed = shared_memory_bytes(result), most = shared_memory_limit(target, function.occupancy);
  if (needed > most) {
    throw OutOfSharedMemory("flextile: compile error in kernel \"" + function.name + "\"\n  [shared memory] the kernel needs " + std::to_string(needed) +
                       " bytes per program, " + target.name() + " has " + std::to_string(most) +
                       (function.occupancy == 1 ? "" : " where " + std::to_string(function.occupancy) + " programs share a multiprocessor") + "; use smaller tiles or fewer stages");
  }
  return result;
}

std::int64_t shared_memory_limit(const Target& target, int occupancy) {
  constexpr std::int64_t reserved = 1024, granularity = 128;   // of each program, by the driver
  std::int64_t all = 228 << 10;
  if (target.sm == 86 || target.sm == 89 || target.sm >= 120) all = 100 << 10;
  else if (target.sm == 80 || target.sm == 87) all = 164 << 10;
  return all / occupancy / granularity * granularity - reserved;
}

int shared_memory_bytes(const ir::Function& function) {
  std::int64_t end = 0;
  for (const Request& request : Lifetimes(function).requests) {
    end = std::max(end, function.operation(request.operation).attributes.integer(AttributeName::offset) + request.bytes);
  }
  return static_cast<int>(end);
}

}  // namespace flextile::backend
