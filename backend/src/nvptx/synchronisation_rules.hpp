// The rules of check_synchronisation (its opening comment lists them): what each operation does to the State, and what must hold
// before it.
#pragma once
#include <map>
#include <utility>

#include "nvptx/synchronisation_survey.hpp"

namespace flextile::backend {

class SynchronisationRules : protected SynchronisationSurvey {
 protected:
  using SynchronisationSurvey::SynchronisationSurvey;

  /// An operation without control flow.
  void visit(ir::OperationId id, State& state);
  /// All threads of the program meet.
  void barrier(ir::OperationId id, State& state);
  /// What a loop carries into a register of a product in flight is not computed before the product is done.
  void check_registers(ir::OperationId id, const State& state) const;
  /// Every turn that was started and exists was waited for.
  bool has_landed(const State& state, const Ring& ring);

  /// The number, in the iterations that are looked at one by one.
  Affine now(const Affine& number);
  Affine now(ir::Value value);

  enum class Role { all, producer, consumer };
  Role role_ = Role::all;                            // whose block is walked
  std::vector<Affine> ends_;                         // in a loop over programs: the turn of each ring at which the next one begins
  std::vector<std::pair<Atom, Affine>> iteration_;   // the counters of loops whose iterations are looked at one by one

 private:
  // ---- accesses
  /// Stage `stage` of the buffer: a number, or a turn % stages.
  Access stage_of(ir::Value buffer, ir::Value stage, ir::OperationId by);
  const ir::Value* remainder_of(ir::Value value, std::int64_t modulus);
  Affine remainder_taken(Affine number, std::int64_t modulus);
  void write(ir::OperationId id, State& state, const Access& access, bool past_barrier = false);
  void read(ir::OperationId id, State& state, Access& access, ir::Value stage);
  void find_turn(ir::OperationId id, const std::string& does, const State& state, Access& access, ir::Value stage) const;
  void add_read(State& state, Access access) const;

  // ---- threads
  bool visit_scratch(ir::OperationId id, State& state);
  void visit_alloc(ir::OperationId id, State& state) const;

  // ---- cp.async
  void visit_async_copy(ir::OperationId id, State& state);
  void visit_async_wait(ir::OperationId id, State& state);

  // ---- rings
  void visit_ring_start(ir::OperationId id, State& state);
  void visit_ring_wait(ir::OperationId id, State& state);
  void visit_ring_release(ir::OperationId id, State& state);
  /// `released`: the turn whose release runs the block; null: ring_start does. `guard`: what holds where it is looked at.
  void run_alone(ir::OperationId owner, ir::BlockId inside, State& state, const Facts& guard, const Affine* released);
  void start_copy(ir::OperationId owner, ir::OperationId id, State& state, const Facts& guard, const Affine* released);
  void check_bound(ir::OperationId id, const std::string& fills, Ring& ring, const Affine& turn, const Facts& guard) const;

  // ---- bulk stores
  /// What a bulk store's operations touch: each warpgroup its own rows of a stage.
  Access own_rows_of(ir::OperationId id, const std::string& does, const State& state);
  void visit_matrix_store(ir::OperationId id, State& state);
  void visit_warpgroup_barrier(ir::OperationId id, State& state) const;
  void visit_bulk_store(ir::OperationId id, State& state);
  void finish_stores(State& state, std::int64_t pending) const;
  /// A stage is given back when the copy engine has read it. Who waits for its next turn comes after all who wrote it.
  void release_written(ir::OperationId id, const std::string& releases, const Access& stage, State& state) const;

  // ---- roles
  void visit_ring_refill(ir::OperationId id, State& state);
  void fill(ir::OperationId refill, const Affine& turn, State& state);
  void check_reader(ir::OperationId id, const std::string& does, ir::Value buffer) const;
  void check_done(ir::OperationId id, const std::string& waits, ir::Value buffer, const State& state);
  void visit_ring_get(ir::OperationId id, State& state);
  void check_scalars(ir::OperationId id);

  // ---- products
  void visit_dot(ir::OperationId id, State& state);
  void finish_products(State& state, std::int64_t pending) const;
  void visit_product_wait(ir::OperationId id, State& state) const;

  // ---- turns
  void visit_turn(ir::OperationId id, State& state) const;

  std::map<std::uint32_t, std::vector<ir::Type>> scalars_;   // of a ring's stage
  ir::OperationId refill_;                           // whose block one of the producer's warps runs
  ir::OperationId alone_;                            // whose block one thread runs
};

}  // namespace flextile::backend
