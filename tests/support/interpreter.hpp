// Runs the tile IR one element after the other: slow, plain, and the meaning of every operation written down once more.
// Tests compare passes and back ends with it.
//
//   flextile::test::interpret(function, arguments, {{0, 0, 0}, {1, 1, 1}});      // arguments as HostEntry takes them
//
// Floats are kept as double and rounded to their element type after every operation; sums go from the first element to
// the last. Undefined results (division by zero, shifts past the width) are 0. There is one thread: barriers do nothing. Shared
// memory is rubbish until it is written, and asynchronous copies land no earlier than a wait demands, so a wrong ring shows.
#pragma once
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <flextile/backend/host_module.hpp>
#include <flextile/ir/function.hpp>

#include "tf32.hpp"

// Every switch here names the operations of one family; anything else is an error at run time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::test {

/// One element: `integer` for integers, i1 and addresses, `real` for floats.
struct Number {
  std::int64_t integer = 0;
  double real = 0;
};

/// What an IR value is while it is interpreted: one number per element of a tile; a view is base, sizes, strides.
struct Contents {
  std::vector<Number> elements;                     // tiles, pointers (addresses), one stage after the other of shared buffers
  std::uint64_t base = 0;
  std::vector<std::int64_t> sizes, strides;
};

/// `number` as the element type holds it.
inline Number rounded(ElementType element, Number number) {
  switch (element) {
    case ElementType::i1: return {number.integer & 1, 0};
    case ElementType::i8: return {static_cast<std::int8_t>(number.integer), 0};
    case ElementType::i16: return {static_cast<std::int16_t>(number.integer), 0};
    case ElementType::i32: return {static_cast<std::int32_t>(number.integer), 0};
    case ElementType::u8: return {static_cast<std::uint8_t>(number.integer), 0};
    case ElementType::u16: return {static_cast<std::uint16_t>(number.integer), 0};
    case ElementType::u32: return {static_cast<std::uint32_t>(number.integer), 0};
    case ElementType::i64:
    case ElementType::u64: return {number.integer, 0};
    case ElementType::f8e4m3: return {0, static_cast<float>(f8e4m3(static_cast<float>(number.real)))};
    case ElementType::f8e5m2: return {0, static_cast<float>(f8e5m2(static_cast<float>(number.real)))};
    case ElementType::f16: return {0, static_cast<float>(f16(static_cast<float>(number.real)))};
    case ElementType::bf16: return {0, static_cast<float>(bf16(static_cast<float>(number.real)))};
    case ElementType::f32: return {0, static_cast<float>(number.real)};
    case ElementType::f64: return {0, number.real};
  }
  return number;
}

/// The element at `address`, as it lies in memory.
inline Number read_element(ElementType element, std::uint64_t address) {
  const void* memory = reinterpret_cast<const void*>(address);
  auto as = [memory]<class T>(T value) {
    std::memcpy(&value, memory, sizeof value);
    return value;
  };
  switch (element) {
    case ElementType::i1: return {as(std::uint8_t{}) != 0, 0};
    case ElementType::i8: return {as(std::int8_t{}), 0};
    case ElementType::i16: return {as(std::int16_t{}), 0};
    case ElementType::i32: return {as(std::int32_t{}), 0};
    case ElementType::i64: return {as(std::int64_t{}), 0};
    case ElementType::u8: return {as(std::uint8_t{}), 0};
    case ElementType::u16: return {as(std::uint16_t{}), 0};
    case ElementType::u32: return {as(std::uint32_t{}), 0};
    case ElementType::u64: return {as(std::int64_t{}), 0};
    case ElementType::f8e4m3: return {0, static_cast<float>(as(f8e4m3{}))};
    case ElementType::f8e5m2: return {0, static_cast<float>(as(f8e5m2{}))};
    case ElementType::f16: return {0, static_cast<float>(as(f16{}))};
    case ElementType::bf16: return {0, static_cast<float>(as(bf16{}))};
    case ElementType::f32: return {0, as(float{})};
    case ElementType::f64: return {0, as(double{})};
  }
  return {};
}

