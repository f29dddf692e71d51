// Elementary functions of f32 and f64 as LLVM IR of our own: no libdevice is needed. f32 uses the hardware's ex2 and lg2
// with a correction where their argument was rounded; f64 uses polynomials.
#include <cmath>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <flextile/ir/error.hpp>

#include "nvptx/lowering.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // only the functions that are listed come here

namespace flextile::backend {
namespace {

using ir::Opcode;
using llvm::Intrinsic::ID;

constexpr double ln_2 = 0.6931471805599453094;
constexpr double log2_e = 1.4426950408889634074;

/// Arithmetic on values of one type, so that formulas below read as formulas.
struct Arithmetic {
  Lowering& l;
  llvm::Type* type;

  llvm::Value* number(double value) const { return llvm::ConstantFP::get(type, value); }
  llvm::Value* unary(ID id, llvm::Value* x) const { return call(l, id, {x}, {type}); }
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) const { return call(l, llvm::Intrinsic::fma, {a, b, c}, {type}); }
  llvm::Value* mul(llvm::Value* a, llvm::Value* b) const { return l.b.CreateFMul(a, b); }
  llvm::Value* add(llvm::Value* a, llvm::Value* b) const { return l.b.CreateFAdd(a, b); }
  llvm::Value* sub(llvm::Value* a, llvm::Value* b) const { return l.b.CreateFSub(a, b); }
  llvm::Value* div(llvm::Value* a, llvm::Value* b) const { return divide_floats(l, a, b); }
  llvm::Value* less(llvm::Value* a, llvm::Value* b) const { return l.b.CreateFCmpOLT(a, b); }
  llvm::Value* choose(llvm::Value* c, llvm::Value* a, llvm::Value* b) const { return l.b.CreateSelect(c, a, b); }
  llvm::Value* abs(llvm::Value* x) const { return unary(llvm::Intrinsic::fabs, x); }
  llvm::Value* round(llvm::Value* x) const { return unary(llvm::Intrinsic::roundeven, x); }
  llvm::Value* with_sign(llvm::Value* x, llvm::Value* sign) const { return call(l, llvm::Intrinsic::copysign, {x, sign}, {type}); }
  /// c[0] + c[1] x + c[2] x² + ...
  llvm::Value* polynomial(llvm::Value* x, const std::vector<double>& c) const {
    llvm::Value* sum = number(c.back());
    for (std::size_t i = c.size() - 1; i-- > 0;) sum = fma(sum, x, number(c[i]));
    return sum;
  }
};

// ---- f64

/// 2^n for an integral n in [-1022, 1023] held as f64.
llvm::Value* power_of_two(const Arithmetic& m, llvm::Value* n) {
  llvm::IRBuilder<>& b = m.l.b;
  llvm::Value* exponent = b.CreateAdd(b.CreateFPToSI(n, b.getInt64Ty()), b.getInt64(1023));
  return b.CreateBitCast(b.CreateShl(exponent, b.getInt64(52)), m.type);
}

/// 2^(n + f): |f| <= 0.5. The scale is applied in two steps so that the ends of the range round rightly.
llvm::Value* scaled_power(const Arithmetic& m, llvm::Value* n, llvm::Value* f) {
  std::vector<double> coefficients;
  double term = 1;
  for (int i = 0; i < 15; ++i) {
    coefficients.push_back(term);
    term *= ln_2 / (i + 1);
  }
  llvm::Value* fraction = m.polynomial(f, coefficients);
  llvm::Value* half = m.unary(llvm::Intrinsic::floor, m.mul(n, m.number(0.5)));
  return m.mul(m.mul(fraction, power_of_two(m, half)), power_of_two(m, m.sub(n, half)));
}

llvm::Value* clamp(const Arithmetic& m, llvm::Value* x, double bound) {
  llvm::Value* low = m.choose(m.less(x, m.number(-bound)), m.number(-bound), x);   // NaN passes
  return m.choose(m.less(m.number(bound), low), m.number(bound), low);
}

llvm::Value* exp2_f64(const Arithmetic& m, llvm::Value* x) {
  llvm::Value* inside = clamp(m, x, 1100);
  llvm::Value* n = m.round(inside);
  llvm::Value* result = scaled_power(m, m.choose(m.l.b.CreateFCmpUNO(x, x), m.number(0), n), m.sub(inside, n));
  return result;
}

llvm::Value* exp_f64(const Arithmetic& m, llvm::Value* x) {
  llvm::Value* inside = clamp(m, x, 760);
  llvm::Value* n = m.round(m.mul(inside, m.number(log2_e)));
  llvm::Value* rest = m.fma(n, m.number(-6.93147180369123816490e-01), inside);   // ln 2 in two parts
  rest = m.fma(n, m.number(-1.90821492927058770002e-10), rest);
  return scaled_power(m, m.choose(m.l.b.CreateFCmpUNO(x, x), m.number(0), n), m.mul(rest, m.number(log2_e)));
}

/// ln of a positive finite number as exponent * ln 2 + ln(mantissa).
llvm::Value* log_f64(const Arithmetic& m, llvm::Value* x, bool base_2) {
  llvm::IRBuilder<>& b = m.l.b;
  llvm::Value* tiny = m.less(x, m.number(2.2250738585072014e-308));
  llvm::Value* normal = m.choose(tiny, m.mul(x, m.number(18014398509481984.0)), x);   // 2^54
  llvm::Value* bits = b.CreateBitCast(normal, b.getInt64Ty());
  llvm::Value* exponent = b.CreateSub(b.CreateAnd(b.CreateLShr(bits, b.getInt64(52)), b.getInt64(2047)), b.getInt64(1023));
  llvm::Value* mantissa = b.CreateBitCast(b.CreateOr(b.CreateAnd(bits, b.getInt64(0xfffffffffffff)), b.getInt64(1023LL << 52)), m.type);
  llvm::Value* high = m.less(m.number(1.4142135623730951), mantissa);
  mantissa = m.choose(high, m.mul(mantissa, m.number(0.5)), mantissa);
  exponent = b.CreateAdd(exponent, b.CreateSelect(high, b.getInt64(1), b.getInt64(0)));
  exponent = b.CreateSub(exponent, b.CreateSelect(tiny, b.getInt64(54), b.getInt64(0)));
  llvm::Value* s = m.div(m.sub(mantissa, m.number(1)), m.add(mantissa, m.number(1)));
  std::vector<double> coefficients;
  for (int i = 0; i < 12; ++i) coefficients.push_back(2.0 / (2 * i + 1));
  llvm::Value* ln = m.mul(s, m.polynomial(m.mul(s, s), coefficients));
  llvm::Value* e = b.CreateSIToFP(exponent, m.type);
  llvm::Value* result = base_2 ? m.fma(ln, m.number(log2_e), e) : m.fma(e, m.number(ln_2), ln);
  const double infinity = HUGE_VAL;
  result = m.choose(b.CreateFCmpOEQ(x, m.number(infinity)), x, result);
  result = m.choose(b.CreateFCmpOEQ(x, m.number(0)), m.number(-infinity), result);
  return m.choose(b.CreateFCmpULT(x, m.number(0)), m.number(NAN), result);   // negative or NaN
}

/// sin and cos: x = n π/2 + r, then a Taylor polynomial of r.
llvm::Value* sine_f64(const Arithmetic& m, llvm::Value* x, bool cosine) {
  llvm::IRBuilder<>& b = m.l.b;
  llvm::Value* n = m.round(m.mul(x, m.number(0.63661977236758134308)));
  llvm::Value* r = m.fma(n, m.number(-1.5707963267948965580), x);
  r = m.fma(n, m.number(-6.1232339957367660e-17), r);
  llvm::Value* quadrant = b.CreateAdd(call(m.l, llvm::Intrinsic::fptosi_sat, {n}, {b.getInt64Ty(), m.type}), b.getInt64(cosine ? 1 : 0));
  llvm::Value* square = m.mul(r, r);
  std::vector<double> of_sine, of_cosine;
  double term = 1;
  for (int i = 0; i < 18; ++i) {   // r^i / i! with alternating signs
    (i % 2 ? of_sine : of_cosine).push_back(i % 4 < 2 ? term : -term);
    term /= i + 1;
  }
  llvm::Value* sine = m.mul(r, m.polynomial(square, of_sine));
  llvm::Value* value = m.choose(b.CreateTrunc(quadrant, b.getInt1Ty()), m.polynomial(square, of_cosine), sine);
  llvm::Value* negative = b.CreateTrunc(b.CreateLShr(quadrant, b.getInt64(1)), b.getInt1Ty());
  return m.choose(negative, b.CreateFNeg(value), value);
}

/// erf x = 2/√π e^(-x²) Σ 2^i x^(2i+1) / (2i+1)!!, all terms positive.
llvm::Value* erf_f64(const Arithmetic& m, llvm::Value* x) {
  llvm::Value* inside = clamp(m, x, 6);
  llvm::Value* square = m.mul(inside, inside);
  std::vector<double> coefficients;
  double term = 1;
  for (int i = 0; i < 90; ++i) {
    coefficients.push_back(term);
    term *= 2.0 / (2 * i + 3);
  }
  llvm::Value* series = m.mul(m.mul(inside, m.number(1.1283791670955125739)), m.polynomial(square, coefficients));
  return m.mul(series, exp_f64(m, m.l.b.CreateFNeg(square)));
}

// ---- f32

llvm::Value* ex2(const Arithmetic& m, llvm::Value* x) { return call(m.l, llvm::Intrinsic::nvvm_ex2_approx_ftz, {x}, {m.type}); }

llvm::Value* exp_f32(const Arithmetic& m, llvm::Value* x) {
  llvm::Value* high = m.mul(x, m.number(log2_e));
  llvm::Value* low = m.fma(x, m.number(log2_e), m.l.b.CreateFNeg(high));
  low = m.fma(x, m.number(1.925963033500e-08), low);   // log2 e - f32(log2 e)
  low = m.choose(m.less(m.abs(high), m.number(200)), low, m.number(0));
  llvm::Value* power = ex2(m, high);
  return m.fma(power, m.mul(low, m.number(ln_2)), power);
}

llvm::Value* tanh_value(const Arithmetic& m, llvm::Value* x, llvm::Value* exp_of_twice) {
  llvm::Value* size = m.abs(x);
  llvm::Value* large = m.sub(m.number(1), m.div(m.number(2), m.add(exp_of_twice, m.number(1))));
  llvm::Value* square = m.mul(x, x);
  const std::vector<double> series = {1, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835, -1382.0 / 155925, 21844.0 / 6081075,
                                      -929569.0 / 638512875, 6404582.0 / 10854718875.0, -443861162.0 / 1856156927625.0};
  const std::size_t terms = m.type->isDoubleTy() ? series.size() : 6;
  llvm::Value* small = m.mul(size, m.polynomial(square, {series.begin(), series.begin() + terms}));
  const double border = m.type->isDoubleTy() ? 0.1 : 0.35;
  return m.with_sign(m.choose(m.less(size, m.number(border)), small, large), x);
}

llvm::Value* erf_f32(const Arithmetic& m, llvm::Value* x) {
  llvm::Value* size = m.abs(x);
  llvm::Value* square = m.mul(size, size);
  const std::vector<double> series = {1, -1.0 / 3, 1.0 / 10, -1.0 / 42, 1.0 / 216, -1.0 / 1320, 1.0 / 9360, -1.0 / 75600, 1.0 / 685440};
  llvm::Value* small = m.mul(m.mul(size, m.number(1.1283791670955126)), m.polynomial(square, series));
  // Abramowitz and Stegun 7.1.26: absolute error 1.5e-7.
  llvm::Value* t = m.div(m.number(1), m.fma(m.number(0.3275911), size, m.number(1)));
  llvm::Value* tail = m.mul(t, m.polynomial(t, {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429}));
  llvm::Value* large = m.sub(m.number(1), m.mul(tail, exp_f32(m, m.l.b.CreateFNeg(square))));
  return m.with_sign(m.choose(m.less(size, m.number(0.8)), small, large), x);
}

/// x^y for any signs, as C's pow defines it, in f64.
llvm::Value* pow_f64(const Arithmetic& m, llvm::Value* x, llvm::Value* y) {
  llvm::IRBuilder<>& b = m.l.b;
  llvm::Value* size = m.abs(x);
  llvm::Value* result = exp2_f64(m, m.mul(y, log_f64(m, size, true)));
  llvm::Value* whole = b.CreateFCmpOEQ(m.unary(llvm::Intrinsic::trunc, y), y);
  llvm::Value* halved = m.mul(y, m.number(0.5));
  llvm::Value* odd = b.CreateAnd(whole, b.CreateFCmpONE(m.unary(llvm::Intrinsic::trunc, halved), halved));
  llvm::Value* negative = m.less(x, m.number(0));
  result = m.choose(b.CreateAnd(negative, odd), b.CreateFNeg(result), result);
  result = m.choose(b.CreateAnd(negative, b.CreateNot(whole)), m.number(NAN), result);
  llvm::Value* one = b.CreateOr(b.CreateFCmpOEQ(y, m.number(0)), b.CreateFCmpOEQ(x, m.number(1)));
  return m.choose(one, m.number(1), result);
}

llvm::Value* of_f64(const Arithmetic& m, Opcode opcode, llvm::Value* x, llvm::Value* y) {
  switch (opcode) {
    case Opcode::exp: return exp_f64(m, x);
    case Opcode::exp2: return exp2_f64(m, x);
    case Opcode::log: return log_f64(m, x, false);
    case Opcode::log2: return log_f64(m, x, true);
    case Opcode::sin: return sine_f64(m, x, false);
    case Opcode::cos: return sine_f64(m, x, true);
    case Opcode::tanh: return tanh_value(m, x, exp_f64(m, m.mul(m.abs(x), m.number(2))));
    case Opcode::erf: return erf_f64(m, x);
    case Opcode::rsqrt: return m.div(m.number(1), m.unary(llvm::Intrinsic::sqrt, x));
    case Opcode::pow: return pow_f64(m, x, y);
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(opcode)) + "] has no lowering for f64");
  }
}

