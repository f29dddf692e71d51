// What follows from facts about a kernel's whole numbers.
#include <algorithm>

#include "nvptx/affine.hpp"

namespace flextile::backend {

bool Numbers::is_natural(const Affine& number) const {
  return number.constant >= 0 && std::all_of(number.terms.begin(), number.terms.end(), [&](const auto& term) { return term.second > 0 && is_natural(term.first); });
}

bool Numbers::is_natural(Atom atom) const {
  if (const Unknown* what = unknown(atom)) return what->kind != Unknown::quotient || is_natural(what->dividend);
  return false;
}

/// What is always known of the atom, and of those inside of it: numbers that are not below 0.
void Numbers::add_known(Atom atom, Facts& naturals, std::vector<Atom>& seen) const {
  if (std::find(seen.begin(), seen.end(), atom) != seen.end()) return;
  seen.push_back(atom);
  if (is_natural(atom)) naturals.push_back(Affine::of(atom));
  const Unknown* what = unknown(atom);
  if (!what || what->dividend.is_number()) return;
  if (what->kind == Unknown::clamp) naturals.push_back(Affine::of(atom) - what->dividend);
  for (const auto& [inner, coefficient] : what->dividend.terms) add_known(inner, naturals, seen);
}

/// The number is a sum of naturals. Each takes its first term away.
bool Numbers::follows(const Facts& naturals, const Affine& natural, int depth) const {
  if (natural.is_number()) return natural.constant >= 0;
  if (depth == 0) return false;
  const auto [first, wanted] = natural.terms.front();
  for (const Affine& each : naturals) {
    for (const auto& [atom, coefficient] : each.terms) {
      if (atom == first && (coefficient > 0) == (wanted > 0) && wanted % coefficient == 0 && follows(naturals, natural - each * (wanted / coefficient), depth - 1)) return true;
    }
  }
  return false;
}

bool Numbers::proves(const Facts& facts, const Affine& positive) const {
  constexpr int most_facts = 6;                // in one proof
  Facts naturals;
  std::vector<Atom> seen;
  std::vector<std::int64_t> factors{1};        // that the whole is multiplied by, for what facts say of multiples
  auto add_factor = [&](std::int64_t factor) {
    if (factor > 1 && std::find(factors.begin(), factors.end(), factor) == factors.end()) factors.push_back(factor);
  };
  for (const Affine& fact : facts) {
    if (fact.is_number() && fact.constant <= 0) return true;   // this place is never reached
  }
  if (positive.is_number()) return positive.constant > 0;
  for (const Affine& fact : facts) {
    naturals.push_back(fact - 1);
    for (const auto& [each, coefficient] : fact.terms) {
      add_known(each, naturals, seen);
      add_factor(coefficient < 0 ? -coefficient : coefficient);
    }
  }
  for (const auto& [each, coefficient] : positive.terms) add_known(each, naturals, seen);
  // Quotients: dividend - divisor * quotient is 0 to divisor - 1, where the dividend is natural.
  for (Atom each : seen) {
    const Unknown* what = unknown(each);
    if (!what || what->kind != Unknown::quotient || !(is_natural(what->dividend) || follows(naturals, what->dividend, most_facts))) continue;
    const Affine rest = what->dividend - Affine::of(each) * what->divisor;
    naturals.push_back(rest);
    naturals.push_back(Affine::number(what->divisor - 1) - rest);
    naturals.push_back(Affine::of(each));
    add_factor(what->divisor);
  }
  return std::any_of(factors.begin(), factors.end(), [&](std::int64_t factor) { return follows(naturals, positive * factor - 1, most_facts); });
}

bool Numbers::proves_in_cases(const Facts& facts, const Affine& positive, int choices) {
  Facts known = facts;
  for (const Affine& fact : facts) known.push_back(under(facts, fact));
  const Affine number = under(known, positive);
  if (proves(known, number)) return true;
  for (const auto& [each, coefficient] : number.terms) {
    const Unknown* what = unknown(each);
    if (!what || what->kind != Unknown::clamp || choices == 0) continue;
    Facts above = known, below = known;
    above.push_back(what->dividend);
    below.push_back(Affine::number(1) - what->dividend);
    return proves_in_cases(above, number, choices - 1) && proves_in_cases(below, number, choices - 1);
  }
  return false;
}

Affine Numbers::under(const Facts& facts, const Affine& number) {
  Affine result = Affine::number(number.constant);
  for (const auto& [each, coefficient] : number.terms) {
    Affine term = Affine::of(each);
    if (const Unknown* what = unknown(each)) {
      const Unknown old = *what;
      if (old.kind == Unknown::clamp || old.kind == Unknown::quotient) {
        Affine inner = under(facts, old.dividend);
        if (old.kind == Unknown::clamp) {
          term = proves(facts, inner + 1) ? inner : proves(facts, Affine::number(1) - inner) ? Affine{} : clamped(inner);
        } else {
          std::int64_t whole = 0;              // of the constant
          if (proves(facts, inner + 1)) {
            whole = (inner.constant - (inner.constant % old.divisor + old.divisor) % old.divisor) / old.divisor;
            inner.constant -= whole * old.divisor;
          }
          term = quotient(inner, old.divisor) + whole;
        }
      }
    }
    result = result + term * coefficient;
  }
  return result;
}

}  // namespace flextile::backend