inline void write_element(ElementType element, std::uint64_t address, Number number) {
  void* memory = reinterpret_cast<void*>(address);
  auto put = [memory](const auto& value) { std::memcpy(memory, &value, sizeof value); };
  switch (element) {
    case ElementType::f8e4m3: return put(f8e4m3(static_cast<float>(number.real)));
    case ElementType::f8e5m2: {   // an infinity that was read stays one: only a cast makes it the largest number
      f8e5m2 infinity;
      infinity.bits = number.real < 0 ? 0xfc : 0x7c;
      return put(std::isinf(number.real) ? infinity : f8e5m2(static_cast<float>(number.real)));
    }
    case ElementType::f16: return put(f16(static_cast<float>(number.real)));
    case ElementType::bf16: return put(bf16(static_cast<float>(number.real)));
    case ElementType::f32: return put(static_cast<float>(number.real));
    case ElementType::f64: return put(number.real);
    default: std::memcpy(memory, &number.integer, byte_size(element));   // little-endian: the low bytes come first
  }
}

/// Numeric conversion. Floats become integers toward zero, saturated, and 0 where they are NaN.
inline Number converted(ElementType from, ElementType to, Number number) {
  if (to == ElementType::i1) return {is_float(from) ? number.real != 0 : number.integer != 0, 0};
  if (is_float(to)) {
    if (is_float(from)) return rounded(to, number);
    if (from == ElementType::u64) {
      const auto value = static_cast<std::uint64_t>(number.integer);
      return rounded(to, {0, to == ElementType::f64 ? static_cast<double>(value) : static_cast<float>(value)});
    }
    return rounded(to, {0, to == ElementType::f64 ? static_cast<double>(number.integer) : static_cast<float>(number.integer)});
  }
  if (!is_float(from)) return rounded(to, number);
  const int bits = bit_width(to);
  if (std::isnan(number.real)) return {};
  const double value = std::trunc(number.real);
  if (is_unsigned(to)) {
    if (value <= 0) return {};
    if (value >= std::ldexp(1.0, bits)) return rounded(to, {-1, 0});
    return rounded(to, {static_cast<std::int64_t>(static_cast<std::uint64_t>(value)), 0});
  }
  if (value < -std::ldexp(1.0, bits - 1)) return {bits == 64 ? INT64_MIN : -(std::int64_t{1} << (bits - 1)), 0};
  if (value >= std::ldexp(1.0, bits - 1)) return {bits == 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1, 0};
  return {static_cast<std::int64_t>(value), 0};
}

inline Number reinterpreted(ElementType from, ElementType to, Number number) {
  std::uint64_t bits = 0;
  write_element(from, reinterpret_cast<std::uint64_t>(&bits), number);
  return read_element(to, reinterpret_cast<std::uint64_t>(&bits));
}

inline Number unary(ir::Opcode opcode, ElementType element, Number x) {
  using ir::Opcode;
  const double v = x.real;
  const bool real = is_float(element);
  auto number = [element](double value) { return rounded(element, {0, value}); };
  switch (opcode) {
    case Opcode::neg: return real ? Number{0, -v} : rounded(element, {static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x.integer)), 0});
    case Opcode::unlikely: return x;
    case Opcode::bit_not: return rounded(element, {~x.integer, 0});
    case Opcode::abs:
      if (real) return {0, std::fabs(v)};
      return is_unsigned(element) || x.integer >= 0 ? x : rounded(element, {static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x.integer)), 0});
    case Opcode::ceil: return number(std::ceil(v));
    case Opcode::floor: return number(std::floor(v));
    case Opcode::round: return number(std::nearbyint(v));
    case Opcode::trunc: return number(std::trunc(v));
    case Opcode::sqrt: return number(std::sqrt(v));
    case Opcode::rsqrt: return number(1 / std::sqrt(v));
    case Opcode::exp: return number(std::exp(v));
    case Opcode::exp2: return number(std::exp2(v));
    case Opcode::log: return number(std::log(v));
    case Opcode::log2: return number(std::log2(v));
    case Opcode::sin: return number(std::sin(v));
    case Opcode::cos: return number(std::cos(v));
    case Opcode::tanh: return number(std::tanh(v));
    case Opcode::erf: return number(std::erf(v));
    default: throw std::runtime_error("interpreter: no unary operation " + std::string(ir::name(opcode)));
  }
}

