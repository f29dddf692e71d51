#include "passes/fold.hpp"

#include <cmath>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed do not fold: always right

namespace flextile::backend {
namespace {

using ir::Opcode;

/// `value` cut to the width of `type` and extended again.
Element integer(ElementType type, std::uint64_t value) {
  const int unused = 64 - bit_width(type);
  const std::uint64_t high = value << unused;
  return {type, is_unsigned(type) ? static_cast<std::int64_t>(high >> unused) : static_cast<std::int64_t>(high) >> unused, 0};
}

/// `value` rounded to `type`; arithmetic in double on operands of f32 and narrower rounds as if done once.
Element real(ElementType type, double value) {
  switch (type) {
    case ElementType::f8e4m3: return {type, 0, static_cast<float>(f8e4m3(static_cast<float>(value)))};
    case ElementType::f8e5m2: return {type, 0, static_cast<float>(f8e5m2(static_cast<float>(value)))};
    case ElementType::f16: return {type, 0, static_cast<float>(f16(static_cast<float>(value)))};
    case ElementType::bf16: return {type, 0, static_cast<float>(bf16(static_cast<float>(value)))};
    case ElementType::f32: return {type, 0, static_cast<float>(value)};
    default: return {type, 0, value};
  }
}

Element truth(bool value) { return {ElementType::i1, value, 0}; }

template <class T> bool compare(Opcode opcode, T a, T b) {
  switch (opcode) {
    case Opcode::eq: return a == b;
    case Opcode::ne: return a != b;
    case Opcode::lt: return a < b;
    case Opcode::le: return a <= b;
    case Opcode::gt: return a > b;
    default: return a >= b;
  }
}

bool fold_integer(Opcode opcode, const Element& x, const Element& y, Element& folded) {
  const ElementType type = x.type;
  const bool without_sign = is_unsigned(type);
  const auto a = static_cast<std::uint64_t>(x.integer), b = static_cast<std::uint64_t>(y.integer);
  const bool less = without_sign ? a < b : x.integer < y.integer;
  const bool divides = b != 0 && (without_sign || y.integer != -1);
  const bool shifts = b < static_cast<std::uint64_t>(bit_width(type));
  if (ir::is_comparison(opcode)) {
    folded = truth(without_sign ? compare(opcode, a, b) : compare(opcode, x.integer, y.integer));
    return true;
  }
  switch (opcode) {
    case Opcode::neg: folded = integer(type, 0 - a); return true;
    case Opcode::unlikely: folded = x; return true;
    case Opcode::bit_not: folded = integer(type, ~a); return true;
    case Opcode::abs: folded = integer(type, !without_sign && x.integer < 0 ? 0 - a : a); return true;
    case Opcode::add: folded = integer(type, a + b); return true;
    case Opcode::sub: folded = integer(type, a - b); return true;
    case Opcode::mul: folded = integer(type, a * b); return true;
    case Opcode::div:
      if (divides) folded = integer(type, without_sign ? a / b : static_cast<std::uint64_t>(x.integer / y.integer));
      return divides;
    case Opcode::rem:
      if (divides) folded = integer(type, without_sign ? a % b : static_cast<std::uint64_t>(x.integer % y.integer));
      return divides;
    case Opcode::min: folded = less ? x : y; return true;
    case Opcode::max: folded = less ? y : x; return true;
    case Opcode::bit_and: folded = integer(type, a & b); return true;
    case Opcode::bit_or: folded = integer(type, a | b); return true;
    case Opcode::bit_xor: folded = integer(type, a ^ b); return true;
    case Opcode::shl:
      if (shifts) folded = integer(type, a << b);
      return shifts;
    case Opcode::shr:
      if (shifts) folded = integer(type, without_sign ? a >> b : static_cast<std::uint64_t>(x.integer >> b));
      return shifts;
    default: return false;
  }
}

bool fold_real(Opcode opcode, const Element& x, const Element& y, Element& folded) {
  const ElementType type = x.type;
  if (ir::is_comparison(opcode)) {
    folded = truth(compare(opcode, x.real, y.real));
    return true;
  }
  switch (opcode) {
    case Opcode::neg: folded = real(type, -x.real); return true;
    case Opcode::abs: folded = real(type, std::fabs(x.real)); return true;
    case Opcode::ceil: folded = real(type, std::ceil(x.real)); return true;
    case Opcode::floor: folded = real(type, std::floor(x.real)); return true;
    case Opcode::round: folded = real(type, x.real - std::remainder(x.real, 1.0)); return std::isfinite(x.real) && folded.real != 0;
    case Opcode::trunc: folded = real(type, std::trunc(x.real)); return true;
    case Opcode::add: folded = real(type, x.real + y.real); return true;
    case Opcode::sub: folded = real(type, x.real - y.real); return true;
    case Opcode::mul: folded = real(type, x.real * y.real); return true;
    case Opcode::div: folded = real(type, x.real / y.real); return y.real != 0;
    // fmin and fmax give the other operand where one is NaN; of 0 and -0 either may come.
    case Opcode::min: folded = real(type, std::fmin(x.real, y.real)); return folded.real != 0;
    case Opcode::max: folded = real(type, std::fmax(x.real, y.real)); return folded.real != 0;
    default: return false;
  }
}

bool fold_cast(const Element& x, ElementType to, Element& folded) {
  if (to == ElementType::i1) {
    folded = truth(is_float(x.type) ? x.real != 0 : x.integer != 0);
    return true;
  }
  if (!is_float(x.type)) {
    if (!is_float(to)) {
      folded = integer(to, static_cast<std::uint64_t>(x.integer));
      return true;
    }
    const bool without_sign = x.type == ElementType::u64;
    const double value = without_sign ? static_cast<double>(static_cast<std::uint64_t>(x.integer)) : static_cast<double>(x.integer);
    folded = real(to, value);
    return std::fabs(value) <= 0x1p24;                     // exact in f32 and in f64, so that the last rounding is the only one
  }
  if (is_float(to)) {
    folded = real(to, x.real);
    const bool once = to == ElementType::f64 || to == ElementType::f32 || x.real == static_cast<float>(x.real);
    return once || std::isnan(x.real);
  }
  const double limit = std::ldexp(1.0, bit_width(to) - (is_unsigned(to) ? 0 : 1));
  const double value = std::trunc(x.real);
  if (!(value < limit && value >= (is_unsigned(to) ? 0 : -limit))) return false;
  folded = integer(to, is_unsigned(to) ? static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  return true;
}

bool fold_fma(const Element& a, const Element& b, const Element& c, Element& folded) {
  if (a.type == ElementType::f64) folded = {a.type, 0, std::fma(a.real, b.real, c.real)};
  if (a.type == ElementType::f32) {
    folded = {a.type, 0, std::fma(static_cast<float>(a.real), static_cast<float>(b.real), static_cast<float>(c.real))};
  }
  return a.type == ElementType::f64 || a.type == ElementType::f32;
}

}  // namespace

bool fold(ir::Opcode opcode, ElementType result, const Element* operands, Element& folded) {
  if (opcode == Opcode::cast) return fold_cast(operands[0], result, folded);
  if (opcode == Opcode::bitcast || opcode == Opcode::offset) return false;
  if (opcode == Opcode::fma) return fold_fma(operands[0], operands[1], operands[2], folded);
  if (opcode == Opcode::select) {
    folded = operands[0].integer ? operands[1] : operands[2];
    return true;
  }
  const Element& second = ir::operand_count(opcode) == 2 ? operands[1] : operands[0];
  if (is_float(operands[0].type)) return fold_real(opcode, operands[0], second, folded);
  return fold_integer(opcode, operands[0], second, folded);
}

bool constant_element(const ir::Function& function, ir::Value value, Element& element) {
  const ir::Operation* operation = function.defining(value);
  if (!operation || operation->opcode != Opcode::constant) return false;
  element.type = function.type(value).element;
  element.integer = is_float(element.type) ? 0 : operation->attributes.integer(ir::AttributeName::value);
  element.real = is_float(element.type) ? real(element.type, operation->attributes.number(ir::AttributeName::value)).real : 0;
  return true;
}

ir::AttributeValue attribute(const Element& element) {
  if (is_float(element.type)) return element.real;
  return element.integer;
}

bool holds_every(ElementType to, ElementType from) {
  if (to == from || from == ElementType::i1) return true;
  if (to == ElementType::i1) return false;
  if (is_float(to)) {
    const int precision = to == ElementType::f64 ? 53 : to == ElementType::f32 ? 24 : to == ElementType::f16 ? 11 : to == ElementType::bf16 ? 8 : to == ElementType::f8e4m3 ? 4 : 3;
    if (!is_float(from)) return bit_width(from) - (is_unsigned(from) ? 0 : 1) <= precision && !(to == ElementType::f16 && bit_width(from) > 8);
    return bit_width(to) > bit_width(from);
  }
  if (is_float(from)) return false;
  if (is_unsigned(from) == is_unsigned(to)) return bit_width(to) >= bit_width(from);
  return is_unsigned(from) && bit_width(to) > bit_width(from);
}

}  // namespace flextile::backend
