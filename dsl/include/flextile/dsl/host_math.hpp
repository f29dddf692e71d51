// Element-wise operations on plain numbers, with the meaning that the compiled form has: integers wrap, division
// truncates, min and max return the other operand where one is NaN.
#pragma once
#include <flextile/dsl/static_type.hpp>
#include <flextile/ir/error.hpp>
#include <type_traits>

namespace flextile::host {

template <class T>
constexpr bool is_double = sizeof(T) > sizeof(float);

template <Opcode opcode, class T>
T unary(T x) {
  if constexpr (opcode == Opcode::neg) {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
  } else if constexpr (opcode == Opcode::bit_not) {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  } else if constexpr (opcode == Opcode::abs) {
    if constexpr (std::is_floating_point_v<T>)
      return is_double<T> ? static_cast<T>(__builtin_fabs(x)) : static_cast<T>(__builtin_fabsf(x));
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? unary<Opcode::neg>(x) : x;
    else
      return x;
  } else if constexpr (is_double<T>) {
    if constexpr (opcode == Opcode::ceil)
      return __builtin_ceil(x);
    else if constexpr (opcode == Opcode::floor)
      return __builtin_floor(x);
    else if constexpr (opcode == Opcode::round)
      return __builtin_rint(x);
    else if constexpr (opcode == Opcode::trunc)
      return __builtin_trunc(x);
    else if constexpr (opcode == Opcode::sqrt)
      return __builtin_sqrt(x);
    else if constexpr (opcode == Opcode::rsqrt)
      return 1 / __builtin_sqrt(x);
    else if constexpr (opcode == Opcode::exp)
      return __builtin_exp(x);
    else if constexpr (opcode == Opcode::exp2)
      return __builtin_exp2(x);
    else if constexpr (opcode == Opcode::log)
      return __builtin_log(x);
    else if constexpr (opcode == Opcode::log2)
      return __builtin_log2(x);
    else if constexpr (opcode == Opcode::sin)
      return __builtin_sin(x);
    else if constexpr (opcode == Opcode::cos)
      return __builtin_cos(x);
    else if constexpr (opcode == Opcode::tanh)
      return __builtin_tanh(x);
    else
      return __builtin_erf(x);
  } else {
    if constexpr (opcode == Opcode::ceil)
      return __builtin_ceilf(x);
    else if constexpr (opcode == Opcode::floor)
      return __builtin_floorf(x);
    else if constexpr (opcode == Opcode::round)
      return __builtin_rintf(x);
    else if constexpr (opcode == Opcode::trunc)
      return __builtin_truncf(x);
    else if constexpr (opcode == Opcode::sqrt)
      return __builtin_sqrtf(x);
    else if constexpr (opcode == Opcode::rsqrt)
      return 1 / __builtin_sqrtf(x);
    else if constexpr (opcode == Opcode::exp)
      return __builtin_expf(x);
    else if constexpr (opcode == Opcode::exp2)
      return __builtin_exp2f(x);
    else if constexpr (opcode == Opcode::log)
      return __builtin_logf(x);
    else if constexpr (opcode == Opcode::log2)
      return __builtin_log2f(x);
    else if constexpr (opcode == Opcode::sin)
      return __builtin_sinf(x);
    else if constexpr (opcode == Opcode::cos)
      return __builtin_cosf(x);
    else if constexpr (opcode == Opcode::tanh)
      return __builtin_tanhf(x);
    else
      return __builtin_erff(x);
  }
}

/// Arithmetic of integers as the machine does it: without undefined overflow.
template <Opcode opcode, class T>
T integer(T a, T b) {
  using Wide = std::conditional_t<(sizeof(T) < 8), unsigned, unsigned long long>;
  constexpr T width = static_cast<T>(sizeof(T) * 8);
  if constexpr (opcode == Opcode::add)
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  else if constexpr (opcode == Opcode::sub)
    return static_cast<T>(static_cast<Wide>(a) - static_cast<Wide>(b));
  else if constexpr (opcode == Opcode::mul)
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  else if constexpr (opcode == Opcode::shl)
    return b >= 0 && b < width ? static_cast<T>(static_cast<Wide>(a) << b) : T{0};
  else if constexpr (opcode == Opcode::shr)
    return b >= 0 && b < width ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
  else {
    if (b == 0) throw ArgumentError("flextile: [" + std::string(ir::name(opcode)) + "] " + std::to_string(a) + " is divided by 0: the divisor of an integer must not be 0");
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return opcode == Opcode::div ? unary<Opcode::neg>(a) : T{0};
    }
    return static_cast<T>(opcode == Opcode::div ? a / b : a % b);
  }
}

/// Comparisons give bool; everything else T.
template <Opcode opcode, class T>
auto binary(T a, T b) {
  if constexpr (opcode == Opcode::eq)
    return a == b;
  else if constexpr (opcode == Opcode::ne)
    return a != b;
  else if constexpr (opcode == Opcode::lt)
    return a < b;
  else if constexpr (opcode == Opcode::le)
    return a <= b;
  else if constexpr (opcode == Opcode::gt)
    return a > b;
  else if constexpr (opcode == Opcode::ge)
    return a >= b;
  else if constexpr (opcode == Opcode::min)
    return a != a || b < a ? b : a;
  else if constexpr (opcode == Opcode::max)
    return a != a || b > a ? b : a;
  else if constexpr (opcode == Opcode::bit_and)
    return static_cast<T>(a & b);
  else if constexpr (opcode == Opcode::bit_or)
    return static_cast<T>(a | b);
  else if constexpr (opcode == Opcode::bit_xor)
    return static_cast<T>(a ^ b);
  else if constexpr (opcode == Opcode::pow)
    return is_double<T> ? static_cast<T>(__builtin_pow(a, b)) : static_cast<T>(__builtin_powf(a, b));
  else if constexpr (!std::is_floating_point_v<T>)
    return integer<opcode>(a, b);
  else if constexpr (opcode == Opcode::add)
    return a + b;
  else if constexpr (opcode == Opcode::sub)
    return a - b;
  else if constexpr (opcode == Opcode::mul)
    return a * b;
  else if constexpr (opcode == Opcode::div)
    return a / b;
  else
    return is_double<T> ? static_cast<T>(__builtin_fmod(a, b)) : static_cast<T>(__builtin_fmodf(a, b));
}

template <class T>
T fma(T a, T b, T c) {
  return is_double<T> ? static_cast<T>(__builtin_fma(a, b, c)) : static_cast<T>(__builtin_fmaf(a, b, c));
}

/// Conversion as the compiled form does it; a float outside the integer's range gives the nearest end, NaN gives 0.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, bool>)
    return x != From{0};
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr To low = std::is_signed_v<To> ? static_cast<To>(std::make_unsigned_t<To>{1} << (sizeof(To) * 8 - 1)) : To{0};
    constexpr To high = static_cast<To>(~low);
    if (x != x) return To{0};
    if (x <= static_cast<From>(low)) return low;
    if (x >= static_cast<From>(high)) return high;
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace flextile::host
