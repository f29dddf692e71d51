// Faults that a pass could make in the synchronisation of a scheduled kernel, each planted at every place where it can be.
// A mutant is well formed: ir::verify finds nothing wrong with it.
#pragma once
#include "faults_of_rings.hpp"
#include "faults_of_stores.hpp"

namespace flextile::test {

namespace faults {

/// The value that a loop carries into an operand of a product in flight is computed before the wait.
inline bool operand_before_wait(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::cast, number, [](Mutator& a, const Site& site) {
    const ir::Value operand = a.operation(site).results[0];
    const ir::Type type = a.f.type(operand);
    if (bit_width(type.element) != 16 || type.rank != 2) return false;
    if (a.f.operation(a.f.block(site.block).operations.back()).opcode != Opcode::yield) return false;
    // The next operand is made of the scores, in front of the wait for the product that reads this one.
    ir::Value scores;
    for (std::size_t i = 0; i < site.at; ++i) {
      const Operation each = a.operation({site.block, i});
      if (each.opcode != Opcode::product_wait || each.results.empty()) continue;
      if (each.attributes.integer(AttributeName::pending) != 0) {
        if (a.f.type(each.results[0]).shape() == type.shape()) scores = each.results[0];
        continue;
      }
      if (!scores) return false;
      const ir::Value made = a.f.operation(a.insert({site.block, i}, {Opcode::cast, {scores}, {}, {}, {}, {}}, {type})).results[0];
      a.f.set_layout(made, ir::Layout(a.f.layouts[static_cast<std::size_t>(a.f.layout_of(operand))]));
      a.replace(operand, made);
      return true;
    }
    return false;
  });
}
/// Buffers that are read in one block, which lies in a loop: none of them can have another's bytes.
inline bool read_together(Mutator& m, ir::Value one, ir::Value other) {
  const std::vector<Site> reads = m.all(Opcode::shared_load);
  return std::any_of(reads.begin(), reads.end(), [&](const Site& a) {
    return m.operation(a).operands[0] == one && std::any_of(reads.begin(), reads.end(), [&](const Site& b) { return b.block == a.block && m.operation(b).operands[0] == other; });
  });
}
inline void place_at(Mutator& m, const Site& moved, const Site& there) { m.operation(moved).attributes.set(AttributeName::offset, m.operation(there).attributes.integer(AttributeName::offset)); }
inline bool place_on_buffer(Mutator& m, std::size_t number) {
  const std::vector<Site> buffers = m.all(Opcode::alloc_shared);
  for (const Site& moved : buffers) {
    for (const Site& there : buffers) {
      const ir::Value one = m.operation(moved).results[0], other = m.operation(there).results[0];
      if (one == other || !read_together(m, one, other) || number-- > 0) continue;
      place_at(m, moved, there);
      return true;
    }
  }
  return false;
}
inline bool scratch_on_buffer(Mutator& m, std::size_t number) {
  for (const Site& scratch : m.all([](const Operation& each) { return each.opcode != Opcode::alloc_shared && each.attributes.has(AttributeName::offset); })) {
    for (const Site& there : m.all(Opcode::alloc_shared)) {
      const std::vector<Site> reads = m.all(Opcode::shared_load);
      const bool in_use = std::any_of(reads.begin(), reads.end(), [&](const Site& read) { return read.block == scratch.block && m.operation(read).operands[0] == m.operation(there).results[0]; });
      if (!in_use || number-- > 0) continue;
      place_at(m, scratch, there);
      return true;
    }
  }
  return false;
}

}  // namespace faults

