// Faults in the order of waits, barriers, reads and copies.
#pragma once
#include "mutator.hpp"

namespace flextile::test {

/// A kind of fault, and how to plant it at place number `site`; false where there is no such place.
struct Fault {
  const char* kind;
  std::vector<const char*> sentences;     // one of them must be in the error
  bool (*plant)(Mutator& mutator, std::size_t site);
};

namespace faults {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;

inline bool pick(const std::vector<Site>& sites, std::size_t number, Site& site) {
  if (number >= sites.size()) return false;
  site = sites[number];
  return true;
}

template <Opcode opcode> bool drop(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(opcode), number, site)) return false;
  m.drop(site);
  return true;
}
/// The operation takes `delta` more turns.
template <Opcode opcode, int delta> bool other_turn(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(opcode), number, site)) return false;
  const ir::Value turn = m.plus(site, m.operation(site).operands[1], delta);
  m.operation(site).operands[1] = turn;
  return true;
}
template <Opcode opcode, int delta> bool other_pending(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.opcode == opcode && each.attributes.integer(AttributeName::pending) + delta >= 0; }), number, site)) return false;
  ir::Attributes& attributes = m.operation(site).attributes;
  attributes.set(AttributeName::pending, attributes.integer(AttributeName::pending) + delta);
  return true;
}
template <Opcode opcode> bool repeat(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(opcode), number, site)) return false;
  m.repeat(site);
  return true;
}
template <Opcode opcode> bool on_some_paths(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(opcode), number, site)) return false;
  m.make_conditional(site);
  return true;
}
/// In front of the nearest operation before it that `over` accepts.
template <class Over> bool move_up(Mutator& m, const Site& site, Over over) {
  for (std::size_t i = site.at; i-- > 0;) {
    if (!over(m.operation({site.block, i}))) continue;
    m.move(site, i);
    return true;
  }
  return false;
}
/// Behind the nearest operation after it that `over` accepts.
template <class Over> bool move_down(Mutator& m, const Site& site, Over over) {
  const std::size_t count = m.f.block(site.block).operations.size();
  for (std::size_t i = site.at + 1; i + 1 < count; ++i) {
    if (!over(m.operation({site.block, i}))) continue;
    m.move(site, i + 1);
    return true;
  }
  return false;
}
/// Sites of `opcode` whose move succeeds, by number.
template <class Move> bool nth_move(Mutator& m, Opcode opcode, std::size_t number, Move move) {
  for (const Site& site : m.all(opcode)) {
    Mutator attempt(m.f);
    if (!move(attempt, site) || number-- > 0) continue;
    m.f = attempt.f;
    return true;
  }
  return false;
}
inline bool reads_of(const Operation& each, ir::Value buffer) { return each.opcode == Opcode::shared_load && each.operands[0] == buffer; }

inline bool drop_sum_wait(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(Opcode::product_wait), number, site)) return false;
  m.drop(site, m.operation(site).operands.empty() ? ir::Value{} : m.operation(site).operands[0]);
  return true;
}
inline bool drop_barrier_before(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.attributes.integer(AttributeName::barrier_before) != 0; }), number, site)) return false;
  m.operation(site).attributes.erase(AttributeName::barrier_before);
  return true;
}
inline bool drop_async_copy(Mutator& m, std::size_t number) { return drop<Opcode::async_copy>(m, number); }
/// A buffer of several stages has one less; its rem keeps the old number.
inline bool one_stage_too_few(Mutator& m, std::size_t number) {
  Site site;
  const std::vector<Site> reads = m.all(Opcode::shared_load);
  auto several = [&](const Operation& each) {
    return each.opcode == Opcode::alloc_shared && m.f.type(each.results[0]).stages > 1 && std::any_of(reads.begin(), reads.end(), [&](const Site& read) { return m.operation(read).operands[0] == each.results[0]; });
  };
  if (!pick(m.all(several), number, site)) return false;
  const ir::Value buffer = m.operation(site).results[0];
  ir::Type type = m.f.type(buffer);
  --type.stages;
  m.f.set_type(buffer, type);
  return true;
}
/// Another stage of the ring is read or written than the one that is meant.
template <Opcode opcode> bool other_stage(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([&](const Operation& each) { return each.opcode == opcode && m.f.type(each.operands[0]).stages > 1; }), number, site)) return false;
  const std::int64_t stages = m.f.type(m.operation(site).operands[0]).stages;
  const ir::Value next = m.plus(site, m.operation(site).operands[1], 1);
  const ir::Value modulus = m.number(site, stages);
  ++site.at;
  const ir::Value stage = m.f.operation(m.insert(site, {Opcode::rem, {next, modulus}, {}, {}, {}, {}}, {m.f.type(next)})).results[0];
  ++site.at;
  m.operation(site).operands[1] = stage;
  return true;
}
inline bool release_before_read(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::ring_release, number, [](Mutator& a, const Site& site) {
    const ir::Value buffer = a.operation(site).operands[0];
    return move_up(a, site, [&](const Operation& each) { return reads_of(each, buffer); });
  });
}
/// Straight behind the product in flight that reads the stage.
inline bool release_before_sum_wait(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::ring_release, number, [](Mutator& a, const Site& site) {
    const ir::Value buffer = a.operation(site).operands[0];
    std::size_t place = site.at, waits = 0;
    for (std::size_t i = site.at; i-- > 0;) {
      const Operation& each = a.operation({site.block, i});
      if (each.opcode == Opcode::dot) place = i + 1;
      if (reads_of(each, buffer)) break;
      if (i == 0) return false;
    }
    for (std::size_t i = place; i < site.at; ++i) waits += a.operation({site.block, i}).opcode == Opcode::product_wait;
    a.move(site, place);
    return waits > 0;
  });
}
inline bool wait_behind_read(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::ring_wait, number, [](Mutator& a, const Site& site) {
    const ir::Value buffer = a.operation(site).operands[0];
    return move_down(a, site, [&](const Operation& each) { return reads_of(each, buffer); });
  });
}
inline bool barrier_before_wait(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::async_wait, number, [](Mutator& a, const Site& site) { return move_down(a, site, [](const Operation& each) { return each.opcode == Opcode::barrier; }); });
}
inline bool copy_before_wait(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::async_wait, number, [](Mutator& a, const Site& site) { return move_down(a, site, [](const Operation& each) { return each.opcode == Opcode::async_copy; }); });
}
inline bool copy_before_barrier(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::barrier, number, [](Mutator& a, const Site& site) { return move_down(a, site, [](const Operation& each) { return each.opcode == Opcode::async_copy; }); });
}
/// A copy into the stage of its iteration, not of `stages` - 1 later.
inline bool copy_into_stage_in_use(Mutator& m, std::size_t number) {
  Site site;
  auto of_loop = [&](const Operation& each) { return each.opcode == Opcode::async_copy && m.f.defining(each.operands[1])->opcode == Opcode::rem; };
  if (!pick(m.all(of_loop), number, site)) return false;
  for (const Site& read : m.all(Opcode::shared_load)) {
    if (m.operation(read).operands[0] == m.operation(site).operands[0]) m.operation(site).operands[1] = m.operation(read).operands[1];
  }
  return true;
}

}  // namespace faults

}  // namespace flextile::test
