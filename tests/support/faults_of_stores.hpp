// Faults in tiles that the copy engine stores from shared memory.
#pragma once
#include "faults_of_order.hpp"

namespace flextile::test::faults {

/// A ring's release in front of the wait for the copy engine, or of the store itself.
template <Opcode before> bool release_before(Mutator& m, std::size_t number) {
  return nth_move(m, Opcode::ring_release, number, [](Mutator& a, const Site& site) {
    const ir::Value buffer = a.operation(site).operands[0];
    const std::vector<Site> stores = a.all([&](const Operation& each) { return each.opcode == Opcode::bulk_store && each.operands[0] == buffer; });
    return !stores.empty() && move_up(a, site, [](const Operation& each) { return each.opcode == before; });
  });
}
template <Opcode moved, Opcode over> bool put_before(Mutator& m, std::size_t number) {
  return nth_move(m, moved, number, [](Mutator& a, const Site& site) {
    return site.at > 0 && a.operation({site.block, site.at - 1}).opcode == over && move_up(a, site, [](const Operation& each) { return each.opcode == over; });
  });
}
/// The store reads another stage of the ring, or the tile is written there.
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
}  // namespace flextile::test::faults
