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
}  // namespace flextile::test::faults