llvm::Value* of_f32(const Arithmetic& m, Opcode opcode, llvm::Value* x) {
  switch (opcode) {
    case Opcode::exp2: return ex2(m, x);
    case Opcode::exp: return exp_f32(m, x);
    case Opcode::log2: return call(m.l, llvm::Intrinsic::nvvm_lg2_approx_f, {x});
    case Opcode::log: return m.mul(call(m.l, llvm::Intrinsic::nvvm_lg2_approx_f, {x}), m.number(ln_2));
    case Opcode::tanh: return tanh_value(m, x, ex2(m, m.mul(m.abs(x), m.number(2 * log2_e))));
    case Opcode::erf: return erf_f32(m, x);
    case Opcode::rsqrt: return call(m.l, llvm::Intrinsic::nvvm_rsqrt_approx_f, {x});
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(opcode)) + "] has no lowering for f32");
  }
}

}  // namespace

llvm::Value* divide_floats(Lowering& l, llvm::Value* a, llvm::Value* b) {
  if (!a->getType()->isFloatTy()) return l.b.CreateFDiv(a, b);
  return call(l, llvm::Intrinsic::nvvm_div_full, {a, b});
}

llvm::Value* lower_math(Lowering& l, ir::Opcode opcode, llvm::Value* x, llvm::Value* y) {
  if (opcode == Opcode::rem) return l.b.CreateFRem(x, y);
  llvm::Type* f64 = l.b.getDoubleTy();
  const Arithmetic wide{l, f64};
  if (x->getType()->isDoubleTy()) return of_f64(wide, opcode, x, y);
  if (opcode == Opcode::sin || opcode == Opcode::cos || opcode == Opcode::pow) {   // arguments that f32 cannot reduce
    llvm::Value* result = of_f64(wide, opcode, l.b.CreateFPExt(x, f64), y ? l.b.CreateFPExt(y, f64) : nullptr);
    return l.b.CreateFPTrunc(result, l.b.getFloatTy());
  }
  return of_f32({l, l.b.getFloatTy()}, opcode, x);
}

}  // namespace flextile::backend
