// Faults in what is filled, in what roles hand over, and in turns to start products.
#pragma once
#include "faults_of_order.hpp"

namespace flextile::test::faults {

/// A branch around copies: what is in it happens always.
inline std::vector<Site> guards(const Mutator& m) {
  return m.all([&](const Operation& each) {
    if (each.opcode != Opcode::if_) return false;
    for (ir::OperationId id : m.f.block(each.blocks[0]).operations) {
      if (m.f.operation(id).opcode == Opcode::bulk_copy) return true;
    }
    return false;
  });
}
inline bool copy_always(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(guards(m), number, site)) return false;
  const std::vector<ir::OperationId> inside = m.f.block(m.operation(site).blocks[0]).operations;
  m.drop(site);
  auto& operations = m.f.block(site.block).operations;
  operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(site.at), inside.begin(), inside.end() - 1);
  return true;
}
inline bool copy_one_turn_more(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(guards(m), number, site)) return false;
  const Operation whole = *m.f.defining(m.operation(site).operands[0]);
  const bool either = whole.opcode == Opcode::bit_or;   // this program's turns or the next one's
  const Operation condition = either ? *m.f.defining(whole.operands[1]) : whole;
  auto make = [&](Opcode opcode, std::vector<ir::Value> operands) {
    const ir::Value made = m.f.operation(m.insert(site, {opcode, std::move(operands), {}, {}, {}, {}}, {ir::Type::scalar(ElementType::i1)})).results[0];
    ++site.at;
    return made;
  };
  const ir::Value wider = make(Opcode::le, condition.operands);
  const ir::Value chosen = either ? make(Opcode::bit_or, {whole.operands[0], wider}) : wider;
  m.operation(site).operands[0] = chosen;
  return true;
}
inline bool copy_on_other_side(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(guards(m), number, site)) return false;
  std::swap(m.operation(site).blocks[0], m.operation(site).blocks[1]);
  return true;
}
inline bool hands_over(const Mutator& m, const Operation& each) { return m.f.type(each.operands[0]).element == ElementType::i32; }
inline std::vector<Site> loops_over_programs(const Mutator& m) {
  return m.all([](const Operation& each) { return each.opcode == Opcode::while_ && each.attributes.integer(AttributeName::programs) != 0; });
}
/// One of the numbers that a role's loop over programs carries is one more.
inline bool count_otherwise(Mutator& m, std::size_t number) {
  const std::vector<Site> loops = loops_over_programs(m);
  for (const Site& loop : loops) {
    const ir::BlockId body = m.operation(loop).blocks[1];
    Site yield{body, m.f.block(body).operations.size() - 1};
    const std::size_t count = m.operation(loops.front()).operands.size();   // behind these consumers carry what they read ahead: no turn
    if (number >= count) {
      number -= count;
      continue;
    }
    const ir::Value more = m.plus(yield, m.operation(yield).operands[number], 1);
    m.operation(yield).operands[number] = more;
    return true;
  }
  return false;
}
/// All of a ring's fills, in one role.
inline bool drop_ring_of_role(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([&](const Operation& each) { return each.opcode == Opcode::ring_refill && !hands_over(m, each); }), number, site)) return false;
  m.drop(site);
  return true;
}
/// Branches that take the next program: in one iteration, or where there is none.
inline std::vector<Site> takings(const Mutator& m) {
  return m.all([&](const Operation& each) {
    if (each.opcode != Opcode::if_) return false;
    const auto& inside = m.f.block(each.blocks[0]).operations;
    return std::any_of(inside.begin(), inside.end(), [&](ir::OperationId id) { return m.f.operation(id).opcode == Opcode::ring_refill; });
  });
}
inline bool never_take(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(takings(m), number, site)) return false;
  m.drop(site);
  return true;
}
inline bool take_always(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(takings(m), number, site)) return false;
  const std::vector<ir::OperationId> inside = m.f.block(m.operation(site).blocks[0]).operations;
  m.drop(site);
  auto& operations = m.f.block(site.block).operations;
  operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(site.at), inside.begin(), inside.end() - 1);
  return true;
}
/// In an iteration that may not be one of the loop's.
template <int delta> bool take_in_another_iteration(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(takings(m), number, site)) return false;
  ir::Operation test = *m.f.defining(m.operation(site).operands[0]);
  test.operands[1] = m.plus(site, test.operands[1], delta);
  test.results.clear();
  const ir::Value other = m.f.operation(m.insert(site, test, {ir::Type::scalar(ElementType::i1)})).results[0];
  ++site.at;
  m.operation(site).operands[0] = other;
  return true;
}
/// Scratch space of the consumers where only the producer's warps have something.
inline bool scratch_on_scalars(Mutator& m, std::size_t number) {
  for (const Site& scratch : m.all([](const Operation& each) { return each.opcode != Opcode::alloc_shared && each.attributes.has(AttributeName::offset); })) {
    for (const Site& ring : m.all([&](const Operation& each) { return each.opcode == Opcode::alloc_shared && m.f.type(each.results[0]).element == ElementType::i32; })) {
      if (number-- > 0) continue;
      m.operation(scratch).attributes.set(AttributeName::offset, m.operation(ring).attributes.integer(AttributeName::offset));
      return true;
    }
  }
  return false;
}
/// The consumers read what one warp of the producer put for another.
inline bool other_readers(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.attributes.has(AttributeName::readers); }), number, site)) return false;
  const bool one = m.operation(site).attributes.integer(AttributeName::readers) == 1;
  m.operation(site).attributes.set(AttributeName::readers, std::int64_t{one ? m.f.num_warps + 4 : 1});
  return true;
}
/// The consumers ask for the next program in front of this one's work.
inline bool ask_before_the_work(Mutator& m, std::size_t number) {
  for (const Site& loop : loops_over_programs(m)) {
    const ir::BlockId body = m.operation(loop).blocks[1];
    const auto& operations = m.f.block(body).operations;
    const bool consumes = std::none_of(operations.begin(), operations.end(), [&](ir::OperationId id) { return m.f.operation(id).opcode == Opcode::ring_refill; });
    const auto get = std::find_if(operations.begin(), operations.end(), [&](ir::OperationId id) { return m.f.operation(id).opcode == Opcode::ring_get; });
    if (!consumes || get == operations.end() || number-- > 0) continue;
    const auto at = static_cast<std::size_t>(get - operations.begin());   // wait, get, release
    Site front{body, 0};
    const ir::Value round = m.plus(front, m.f.block(body).arguments[1], 1);
    for (std::size_t i = 0; i < 3; ++i) {
      const Site moved{body, at + 1 + i};                                 // two operations were put in front
      m.operation(moved).operands[1] = round;
      m.move(moved, 2 + i);
    }
    return true;
  }
  return false;
}
/// The scalars that are put have another number of the program in front.
inline bool put_other_program(Mutator& m, std::size_t number) {
  Site site;
  auto taken = [&](const Operation& each) {
    const Operation* from = each.opcode == Opcode::ring_put ? m.f.defining(each.operands[2]) : nullptr;
    return from && (from->opcode == Opcode::take_program || from->opcode == Opcode::ring_get);
  };
  if (!pick(m.all(taken), number, site)) return false;
  m.operation(site).operands[2] = m.operation(site).operands[1];
  return true;
}
inline bool put_one_scalar_less(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(Opcode::ring_put), number, site)) return false;
  m.operation(site).operands.pop_back();
  return true;
}
template <int kind> bool drop_turn(Mutator& m, std::size_t number) {
  constexpr const char* kinds[] = {"open", "take", "pass", "close"};
  Site site;
  if (!pick(m.all([&](const Operation& each) { return each.opcode == Opcode::turn && each.attributes.string(AttributeName::kind) == kinds[kind]; }), number, site)) return false;
  m.drop(site);
  return true;
}
/// A warpgroup may begin a program and open turns while another still closes those of the program before.
inline bool turns_of_each_program(Mutator& m, std::size_t number) {
  auto turns = [&](const char* kind) {
    return m.all([&](const Operation& each) { return each.opcode == Opcode::turn && each.attributes.string(AttributeName::kind) == kind; });
  };
  Site open, close;
  if (!pick(turns("open"), number, open) || !pick(turns("close"), number, close)) return false;
  const Operation& loop = m.operation({open.block, open.at + 1});
  if (loop.attributes.integer(AttributeName::programs) == 0) return false;
  const ir::BlockId body = loop.blocks.back();
  m.drop(close);
  m.drop(open);
  m.insert({body, 0}, {Opcode::turn, {}, {}, {}, {{AttributeName::kind, std::string("open")}}, {}}, {});
  m.insert({body, m.f.block(body).operations.size() - 1}, {Opcode::turn, {}, {}, {}, {{AttributeName::kind, std::string("close")}}, {}}, {});
  return true;
}
inline bool pass_for_take(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.opcode == Opcode::turn && each.attributes.string(AttributeName::kind) == "take"; }), number, site)) return false;
  m.operation(site).attributes.set(AttributeName::kind, std::string("pass"));
  return true;
}
inline bool barrier_in_turn(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.opcode == Opcode::turn && each.attributes.string(AttributeName::kind) == "pass"; }), number, site)) return false;
  m.insert(site, {Opcode::barrier, {}, {}, {}, {}, {}}, {});
  return true;
}
inline bool barrier_in_release(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all(Opcode::ring_release), number, site)) return false;
  m.insert({m.operation(site).blocks[0], 0}, {Opcode::barrier, {}, {}, {}, {}, {}}, {});
  return true;
}
inline bool start_without_wait(Mutator& m, std::size_t number) {
  Site site;
  if (!pick(m.all([](const Operation& each) { return each.opcode == Opcode::dot && each.attributes.string(AttributeName::instruction) == "wgmma" && each.attributes.integer(AttributeName::async) == 0; }), number, site)) return false;
  m.operation(site).attributes.set(AttributeName::async, std::int64_t{1});
  return true;
}

}  // namespace flextile::test::faults
