#include "nvptx/affine.hpp"

#include <algorithm>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // of all operations, only those that compute turns and stages are understood

namespace flextile::backend {

using ir::AttributeName;
using ir::Opcode;

namespace {

Affine combine(const Affine& a, const Affine& b, std::int64_t factor) {
  Affine sum{a.constant + factor * b.constant, {}};
  auto i = a.terms.begin();
  auto j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      if (factor != 0) sum.terms.emplace_back(j->first, factor * j->second);
      ++j;
    } else {
      if (const std::int64_t coefficient = i->second + factor * j->second; coefficient != 0) sum.terms.emplace_back(i->first, coefficient);
      ++i, ++j;
    }
  }
  return sum;
}

}  // namespace

Affine operator+(const Affine& a, const Affine& b) { return combine(a, b, 1); }
Affine operator-(const Affine& a, const Affine& b) { return combine(a, b, -1); }
Affine operator*(const Affine& a, std::int64_t factor) { return combine({}, a, factor); }

Affine Affine::with(Atom atom, const Affine& value) const {
  for (const auto& [each, coefficient] : terms) {
    if (each == atom) return *this + (value - Affine::of(atom)) * coefficient;
  }
  return *this;
}

Numbers::Numbers(const ir::Function& function)
    : f_(function), memo_(function.value_count()), known_(function.value_count()), owner_(function.block_count()), block_of_(function.operation_count()) {
  for (std::uint32_t block = 0; block < f_.block_count(); ++block) {
    for (ir::OperationId id : f_.block({block}).operations) {
      block_of_[id.index] = {block};
      for (ir::BlockId inner : f_.operation(id).blocks) owner_[inner.index] = id;
    }
  }
}

Atom Numbers::atom(Unknown unknown) {
  auto at = std::find(unknowns_.begin(), unknowns_.end(), unknown);
  if (at == unknowns_.end()) at = unknowns_.insert(at, std::move(unknown));
  return static_cast<Atom>(f_.value_count()) + static_cast<Atom>(at - unknowns_.begin());
}

Atom Numbers::counter(ir::OperationId loop) { return atom({Unknown::counter, loop}); }

std::int64_t Numbers::step(const ir::Operation& loop) const {
  if (loop.opcode != Opcode::for_) return 0;
  const ir::Operation* step = f_.defining(loop.operands[2]);
  if (is_unsigned(f_.type(loop.operands[0]).element)) return 0;
  return step && step->opcode == Opcode::constant ? std::max<std::int64_t>(0, step->attributes.integer(AttributeName::value)) : 0;
}

Affine Numbers::trips(ir::OperationId loop, const Affine& distance, const Facts& facts) {
  const std::int64_t stride = step(f_.operation(loop));
  if (stride == 0) return Affine::of(atom({Unknown::trips, loop}));
  const Affine dividend = distance + (stride - 1);
  return proves(facts, dividend + 1) ? quotient(dividend, stride) : steps(distance, stride);
}

Affine Numbers::clamped(const Affine& number) {
  if (number.is_number()) return Affine::number(std::max<std::int64_t>(number.constant, 0));
  return Affine::of(atom({Unknown::clamp, {}, number, 1}));
}

Affine Numbers::steps(const Affine& distance, std::int64_t step) { return quotient(clamped(distance) + (step - 1), step); }

Affine Numbers::quotient(const Affine& dividend, std::int64_t divisor) {
  if (dividend.is_number()) return Affine::number(dividend.constant / divisor);
  Affine exact{dividend.constant / divisor, dividend.terms};
  bool divides = dividend.constant % divisor == 0;
  for (auto& [each, coefficient] : exact.terms) {
    divides = divides && coefficient % divisor == 0;
    coefficient /= divisor;
  }
  return divides ? exact : Affine::of(atom({Unknown::quotient, {}, dividend, divisor}));
}

const Affine& Numbers::of(ir::Value value) {
  if (!known_[value.index]) {
    Affine result = compute(value);
    memo_[value.index] = std::move(result);
    known_[value.index] = true;
  }
  return memo_[value.index];
}

Affine Numbers::compute(ir::Value value) {
  const ir::Definition& definition = f_.definition(value);
  const Affine unknown = Affine::of(value.index);
  if (!f_.type(value).is_scalar()) return unknown;
  if (!definition.operation) {
    const ir::OperationId loop = owner_[definition.block.index];
    if (!loop || definition.position != 0) return unknown;
    const std::int64_t stride = step(f_.operation(loop));
    return stride == 0 ? unknown : of(f_.operation(loop).operands[0]) + Affine::of(counter(loop)) * stride;
  }
  const ir::Operation& operation = f_.operation(definition.operation);
  auto operand = [&](std::size_t i) { return of(operation.operands[i]); };
  switch (operation.opcode) {
    case Opcode::constant:
      if (const auto* number = std::get_if<std::int64_t>(operation.attributes.find(AttributeName::value))) return Affine::number(*number);
      return unknown;
    case Opcode::add: return operand(0) + operand(1);
    case Opcode::sub: return operand(0) - operand(1);
    case Opcode::mul: {
      const Affine a = operand(0), b = operand(1);
      if (a.is_number()) return b * a.constant;
      return b.is_number() ? a * b.constant : unknown;
    }
    case Opcode::div: {
      const Affine divisor = operand(1);
      return divisor.is_number() && divisor.constant > 0 ? quotient(operand(0), divisor.constant) : unknown;
    }
    case Opcode::max: {
      const Affine a = operand(0), b = operand(1);
      if (b == Affine{}) return clamped(a);
      return a == Affine{} ? clamped(b) : unknown;
    }
    default: return unknown;
  }
}