inline Number binary_real(ir::Opcode opcode, ElementType element, double a, double b) {
  using ir::Opcode;
  auto number = [element](double value) { return rounded(element, {0, value}); };
  switch (opcode) {
    case Opcode::add: return number(a + b);
    case Opcode::sub: return number(a - b);
    case Opcode::mul: return number(a * b);
    case Opcode::div: return number(a / b);
    case Opcode::rem: return number(std::fmod(a, b));
    case Opcode::min: return number(a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b));
    case Opcode::max: return number(a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b));
    case Opcode::pow: return number(std::pow(a, b));
    case Opcode::eq: return {a == b, 0};
    case Opcode::ne: return {a != b, 0};
    case Opcode::lt: return {a < b, 0};
    case Opcode::le: return {a <= b, 0};
    case Opcode::gt: return {a > b, 0};
    case Opcode::ge: return {a >= b, 0};
    default: throw std::runtime_error("interpreter: no binary operation " + std::string(ir::name(opcode)) + " of floats");
  }
}

/// `element` is the operands'.
inline Number binary_integer(ir::Opcode opcode, ElementType element, std::int64_t a, std::int64_t b) {
  using ir::Opcode;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  const bool unsigned_ = is_unsigned(element);
  const bool less = unsigned_ ? ua < ub : a < b;
  const bool overflow = !unsigned_ && b == -1;        // x / -1 is -x, without the processor's trap
  const bool too_far = ub >= static_cast<std::uint64_t>(bit_width(element));
  auto number = [element](std::uint64_t value) { return rounded(element, {static_cast<std::int64_t>(value), 0}); };
  switch (opcode) {
    case Opcode::add: return number(ua + ub);
    case Opcode::sub: return number(ua - ub);
    case Opcode::mul: return number(ua * ub);
    case Opcode::div: return number(b == 0 ? 0 : overflow ? 0 - ua : unsigned_ ? ua / ub : static_cast<std::uint64_t>(a / b));
    case Opcode::rem: return number(b == 0 || overflow ? 0 : unsigned_ ? ua % ub : static_cast<std::uint64_t>(a % b));
    case Opcode::min: return number(less ? ua : ub);
    case Opcode::max: return number(less ? ub : ua);
    case Opcode::bit_and: return number(ua & ub);
    case Opcode::bit_or: return number(ua | ub);
    case Opcode::bit_xor: return number(ua ^ ub);
    case Opcode::shl: return number(too_far ? 0 : ua << ub);
    case Opcode::shr: return number(too_far ? 0 : unsigned_ ? ua >> ub : static_cast<std::uint64_t>(a >> ub));
    case Opcode::eq: return {a == b, 0};
    case Opcode::ne: return {a != b, 0};
    case Opcode::lt: return {less, 0};
    case Opcode::le: return {less || a == b, 0};
    case Opcode::gt: return {!less && a != b, 0};
    case Opcode::ge: return {!less, 0};
    default: throw std::runtime_error("interpreter: no binary operation " + std::string(ir::name(opcode)) + " of integers");
  }
}

inline Number binary(ir::Opcode opcode, ElementType element, Number a, Number b) {
  return is_float(element) ? binary_real(opcode, element, a.real, b.real) : binary_integer(opcode, element, a.integer, b.integer);
}

/// a * b + c, rounded once.
inline Number fused(ElementType element, Number a, Number b, Number c) {
  if (element == ElementType::f64) return {0, std::fma(a.real, b.real, c.real)};
  return rounded(element, {0, std::fma(static_cast<float>(a.real), static_cast<float>(b.real), static_cast<float>(c.real))});
}

/// Runs one program; returns what return_ returns (nothing for kernels).
inline std::vector<Contents> interpret(const ir::Function& function, void* const* arguments, const HostProgram& program);
/// The same with the parameters' contents: for mods and other fragments.
inline std::vector<Contents> interpret(const ir::Function& function, std::vector<Contents> parameters, const HostProgram& program);

}  // namespace flextile::test

#pragma GCC diagnostic pop

#include "interpreter_run.hpp"
#include "interpreter_rings.hpp"