inline const std::vector<Fault>& all_faults() {
  using namespace faults;
  static const std::vector<const char*> ordered = {"no barrier stands between them", "no async_wait covers it", "no ring_wait covers it", "no product_wait covers it", "which nothing has filled"};
  static const std::vector<const char*> turns = {"but the next turn is", "which nothing has started", "which is not waited for", "but the next turn to release is", "not ordered after the copy",
                                                 "but the next turn to fill is", "frees the stage for turn", "may be in flight", "which may not exist", "goes on from iteration to iteration", "never waits for", "begins with turn", "goes on with turn",
                                                 "which starts one copy", "which turn's stage that is cannot be told", "does not carry which turn", "what they carry is not computed alike", "never fills", "without a copy", "its stage is not released", "which comes when this program's tiles are fetched"};
  static const std::vector<const char*> releases = [] {   // perhaps on one side of a branch only
    std::vector<const char*> sentences = turns;
    sentences.push_back("on paths that leave");
    return sentences;
  }();
  static const std::vector<const char*> guards = {"the turns before it say that it exists", "which may be filled already", "but the next turn is", "not understood", "begins with turn", "goes on with turn", "or its first turns are not filled"};
  static const std::vector<const char*> paths = {"which may be none of", "which starts one copy", "but the next turn to fill is", "which comes when this program's tiles are fetched", "begins with turn", "goes on with turn", "on paths that leave", "but the next turn is", "but the next turn to release is", "may be in flight", "which nothing has started", "not ordered after the copy"};
  static const std::vector<const char*> products = {"no product_wait gave it", "which it leaves in flight", "no product_wait covers it"};
  static const std::vector<const char*> fenced = {"no proxy_fence and warpgroup_barrier stand", "no warpgroup_barrier stands", "which no matrix_store has written"};
  static const std::vector<const char*> met = {"no warpgroup_barrier stands", "no proxy_fence and warpgroup_barrier stand", "no barrier stands between them", "which no matrix_store has written"};
  static const std::vector<const char*> stored = {"no bulk_wait covers it"};
  static const std::vector<const char*> written = {"no bulk_store has stored", "which no matrix_store has written", "no barrier stands between them", "no bulk_wait covers it"};
  static const std::vector<const char*> taking = {"on paths that leave", "turns to start products are", "while a warpgroup holds the turn"};
  static const std::vector<Fault> faults = {
      {"drop a proxy_fence", fenced, drop<Opcode::proxy_fence>},
      {"drop a warpgroup_barrier", met, drop<Opcode::warpgroup_barrier>},
      {"drop a bulk_wait", stored, drop<Opcode::bulk_wait>},
      {"drop a matrix_store", written, drop<Opcode::matrix_store>},
      {"drop a bulk_store", written, drop<Opcode::bulk_store>},
      {"bulk_wait leaves one more pending", stored, other_pending<Opcode::bulk_wait, 1>},
      {"release before the bulk_wait", stored, release_before<Opcode::bulk_wait>},
      {"release before the bulk_store", {"no bulk_store has stored"}, release_before<Opcode::bulk_store>},
      {"fence before the tile is written", fenced, put_before<Opcode::proxy_fence, Opcode::matrix_store>},
      {"meet before the fence", met, put_before<Opcode::warpgroup_barrier, Opcode::proxy_fence>},
      {"meet before the bulk_wait", met, put_before<Opcode::warpgroup_barrier, Opcode::bulk_wait>},
      {"write before the warpgroup meets", met, put_before<Opcode::matrix_store, Opcode::warpgroup_barrier>},
      {"store before the warpgroup meets", met, put_before<Opcode::bulk_store, Opcode::warpgroup_barrier>},
      {"store another stage", {"which no matrix_store has written", "not ordered after the copy"}, other_stage<Opcode::bulk_store>},
      {"write another stage", {"which no matrix_store has written", "not ordered after the copy"}, other_stage<Opcode::matrix_store>},
      {"write twice", written, repeat<Opcode::matrix_store>},
      {"store twice", written, repeat<Opcode::bulk_store>},
      {"fence on some paths", fenced, on_some_paths<Opcode::proxy_fence>},
      {"meet on some paths", met, on_some_paths<Opcode::warpgroup_barrier>},
      {"bulk_wait on some paths", stored, on_some_paths<Opcode::bulk_wait>},
      {"drop a ring_wait", turns, drop<Opcode::ring_wait>},
      {"drop a ring_release", releases, drop<Opcode::ring_release>},
      {"drop a bulk_copy", turns, drop<Opcode::bulk_copy>},
      {"drop an async_wait", ordered, drop<Opcode::async_wait>},
      {"drop an async_copy", ordered, drop<Opcode::async_copy>},
      {"drop a barrier", ordered, drop<Opcode::barrier>},
      {"drop a barrier that stands before an operation", ordered, drop_barrier_before},
      {"drop a product_wait", products, drop_sum_wait},
      {"drop turn open", taking, drop_turn<0>},
      {"open turns in each program", {"may still be closing"}, turns_of_each_program},
      {"drop turn take", taking, drop_turn<1>},
      {"drop turn pass", taking, drop_turn<2>},
      {"drop turn close", taking, drop_turn<3>},
      {"pass for take", taking, pass_for_take},
      {"wait for the next phase", turns, other_turn<Opcode::ring_wait, 1>},
      {"wait for the last phase", turns, other_turn<Opcode::ring_wait, -1>},
      {"wait for the stage's other phase", turns, other_turn<Opcode::ring_wait, 2>},
      {"release the next turn", turns, other_turn<Opcode::ring_release, 1>},
      {"release the last turn", turns, other_turn<Opcode::ring_release, -1>},
      {"fill the next turn", turns, other_turn<Opcode::bulk_copy, 1>},
      {"fill the last turn", turns, other_turn<Opcode::bulk_copy, -1>},
      {"drop a ring_refill", turns, drop<Opcode::ring_refill>},
      {"refill the next turn", turns, other_turn<Opcode::ring_refill, 1>},
      {"refill the last turn", turns, other_turn<Opcode::ring_refill, -1>},
      {"refill twice", turns, repeat<Opcode::ring_refill>},
      {"refill on some paths", paths, on_some_paths<Opcode::ring_refill>},
      {"read the scalars of the next turn", turns, other_turn<Opcode::ring_get, 1>},
      {"read the scalars of the last turn", turns, other_turn<Opcode::ring_get, -1>},
      {"put into the next turn", turns, other_turn<Opcode::ring_put, 1>},
      {"drop a ring_put", turns, drop<Opcode::ring_put>},
      {"put twice", turns, repeat<Opcode::ring_put>},
      {"put on some paths", turns, on_some_paths<Opcode::ring_put>},
      {"put one scalar less", {"reads other scalars", "puts other scalars", "takes a program that is not put"}, put_one_scalar_less},
      {"take two programs", {"which starts one copy"}, repeat<Opcode::take_program>},
      {"put another program", {"which no take_program gave", "takes a program that is not put"}, put_other_program},
      {"never take a program", turns, never_take},
      {"take a program always", paths, take_always},
      {"take a program two iterations later", paths, take_in_another_iteration<2>},
      {"take a program an iteration earlier", paths, take_in_another_iteration<-1>},
      {"scratch space where roles hand scalars over", {"may be in flight", "which share bytes", "before ring_start"}, scratch_on_scalars},
      {"other readers of a ring", {"whose readers are others"}, other_readers},
      {"ask for the next program before the work", {"which comes when this program's tiles are fetched"}, ask_before_the_work},
      {"count another turn in a role", {"what they carry is not computed alike", "goes on with turn", "which comes when this program's tiles are fetched"}, count_otherwise},
      {"a role fills no more", {"never fills", "never waits for"}, drop_ring_of_role},
      {"async_wait leaves one more pending", ordered, other_pending<Opcode::async_wait, 1>},
      {"async_wait leaves two more pending", ordered, other_pending<Opcode::async_wait, 2>},
      {"product_wait leaves one more pending", products, other_pending<Opcode::product_wait, 1>},
      {"wait twice", turns, repeat<Opcode::ring_wait>},
      {"release twice", turns, repeat<Opcode::ring_release>},
      {"fill twice", turns, repeat<Opcode::bulk_copy>},
      {"wait on some paths", paths, on_some_paths<Opcode::ring_wait>},
      {"release on some paths", paths, on_some_paths<Opcode::ring_release>},
      {"take a turn on some paths", {"on paths that leave", "turns to start products are", "while a warpgroup holds the turn"}, on_some_paths<Opcode::turn>},
      {"async_wait on some paths", ordered, on_some_paths<Opcode::async_wait>},
      {"barrier on some paths", ordered, on_some_paths<Opcode::barrier>},
      {"one stage too few", {"which turn's stage that is cannot be told", "frees the stage for turn", "no async_wait covers it", "its stage is not released", "no barrier stands between them", "which nothing has filled"}, one_stage_too_few},
      {"read the next stage", {"not ordered after the copy", "no async_wait covers it", "which nothing has filled", "no barrier stands between them"}, other_stage<Opcode::shared_load>},
      {"release before the read", {"not ordered after the copy", "while a warpgroup holds the turn"}, release_before_read},
      {"release before the product is done", {"no product_wait covers it"}, release_before_sum_wait},
      {"wait behind the read", {"not ordered after the copy"}, wait_behind_read},
      {"barrier before the async_wait", ordered, barrier_before_wait},
      {"async_wait behind the next copy", ordered, copy_before_wait},
      {"copy before the barrier", ordered, copy_before_barrier},
      {"copy into a stage in use", ordered, copy_into_stage_in_use},
      {"copy a turn that does not exist", guards, copy_always},
      {"copy one turn too many", guards, copy_one_turn_more},
      {"copy where the turn does not exist", guards, copy_on_other_side},
      {"a barrier while the turn is held", {"while a warpgroup holds the turn"}, barrier_in_turn},
      {"a barrier that one thread comes to", {"touches rings alone", "in a block that one thread runs"}, barrier_in_release},
      {"a product is not waited for", {"no product_wait"}, start_without_wait},
      {"an operand is overwritten in flight", {"no product_wait covers it"}, operand_before_wait},
      {"a buffer where another one lies", {"which share bytes", "may be in flight", "no async_wait covers it", "which nothing has filled", "no barrier stands between them", "no product_wait covers it", "before ring_start"}, place_on_buffer},
      {"scratch space where a buffer lies", {"may be in flight", "no async_wait covers it", "which nothing has filled", "no barrier stands between them", "no product_wait covers it", "before ring_start"}, scratch_on_buffer},
  };
  return faults;
}

}  // namespace flextile::test