Facts Numbers::when(ir::Value condition, bool holds) {
  const ir::Operation* operation = f_.defining(condition);
  if (!operation || operation->operands.size() != 2 || !f_.type(condition).is_scalar()) return {};
  if (operation->opcode == Opcode::bit_and && holds) {
    Facts both = when(operation->operands[0], true);
    for (Affine& fact : when(operation->operands[1], true)) both.push_back(std::move(fact));
    return both;
  }
  const ir::Type& type = f_.type(operation->operands[0]);
  if (!type.is_scalar() || !is_integer(type.element) || is_unsigned(type.element)) return {};
  const Affine a = of(operation->operands[0]), b = of(operation->operands[1]);
  switch (operation->opcode) {
    case Opcode::lt: return {holds ? b - a : a - b + 1};
    case Opcode::le: return {holds ? b - a + 1 : a - b};
    case Opcode::gt: return {holds ? a - b : b - a + 1};
    case Opcode::ge: return {holds ? a - b + 1 : b - a};
    case Opcode::eq: return holds ? Facts{a - b + 1, b - a + 1} : Facts{};
    case Opcode::ne: return holds ? Facts{} : Facts{a - b + 1, b - a + 1};
    default: return {};
  }
}

Affine Numbers::replaced(const Affine& number, Atom atom, const Affine& value) {
  Affine result = Affine::number(number.constant);
  for (const auto& [each, coefficient] : number.terms) {
    Affine term = each == atom ? value : Affine::of(each);
    if (const Unknown* what = unknown(each); what && (what->kind == Unknown::quotient || what->kind == Unknown::clamp)) {
      const Unknown old = *what;
      const Affine inner = replaced(old.dividend, atom, value);
      if (inner != old.dividend) term = old.kind == Unknown::clamp ? clamped(inner) : quotient(inner, old.divisor);
    }
    result = result + term * coefficient;
  }
  return result;
}

std::int64_t Numbers::distance(const Affine& a, const Affine& b, std::int64_t modulus) {
  const Affine difference = a - b;
  for (const auto& [each, coefficient] : difference.terms) {
    if (coefficient % modulus != 0) return -1;
  }
  return (difference.constant % modulus + modulus) % modulus;
}

bool Numbers::differ(const Affine& a, const Affine& b, std::int64_t modulus) { return distance(a, b, modulus) > 0; }

Atom Numbers::counter_of(ir::OperationId loop) const {
  const auto at = std::find(unknowns_.begin(), unknowns_.end(), Unknown{Unknown::counter, loop});
  return at == unknowns_.end() ? ir::none : static_cast<Atom>(f_.value_count()) + static_cast<Atom>(at - unknowns_.begin());
}

bool Numbers::is_inside(ir::BlockId block, ir::OperationId loop) const {
  while (const ir::OperationId owner = owner_[block.index]) {
    if (owner == loop) return true;
    block = block_of_[owner.index];
  }
  return false;
}

bool Numbers::depends_on_body(const Affine& number, ir::OperationId loop) const {
  return std::any_of(number.terms.begin(), number.terms.end(), [&](const auto& term) {
    if (term.first < f_.value_count()) return is_inside(f_.definition(ir::Value{term.first}).block, loop);
    const Unknown& unknown = unknowns_[term.first - f_.value_count()];
    if (unknown.kind == Unknown::quotient || unknown.kind == Unknown::clamp) {
      return unknown.dividend != unknown.dividend.with(counter_of(loop), {}) || depends_on_body(unknown.dividend, loop);
    }
    return unknown.loop != loop && is_inside(block_of_[unknown.loop.index], loop);
  });
}

std::string Numbers::text(const Affine& number) const {
  std::string result;
  auto add = [&](std::int64_t coefficient, const std::string& word) {
    if (!result.empty() || coefficient < 0) result += result.empty() ? "-" : coefficient < 0 ? " - " : " + ";
    const std::int64_t size = coefficient < 0 ? -coefficient : coefficient;
    if (size != 1 || word.empty()) result += std::to_string(size) + (word.empty() ? "" : " ");
    result += word;
  };
  for (const auto& [each, coefficient] : number.terms) {
    std::string word = "%" + std::to_string(each);
    if (each >= f_.value_count()) {
      const Unknown& unknown = unknowns_[each - f_.value_count()];
      word = unknown.kind == Unknown::counter ? "n" : unknown.kind == Unknown::trips ? "trips" : unknown.kind == Unknown::clamp ? "max(" + text(unknown.dividend) + ", 0)" :
                                                                                                "(" + text(unknown.dividend) + ") / " + std::to_string(unknown.divisor);
    }
    add(coefficient, word);
  }
  if (number.constant != 0 || result.empty()) add(number.constant, "");
  return result;
}

}  // namespace flextile::backend
