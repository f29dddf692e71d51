#include "nvptx/synchronisation_state.hpp"

#include <algorithm>
#include <tuple>

namespace flextile::backend {
namespace {

/// The bytes of the stage where they are known, else of all stages.
std::pair<std::int64_t, std::int64_t> range(const Access& access) {
  if (access.any_stage || !access.turn.is_number()) return {access.first, access.end};
  const std::int64_t size = (access.end - access.first) / access.stages, stage = Numbers::distance(access.turn, {}, access.stages);
  return {access.first + stage * size, access.first + (stage + 1) * size};
}

auto key(const Access& a) { return std::tuple(a.first, a.end, a.buffer.index, a.any_stage, a.turn.terms, a.turn.constant, a.own_rows, a.reach, a.by.index); }

bool same_target(const Copy& a, const Copy& b) { return a.to == b.to && a.guarded == b.guarded && a.guard == b.guard; }

}  // namespace

bool overlap(const Access& a, const Access& b) {
  const auto [a_first, a_end] = range(a);
  const auto [b_first, b_end] = range(b);
  if (a_first >= b_end || b_first >= a_end) return false;
  const bool stages_known = a.buffer && a.buffer == b.buffer && !a.any_stage && !b.any_stage;
  return !stages_known || !Numbers::differ(a.turn, b.turn, a.stages);
}

bool covers(const Access& a, const Access& b) {
  return (!a.own_rows || b.own_rows) && a.reach <= b.reach && a.buffer == b.buffer && a.first <= b.first && b.end <= a.end && (a.any_stage || (!b.any_stage && Numbers::distance(a.turn, b.turn, a.stages) == 0));
}

void State::add(std::vector<Access>& list, const Access& access) {
  if (std::any_of(list.begin(), list.end(), [&](const Access& other) { return covers(other, access); })) return;
  std::erase_if(list, [&](const Access& other) { return covers(access, other); });
  list.push_back(access);
}

void State::add(const Copy& copy) {
  for (Copy& other : copies) {
    if (same_target(other, copy)) {
      other.newer = std::min(other.newer, copy.newer);
      return;
    }
  }
  copies.push_back(copy);
}

void State::add(const Product& product) {
  for (Product& other : products) {
    if (other.dot == product.dot && other.reads == product.reads) {
      other.newer = std::min(other.newer, product.newer);
      return;
    }
  }
  products.push_back(product);
}

void State::add(const Storing& store) {
  for (Storing& other : storing) {
    if (other.from == store.from) {
      other.newer = std::min(other.newer, store.newer);
      return;
    }
  }
  storing.push_back(store);
}

void State::merge(const State& other) {
  std::erase_if(facts, [&](const Affine& fact) { return std::find(other.facts.begin(), other.facts.end(), fact) == other.facts.end(); });
  for (const Access& access : other.reads) add(reads, access);
  for (const Access& access : other.writes) add(writes, access);
  for (const Copy& copy : other.copies) add(copy);
  for (const Product& product : other.products) add(product);
  for (const Storing& store : other.storing) add(store);
  std::erase_if(outgoing, [&](const Access& access) { return std::none_of(other.outgoing.begin(), other.outgoing.end(), [&](const Access& each) { return each == access; }); });
  closing = closing || other.closing;
  std::erase_if(filled, [&](const Copy& copy) { return std::none_of(other.filled.begin(), other.filled.end(), [&](const Copy& each) { return same_target(copy, each); }); });
}

bool State::includes(const State& other) const {
  auto all_in = [](const auto& few, const auto& many, auto contains) {
    return std::all_of(few.begin(), few.end(), [&](const auto& each) { return std::any_of(many.begin(), many.end(), [&](const auto& one) { return contains(one, each); }); });
  };
  auto copy_in = [](const Copy& one, const Copy& each) { return one.newer <= each.newer && covers(one.to, each.to) && (!one.guarded || (each.guarded && one.guard == each.guard)); };
  auto product_in = [&](const Product& one, const Product& each) { return one.dot == each.dot && one.newer <= each.newer && all_in(each.reads, one.reads, covers); };
  auto store_in = [](const Storing& one, const Storing& each) { return one.newer <= each.newer && covers(one.from, each.from); };
  auto same = [](const Access& one, const Access& each) { return one == each; };
  return all_in(other.storing, storing, store_in) && all_in(outgoing, other.outgoing, same) && same_rings(other) && (closing || !other.closing) && all_in(other.reads, reads, covers) && all_in(other.writes, writes, covers) && all_in(other.copies, copies, copy_in) &&
         all_in(other.products, products, product_in) && all_in(filled, other.filled, same_target);
}

void State::sort() {
  auto by_access = [](const Access& a, const Access& b) { return key(a) < key(b); };
  auto by_target = [](const Copy& a, const Copy& b) { return std::tuple(key(a.to), a.newer) < std::tuple(key(b.to), b.newer); };
  std::sort(reads.begin(), reads.end(), by_access);
  std::sort(writes.begin(), writes.end(), by_access);
  std::sort(outgoing.begin(), outgoing.end(), by_access);
  std::sort(storing.begin(), storing.end(), [](const Storing& a, const Storing& b) { return std::tuple(key(a.from), a.newer) < std::tuple(key(b.from), b.newer); });
  std::sort(copies.begin(), copies.end(), by_target);
  std::sort(filled.begin(), filled.end(), by_target);
  std::sort(products.begin(), products.end(), [](const Product& a, const Product& b) { return std::tuple(a.dot.index, a.newer) < std::tuple(b.dot.index, b.newer); });
}

bool State::changed_since(const State& earlier, std::vector<std::int64_t>& steps) const {
  State now = *this, then = earlier;
  now.sort(), then.sort();
  std::vector<Affine> numbers;
  now.for_each_number([&](Affine& number) { numbers.push_back(std::exchange(number, {})); });
  std::size_t next = 0;
  bool known = true;
  steps.clear();
  then.for_each_number([&](Affine& number) {
    const Affine change = next < numbers.size() ? numbers[next] - number : Affine::of(0);
    ++next;
    known = known && change.is_number();
    steps.push_back(change.constant);
    number = {};
  });
  now.facts.clear(), then.facts.clear();
  return known && now.reads == then.reads && now.writes == then.writes && now.copies == then.copies && now.products == then.products && now.filled == then.filled && now.storing == then.storing && now.outgoing == then.outgoing &&
         now.closing == then.closing && now.same_rings(then);
}

State State::moved(const std::vector<std::int64_t>& steps, const Affine& count) const {
  State result = *this;
  result.sort();
  std::size_t next = 0;
  result.for_each_number([&](Affine& number) { number = number + count * steps[next++]; });
  return result;
}

State State::with(Atom atom, const Affine& value) const {
  State result = *this;
  result.for_each_number([&](Affine& number) { number = number.with(atom, value); });
  return result;
}

void State::forget_stages() {
  for (std::vector<Access>* list : {&reads, &writes}) {
    const std::vector<Access> old = std::exchange(*list, {});
    for (Access access : old) {
      access.any_stage = true;
      access.turn = {};
      add(*list, access);
    }
  }
  for (Storing store : std::exchange(storing, {})) {
    store.from.any_stage = true;
    store.from.turn = {};
    add(store);
  }
  outgoing.clear();
  const std::vector<Copy> old = std::exchange(copies, {});
  for (const Copy& copy : old) {
    Access to = copy.to;
    to.any_stage = true;
    to.turn = {};
    add(Copy{to, false, {}, copy.newer});
  }
  filled.clear();
}

}  // namespace flextile::backend
