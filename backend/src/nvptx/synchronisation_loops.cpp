// Loops in the walk of check_synchronisation: the first iterations one by one, the later ones by the step that they all take.
#include <algorithm>

#include "nvptx/synchronisation_walk.hpp"

namespace flextile::backend {

using ir::AttributeName;
using ir::BlockId;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {
constexpr int most_single_iterations = 6;    // that are looked at one by one
}

/// What is known where the loop's body begins its iteration number `count`.
Facts SynchronisationWalk::facts_inside(OperationId id, const Affine& count) {
  const Operation& loop = f_.operation(id);
  const std::int64_t step = numbers_.step(loop);
  if (step == 0) return {};
  return {now(loop.operands[1]) - now(loop.operands[0]) - count * step};
}

/// The loop's body once, with its counter at `count`, or left open. The state is that in front of the next iteration.
/// `known`: in front of the loop, and of the count.
State SynchronisationWalk::iterate(OperationId id, const State& before, const Affine& count, const Facts& known) {
  States after{before};
  after[0].facts = known;
  for (Affine& fact : facts_inside(id, count)) after[0].facts.push_back(std::move(fact));
  if (count.is_number()) iteration_.emplace_back(numbers_.counter(id), count);
  for (BlockId inner : f_.operation(id).blocks) after = block(inner, std::move(after));
  if (count.is_number()) iteration_.pop_back();
  for (State& each : after) leave_iteration(id, each);
  unite(after, id);
  if (after.size() != 1) fail(id, std::string("goes through an iteration on paths that leave ") + difference(after[0], after[1]));
  return std::move(after[0]);
}

/// Values of the iteration have other numbers in the next.
void SynchronisationWalk::leave_iteration(OperationId id, State& state) const {
  auto changes = [&](const Affine& number) { return numbers_.depends_on_body(number, id); };
  for (const Product& product : state.products) {
    const Value held = register_operand(product.dot);
    if (held && changes(Affine::of(held.index))) {
      fail(product.dot, "is in flight at the end of an iteration of " + name(id) + ", whose next one overwrites " + name(held) + ", its operand in registers");
    }
  }
  for (std::vector<Access>* list : {&state.reads, &state.writes}) {
    for (Access& access : *list) {
      if (changes(access.turn)) access.any_stage = true, access.turn = {};
    }
  }
  for (Storing& store : state.storing) {
    if (changes(store.from.turn)) store.from.any_stage = true, store.from.turn = {};
  }
  std::erase_if(state.outgoing, [&](const Access& access) { return changes(access.turn); });
  for (Product& product : state.products) {
    for (Access& access : product.reads) {
      if (changes(access.turn)) access.any_stage = true, access.turn = {};
    }
  }
  for (Copy& copy : state.copies) {
    if (changes(copy.to.turn)) copy.to.any_stage = true, copy.to.turn = {};
    if (copy.guarded && changes(copy.guard)) copy.guarded = false, copy.guard = {};
  }
  std::erase_if(state.filled, [&](const Copy& copy) { return changes(copy.to.turn) || changes(copy.guard); });
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const Ring& ring = state.rings[i];
    if (f_.operation(id).attributes.integer(AttributeName::programs) != 0) continue;   // those are carried
    for (const Affine* number : {&ring.filled, &ring.waited, &ring.released}) {
      if (changes(*number)) fail(id, "leaves " + turn_of(*number, rings_[i]) + " as the next one: the loop's counter does not give it");
    }
  }
}

std::string SynchronisationWalk::difference(const State& a, const State& b) const {
  if (a.turns != b.turns) return "the turn to start products taken on one of them alone";
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const Ring &one = a.rings[i], &other = b.rings[i];
    auto differs = [&](const char* what, const Affine& x, const Affine& y) { return name(rings_[i]) + " " + what + " up to turn " + numbers_.text(x) + " on one, turn " + numbers_.text(y) + " on the other"; };
    if (one.waited != other.waited) return differs("waited for", one.waited, other.waited);
    if (one.released != other.released) return differs("released", one.released, other.released);
    if (one.filled != other.filled) return differs("filled", one.filled, other.filled);
  }
  return "rings in different states";
}

/// States behind the loop, for no iteration, one, and so on.
SynchronisationWalk::States SynchronisationWalk::visit_loop(OperationId id, const State& before) {
  const Affine n = Affine::of(numbers_.counter(id));
  if (role_ == Role::producer && once_[id.index].empty()) once_[id.index] = find_once(id);
  States heads{before};            // heads[k]: in front of iteration k
  std::vector<std::int64_t> steps;
  State head;                      // in front of iteration n, from iteration `first` on
  int first = -1;
  for (int k = 0; first < 0 && k < most_single_iterations; ++k) {
    if (contradicts(before.facts, facts_inside(id, Affine::number(k)))) return leave_loop(id, before, std::move(heads), nullptr);
    heads.push_back(iterate(id, heads.back(), Affine::number(k), before.facts));
    if (!heads[k + 1].changed_since(heads[k], steps)) continue;
    head = heads[k].moved(steps, n - k);
    const State next = iterate(id, head, n, with(before.facts, n - k + 1));
    if (heads[k].moved(steps, n - k + 1).includes(next)) first = k;
  }
  // No step is found: whatever stage it is, what is in flight grows until it grows no more.
  if (first < 0) head = heads.back();
  for (int i = 0; first < 0 && i < most_widenings; ++i) {
    head.forget_stages();
    const State next = iterate(id, head, n, with(before.facts, n + 1));
    if (!head.same_rings(next)) fail(id, "goes on from iteration to iteration with " + difference(head, next));
    if (head.includes(next)) first = static_cast<int>(heads.size()) - 1;
    head.merge(next);
  }
  if (first < 0) fail(id, "leaves something else in flight after each iteration: no wait covers it");
  heads.resize(static_cast<std::size_t>(first));
  return leave_loop(id, before, std::move(heads), &head);
}
Facts SynchronisationWalk::with(Facts facts, const Affine& another) { return facts.push_back(another), facts; }

