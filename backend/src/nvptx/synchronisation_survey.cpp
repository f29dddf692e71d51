#include "nvptx/synchronisation_survey.hpp"

#include <algorithm>
#include <utility>

#include <flextile/ir/error.hpp>

#include "nvptx/fragments.hpp"
#include "nvptx/resident_programs.hpp"
#include "nvptx/rings.hpp"
#include "nvptx/scratch.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // what is not listed touches no shared memory, or only its scratch space

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

SynchronisationSurvey::SynchronisationSurvey(const ir::Function& function)
    : f_(function), numbers_(function), scratch_(function.operation_count(), -1), matters_(function.operation_count(), false), reads_own_rows_(function.operation_count(), false), end_(function.operation_count(), 0),
      last_use_(function.value_count(), 0), ring_of_(function.value_count(), -1), sources_(function.value_count()) {
  survey(f_.body());
  find_own_rows();
  find_sources();
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (OperationId id : f_.block({block}).operations) check_sums(id);
  }
}

/// Places in the text are numbers; a buffer that a loop uses and that is older than the loop is used until the loop ends.
bool SynchronisationSurvey::survey(BlockId block) {
  bool any = false;
  for (OperationId id : f_.block(block).operations) {
    const Operation& operation = f_.operation(id);
    ++clock_;
    if (operation.opcode == Opcode::alloc_shared) {
      const Value buffer = operation.results[0];
      depth_of_[buffer.index] = loops_.size();
      if (operation.attributes.integer(AttributeName::barriers) != 0) {
        ring_of_[buffer.index] = static_cast<int>(rings_.size());
        rings_.push_back(buffer);
      }
    }
    for (Value operand : operation.operands) {
      if (!f_.type(operand).is_shared()) continue;
      last_use_[operand.index] = std::max(last_use_[operand.index], clock_);
      if (const std::size_t depth = depth_of_[operand.index]; depth < loops_.size()) lives_through_[loops_[depth].index].insert(operand.index);
    }
    if (operation.opcode == Opcode::dot) loads_[id.index] = {fragment_source(f_, operation, 0).load, fragment_source(f_, operation, 1).load};
    matters_[id.index] = has_rule(id);
    if (operation.opcode != Opcode::reduce) {
      // Loops come back to their beginning, and roles run side by side.
      const bool repeats = operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ || operation.opcode == Opcode::roles;
      if (repeats) loops_.push_back(id);
      for (BlockId inner : operation.blocks) {
        if (survey(inner)) matters_[id.index] = true;
      }
      if (repeats) loops_.pop_back();
    }
    end_[id.index] = ++clock_;
    for (std::uint32_t buffer : lives_through_[id.index]) last_use_[buffer] = std::max(last_use_[buffer], clock_);
    any = any || matters_[id.index];
  }
  return any;
}

bool SynchronisationSurvey::has_rule(OperationId id) {
  const Operation& operation = f_.operation(id);
  if (operation.attributes.integer(AttributeName::barrier_before) != 0 || scratch_of(id) > 0) return true;
  switch (operation.opcode) {
    case Opcode::alloc_shared:
    case Opcode::shared_load:
    case Opcode::shared_store:
    case Opcode::async_copy:
    case Opcode::async_wait:
    case Opcode::barrier:
    case Opcode::product_wait:
    case Opcode::turn:
    case Opcode::bulk_copy:
    case Opcode::matrix_store:
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
    case Opcode::bulk_store:
    case Opcode::bulk_wait:
    case Opcode::ring_start:
    case Opcode::ring_wait:
    case Opcode::ring_release:
    case Opcode::ring_refill:
    case Opcode::take_program:
    case Opcode::ring_put:
    case Opcode::ring_get:
    case Opcode::roles:
    case Opcode::atomic:
    case Opcode::atomic_cas:
    case Opcode::dot: return true;
    default: return false;
  }
}

std::int64_t SynchronisationSurvey::scratch_of(OperationId id) {
  std::int64_t& bytes = scratch_[id.index];
  if (bytes < 0) bytes = scratch_bytes(f_, f_.operation(id));
  return bytes;
}

bool SynchronisationSurvey::is_wgmma(const Operation& dot) const { return dot.opcode == Opcode::dot && dot.attributes.string(AttributeName::instruction) == "wgmma"; }
bool SynchronisationSurvey::is_async(const Operation& dot) const { return is_wgmma(dot) && dot.attributes.integer(AttributeName::async) != 0; }
std::int64_t SynchronisationSurvey::batches(Value sum) const { return std::max<std::int64_t>(1, f_.type(sum).extents[0] / (16 * f_.num_warps)); }

// ---- buffers

Access SynchronisationSurvey::whole(Value buffer, OperationId by) const {
  const ir::Type& type = f_.type(buffer);
  const std::int64_t stage = (type.elements() * byte_size(type.element) + 15) / 16 * 16;
  const std::int64_t first = f_.defining(buffer)->attributes.integer(AttributeName::offset);
  return {by, buffer, first, first + stage * type.stages, type.stages, type.stages > 1, {}};
}

Access SynchronisationSurvey::barriers_of(Value buffer, OperationId by) const {
  const std::int64_t end = whole(buffer, by).end;
  return {by, {}, end, end + barrier_bytes(f_, *f_.defining(buffer)), 1, true, {}};
}

