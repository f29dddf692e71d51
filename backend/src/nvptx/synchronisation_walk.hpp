// The walk of check_synchronisation over a kernel's blocks, loops, branches and roles.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "nvptx/synchronisation_rules.hpp"

namespace flextile::backend {

class SynchronisationWalk : SynchronisationRules {
 public:
  explicit SynchronisationWalk(const ir::Function& function) : SynchronisationRules(function), is_once_(function.operation_count(), false) {}
  void run();

 private:
  using States = std::vector<State>;
  static constexpr int most_widenings = 4;

  States block(ir::BlockId id, States states);
  States branch(ir::OperationId id, const State& state);
  States visit_if(ir::OperationId id, const State& before);
  void unite(States& states, ir::OperationId at) const;
  void forget_finished(State& state, ir::OperationId last);
  void forget_idle(State& state) const;
  bool contradicts(const Facts& facts, const Facts& more) const;
  std::string difference(const State& a, const State& b) const;
  void finish(State& state);

  // ---- synchronisation_loops.cpp
  States visit_loop(ir::OperationId id, const State& before);
  States leave_loop(ir::OperationId id, const State& before, States heads, const State* head);
  Facts facts_inside(ir::OperationId id, const Affine& count);
  State iterate(ir::OperationId id, const State& before, const Affine& count, const Facts& known);
  void leave_iteration(ir::OperationId id, State& state) const;
  std::vector<ir::OperationId> find_once(ir::OperationId loop);
  bool stands_apart(ir::BlockId body, const ir::Operation& branch) const;
  void pass_once(ir::OperationId loop, const Affine& trips, State& state);
  static Facts with(Facts facts, const Affine& another);

  // ---- synchronisation_roles.cpp
  using Same = std::map<std::pair<std::uint32_t, std::uint32_t>, bool>;
  /// A role's loop over programs.
  struct Programs {
    ir::OperationId loop;
    std::vector<Affine> starts;    // of each ring: the turn that a program begins at; 0: none
    std::vector<Affine> nexts;     // and the one that the next program begins at
    std::vector<std::int64_t> ahead;   // how many turns the ring is ahead of what the loop carries
  };
  States visit_roles(ir::OperationId id, const State& before);
  States visit_programs(ir::OperationId id, const State& before);
  Programs plan_programs(ir::OperationId id, State& head);
  void begin_next(const Programs& programs, State& state);
  Affine of_next(const ir::Operation& loop, Atom carried);
  void check_same_programs(const Programs& producer, const Programs& consumer);
  void check_programs_are_taken(ir::OperationId id) const;
  bool is_taken(ir::BlockId body, ir::Value number) const;
  void collect(ir::BlockId block, ir::Value buffer, ir::Opcode opcode, std::vector<const ir::Operation*>& uses) const;
  const ir::Operation* first_use(ir::BlockId block, ir::Value buffer, ir::Opcode opcode) const;
  std::size_t carried_in(const ir::Operation& loop, ir::Value turn);
  bool is_same(Same& same, ir::Value a, ir::Value b) const;

  std::map<std::uint32_t, std::vector<ir::OperationId>> once_;   // of a loop: the branches in it that are taken in one iteration
  std::vector<bool> is_once_;
  Programs programs_;              // of the role that was walked
};

}  // namespace flextile::backend