/// `heads`: in front of the first iterations; `head`: in front of iteration n, from there on; null: there are no more.
SynchronisationWalk::States SynchronisationWalk::leave_loop(OperationId id, const State& before, States heads, const State* head) {
  const Operation& loop = f_.operation(id);
  const Atom counter = numbers_.counter(id);
  const std::int64_t step = numbers_.step(loop);
  const Affine distance = step > 0 ? now(loop.operands[1]) - now(loop.operands[0]) : Affine{};
  // The states of the first iterations that fit in join the common one, which is that of `least` iterations and more.
  const bool has_once = !once_[id.index].empty();
  if (has_once && heads.empty()) heads.push_back(before);
  auto least = static_cast<std::int64_t>(heads.size());
  while (head && least > (has_once ? 1 : 0) && heads[least - 1].same_rings(head->with(counter, Affine::number(least - 1)))) --least;
  State common;
  Affine all_trips;
  Facts known = before.facts;
  if (head) {
    if (least > 0 && step > 0) known.push_back(distance - (least - 1) * step);
    const Affine trips = numbers_.trips(id, distance, known);
    known.push_back(trips - least + 1);
    if (step > 0) known.push_back(trips * step - distance + 1);
    if (step > 0 && least > 0) known.push_back(distance - trips * step + step);
    common = head->with(counter, trips);
    common.facts = known;
    forget_idle(common);
    all_trips = trips;
  }
  States after;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto count = static_cast<std::int64_t>(i);
    State& early = heads[i];
    early.facts = before.facts;
    if (step > 0) early.facts.push_back(Affine::number(count * step + 1) - distance);
    if (step > 0 && count > 0) early.facts.push_back(distance - (count - 1) * step);
    if (contradicts(before.facts, early.facts)) continue;   // it runs more often
    forget_idle(early);
    if (count < least) {
      if (count > 0) pass_once(id, Affine::number(count), early);
      after.push_back(std::move(early));
    } else {
      early.rings = common.rings;
      common.merge(early);
      common.facts = known;
    }
  }
  if (head) pass_once(id, all_trips, common);
  if (head) after.push_back(std::move(common));
  if (loop.opcode == Opcode::while_) return block(loop.blocks[0], std::move(after));   // the condition is looked at once more
  return after;
}

/// Branches in a producer's loop on whether the index is a number from outside of the loop: they happen in one iteration, wherever.
std::vector<OperationId> SynchronisationWalk::find_once(OperationId loop) {
  std::vector<OperationId> found;
  const BlockId body = f_.operation(loop).blocks[0];
  for (OperationId id : f_.block(body).operations) {
    const Operation& branch = f_.operation(id);
    const Operation* test = branch.opcode == Opcode::if_ && matters(id) ? f_.defining(branch.operands[0]) : nullptr;
    const bool once = test && test->opcode == Opcode::eq && numbers_.step(f_.operation(loop)) > 0 && test->operands[0] == f_.block(body).arguments[0] &&
                      !numbers_.depends_on_body(numbers_.of(test->operands[1]), loop);
    if (once && stands_apart(body, branch)) found.push_back(id), is_once_[id.index] = true;
  }
  return found;
}

/// Its first block touches no ring that the rest of the body does, and its second one none at all.
bool SynchronisationWalk::stands_apart(BlockId body, const Operation& branch) const {
  const auto& otherwise = f_.block(branch.blocks[1]).operations;
  if (std::any_of(otherwise.begin(), otherwise.end(), [&](OperationId id) { return matters(id); })) return false;
  return std::all_of(rings_.begin(), rings_.end(), [&](Value ring) {
    std::vector<const Operation*> inside, all;
    for (const Opcode opcode : {Opcode::ring_refill, Opcode::ring_wait, Opcode::ring_release}) collect(branch.blocks[0], ring, opcode, inside), collect(body, ring, opcode, all);
    return inside.empty() || inside.size() == all.size();
  });
}

/// Behind a loop that ran so often: each of those branches was taken once.
void SynchronisationWalk::pass_once(OperationId loop, const Affine& trips, State& state) {
  const Operation& operation = f_.operation(loop);
  const std::int64_t step = numbers_.step(operation);
  for (OperationId id : once_[loop.index]) {
    const Affine ahead = now(f_.defining(f_.operation(id).operands[0])->operands[1]) - now(operation.operands[0]);
    const bool comes = Numbers::distance(ahead, {}, step) == 0 && numbers_.proves_in_cases(state.facts, ahead + 1) && numbers_.proves_in_cases(state.facts, trips * step - ahead);
    if (!comes) fail(id, "happens in the iteration that begins " + numbers_.text(ahead) + " behind the loop's first one, which may be none of " + numbers_.text(trips));
    States after = block(f_.operation(id).blocks[0], {state});
    unite(after, id);
    if (after.size() != 1) fail(id, "is gone through on paths that leave " + difference(after[0], after[1]));
    state = std::move(after[0]);
  }
}

}  // namespace flextile::backend