SynchronisationSurvey::Readers SynchronisationSurvey::readers_of(Value buffer) const {
  const std::int64_t warps = f_.defining(buffer)->attributes.integer(AttributeName::readers, f_.num_warps);
  return warps == f_.num_warps ? Readers::consumers : warps == f_.num_warps + producer_warps ? Readers::both_roles : warps == 1 ? Readers::one_producer : Readers::unknown;
}

void SynchronisationSurvey::find_own_rows() {
  std::vector<OperationId> others;
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (OperationId id : f_.block({block}).operations) {
      const Operation& operation = f_.operation(id);
      for (std::size_t i = 0; i < operation.operands.size(); ++i) {
        const OperationId source = f_.definition(operation.operands[i]).operation;
        if (!source || f_.operation(source).opcode != Opcode::shared_load) continue;
        if (is_wgmma(operation) && i == 0) reads_own_rows_[source.index] = true;
        else others.push_back(source);
      }
    }
  }
  for (OperationId id : others) reads_own_rows_[id.index] = false;
}

// ---- sums of products in flight, as values

/// A loop and a branch pass them on.
void SynchronisationSurvey::find_sources() {
  bool grown = false;
  for (std::uint32_t i = 0; i < f_.operation_count(); ++i) {
    const Operation& operation = f_.operation({i});
    if (is_async(operation)) grown = sources_[operation.results[0].index].insert(i).second || grown;
  }
  auto flow = [&](Value from, Value to) {
    for (std::uint32_t dot : sources_[from.index]) grown = sources_[to.index].insert(dot).second || grown;
  };
  auto last = [&](BlockId block) -> const Operation& { return f_.operation(f_.block(block).operations.back()); };
  while (std::exchange(grown, false)) {
    for (std::uint32_t i = 0; i < f_.operation_count(); ++i) {
      const Operation& operation = f_.operation({i});
      const std::size_t count = operation.results.size();
      if (operation.opcode == Opcode::for_) {
        for (std::size_t k = 0; k < count; ++k) {
          const Value inside = f_.block(operation.blocks[0]).arguments[1 + k];
          flow(operation.operands[3 + k], inside), flow(last(operation.blocks[0]).operands[k], inside), flow(inside, operation.results[k]);
        }
      } else if (operation.opcode == Opcode::while_) {
        for (std::size_t k = 0; k < count; ++k) {
          const Value tested = f_.block(operation.blocks[0]).arguments[k], handed = last(operation.blocks[0]).operands[1 + k];
          flow(operation.operands[k], tested), flow(handed, f_.block(operation.blocks[1]).arguments[k]), flow(handed, operation.results[k]);
          flow(last(operation.blocks[1]).operands[k], tested);
        }
      } else if (operation.opcode == Opcode::if_) {
        for (BlockId inner : operation.blocks) {
          for (std::size_t k = 0; k < count; ++k) flow(last(inner).operands[k], operation.results[k]);
        }
      }
    }
  }
}

/// Nothing but a wait takes a sum in flight as its value; loops, branches and the next product hand it on.
void SynchronisationSurvey::check_sums(OperationId id) const {
  const Operation& operation = f_.operation(id);
  const bool hands_on = operation.opcode == Opcode::for_ || operation.opcode == Opcode::while_ ||
                        operation.opcode == Opcode::yield || operation.opcode == Opcode::condition;
  if (hands_on) return;
  for (std::size_t i = 0; i < operation.operands.size(); ++i) {
    const std::set<std::uint32_t>& dots = sources(operation.operands[i]);
    if (dots.empty() || (i == 2 && is_wgmma(operation)) || (i == 0 && operation.opcode == Opcode::product_wait)) continue;
    fail(id, "reads " + name(operation.operands[i]) + ", the sum of " + name(OperationId{*dots.begin()}) + ", which is in flight: no product_wait gave it");
  }
}

// ---- sentences

void SynchronisationSurvey::fail(OperationId id, const std::string& sentence) const {
  throw InternalError("flextile: internal error: [" + std::string(ir::name(f_.operation(id).opcode)) + "] " + sentence + "\n  " + ir::print(f_, id));
}
std::string SynchronisationSurvey::name(Value value) const { return "%" + std::to_string(value.index); }
std::string SynchronisationSurvey::name(OperationId id) const {
  const Operation& operation = f_.operation(id);
  const std::string word(ir::name(operation.opcode));
  if (!operation.results.empty()) return name(operation.results[0]) + " = " + word;
  return operation.operands.empty() ? word : word + " " + name(operation.operands[0]);
}
std::string SynchronisationSurvey::place(const Access& access) const {
  const std::string bytes = "bytes " + std::to_string(access.first) + " to " + std::to_string(access.end);
  if (!access.buffer) return "its scratch space (" + bytes + ")";
  return (access.any_stage ? "some stage" : access.stages == 1 ? "all" : "the stage of turn " + numbers_.text(access.turn)) + " of " + name(access.buffer) + " (" + bytes + ")";
}
std::string SynchronisationSurvey::turn_of(const Affine& turn, Value buffer) const {
  const Access all = whole(buffer, {});
  return "turn " + numbers_.text(turn) + " of " + name(buffer) + " (bytes " + std::to_string(all.first) + " to " + std::to_string(all.end) + ", " + std::to_string(all.stages) + " stages)";
}

}  // namespace flextile::backend
