// Math functions of f32 vectors as straight-line code; f64, pow and what else is rare go to the C library, lane by lane.
//
//   exp2, exp   2^n * p(f): n is the nearest integer, p a polynomial on |f| <= 1/2; two factors make 2^n, so that results
//               below the normal numbers are rounded once and results above become infinity
//   log, log2   x = m * 2^e with m in [sqrt(1/2), sqrt(2)), log(m) a polynomial
//   sin, cos    reduced by pi/2 in f64 (exact enough below 2^50), then a polynomial on |r| <= pi/4
//   tanh        odd polynomial below 0.625, else 1 - 2 / (e^2x + 1)
//   erf         odd polynomial below 1, else 1 - 2^q(x)
// Coefficients: Chebyshev fits, relative error below 5e-8 before rounding.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::Opcode;

namespace {

class VectorMath {
 public:
  VectorMath(Lowering& l, llvm::Value* x) : b_(l.builder), x_(x), floating_(x->getType()), integer_(same_shape(b_.getInt32Ty())) {}

  llvm::Value* exp2() {
    llvm::Value* x = clamp(x_, -160.0, 130.0);
    llvm::Value* shifted = add(x, number(rounder));
    llvm::Value* f = sub(x, sub(shifted, number(rounder)));
    llvm::Value* p = polynomial(f, {0.693147188, 0.2402265076, 0.05550357114, 0.009618082557, 0.001339086336, 0.0001545316295});
    return scale(fma(p, f, number(1.0)), shifted);
  }

  llvm::Value* exp() {
    llvm::Value* x = clamp(x_, -110.0, 90.0);
    llvm::Value* shifted = fma(x, number(1.44269504088896341), number(rounder));
    llvm::Value* n = sub(shifted, number(rounder));
    llvm::Value* r = fma(n, number(-0.693359375), x);
    r = fma(n, number(2.12194440e-4), r);
    llvm::Value* p = polynomial(r, {0.5, 0.1666657338, 0.04166655011, 0.008363773874, 0.001392692661});
    p = fma(p, mul(r, r), r);
    return scale(add(p, number(1.0)), shifted);
  }

  llvm::Value* log(bool base_two) {
    llvm::Value* tiny = b_.CreateFCmpOLT(x_, number(1.17549435e-38));
    llvm::Value* x = b_.CreateSelect(tiny, mul(x_, number(8388608.0)), x_);
    llvm::Value* bits = b_.CreateBitCast(x, integer_);
    // The exponent is taken so that the mantissa lies in [sqrt(1/2), sqrt(2)).
    llvm::Value* shifted = b_.CreateSub(bits, whole(0x3f3504f3));
    llvm::Value* exponent = b_.CreateAShr(shifted, whole(23));
    llvm::Value* mantissa = b_.CreateBitCast(b_.CreateAdd(b_.CreateAnd(shifted, whole(0x7fffff)), whole(0x3f3504f3)), floating_);
    llvm::Value* e = add(b_.CreateSIToFP(exponent, floating_), b_.CreateSelect(tiny, number(-23.0), number(0.0)));
    llvm::Value* t = sub(mantissa, number(1.0));
    llvm::Value* square = mul(t, t);
    llvm::Value* p = polynomial(t, {0.3333333118, -0.2499999696, 0.2000071575, -0.1666780232, 0.1424905765, -0.1242568733, 0.1168541992,
                                    -0.1147973385, 0.06971611471});
    llvm::Value* low = fma(number(-0.5), square, mul(mul(square, t), p));   // log(1 + t) = t + low
    llvm::Value* result = nullptr;
    if (base_two) {
      llvm::Value* rest = fma(low, number(1.44269504088896341), mul(t, number(0.44269504088896341)));
      result = add(e, add(t, rest));
    } else {
      low = fma(e, number(-2.12194440e-4), low);
      result = fma(e, number(0.693359375), add(t, low));
    }
    llvm::Value* infinity = number(std::numeric_limits<double>::infinity());
    result = b_.CreateSelect(b_.CreateFCmpOEQ(x_, infinity), infinity, result);
    result = b_.CreateSelect(b_.CreateFCmpOEQ(x_, number(0.0)), b_.CreateFNeg(infinity), result);
    return b_.CreateSelect(b_.CreateFCmpULT(x_, number(0.0)), number(std::numeric_limits<double>::quiet_NaN()), result);
  }

  llvm::Value* tanh(Lowering& l) {
    llvm::Value* size = absolute(x_);
    llvm::Value* square = mul(x_, x_);
    llvm::Value* p = polynomial(square, {-0.3333332894, 0.1333276974, -0.05385090958, 0.020997179, -0.006096714166});
    llvm::Value* small = fma(mul(p, square), x_, x_);
    llvm::Value* e = VectorMath(l, mul(size, number(2.88539008177792681))).exp2();
    llvm::Value* large = sub(number(1.0), b_.CreateFDiv(number(2.0), add(e, number(1.0))));
    return b_.CreateSelect(b_.CreateFCmpOLT(size, number(0.625)), small, with_sign_of(large, x_));
  }

  llvm::Value* erf(Lowering& l) {
    llvm::Value* size = absolute(x_);
    llvm::Value* small = mul(x_, polynomial(mul(x_, x_), {1.128379167, -0.3761263847, 0.112837825, -0.02686543073, 0.005221031808, -0.0008484080406,
                                                         0.0001126595903, -9.667044571e-6}));
    llvm::Value* q = polynomial(clamp(size, 0.0, 4.0), {0.0006006360978, -1.631219423, -0.9102728072, -0.1602185228, 0.03909634787, -0.007307173804,
                                                       0.0009894531814, -8.987752529e-5, 4.792177886e-6, -1.093949767e-7});
    llvm::Value* large = sub(number(1.0), VectorMath(l, q).exp2());
    return b_.CreateSelect(b_.CreateFCmpOLT(size, number(1.0)), small, with_sign_of(large, x_));
  }

  llvm::Value* sine(bool cosine) {
    llvm::Type* wide = same_shape(b_.getDoubleTy());
    llvm::Type* wide_bits = same_shape(b_.getInt64Ty());
    const auto constant = [&](double value) { return llvm::ConstantFP::get(wide, value); };
    llvm::Value* x = b_.CreateFPExt(x_, wide);
    llvm::Value* magic = constant(6755399441055744.0);             // 1.5 * 2^52
    llvm::Value* shifted = b_.CreateFAdd(b_.CreateFMul(x, constant(0.63661977236758134308)), magic);
    llvm::Value* n = b_.CreateFSub(shifted, magic);
    llvm::Value* r = fma(n, constant(-1.5707963267948966), x);
    r = fma(n, constant(-6.1232339957367658861e-17), r);
    r = clamp(b_.CreateFPTrunc(r, floating_), -1.0, 1.0);
    llvm::Value* quadrant = b_.CreateTrunc(b_.CreateBitCast(shifted, wide_bits), integer_);
    if (cosine) quadrant = b_.CreateAdd(quadrant, whole(1));
    llvm::Value* square = mul(r, r);
    llvm::Value* sin = fma(mul(polynomial(square, {-0.1666666666, 0.008333331786, -0.0001984003911, 2.724381198e-6}), square), r, r);
    llvm::Value* cos = polynomial(square, {0.04166666666, -0.00138888876, 2.480056063e-5, -2.729585634e-7});
    cos = fma(cos, mul(square, square), fma(square, number(-0.5), number(1.0)));
    llvm::Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, whole(1)), whole(0));
    llvm::Value* chosen = b_.CreateSelect(odd, cos, sin);
    llvm::Value* negative = b_.CreateShl(b_.CreateAnd(quadrant, whole(2)), 30);
    return b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(chosen, integer_), negative), floating_);
  }

 private:
  llvm::Type* same_shape(llvm::Type* element) const {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x_->getType());
    return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
  }
  llvm::Value* number(double value) { return llvm::ConstantFP::get(floating_, value); }
  llvm::Value* whole(std::uint32_t value) { return llvm::ConstantInt::get(integer_, value); }
  llvm::Value* add(llvm::Value* a, llvm::Value* b) { return b_.CreateFAdd(a, b); }
  llvm::Value* sub(llvm::Value* a, llvm::Value* b) { return b_.CreateFSub(a, b); }
  llvm::Value* mul(llvm::Value* a, llvm::Value* b) { return b_.CreateFMul(a, b); }
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) { return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c}); }
  llvm::Value* absolute(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

  /// NaN stays NaN.
  llvm::Value* clamp(llvm::Value* x, double low, double high) {
    x = b_.CreateSelect(b_.CreateFCmpOLT(x, number(low)), number(low), x);
    return b_.CreateSelect(b_.CreateFCmpOGT(x, number(high)), number(high), x);
  }

  llvm::Value* with_sign_of(llvm::Value* size, llvm::Value* sign) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, size, sign); }

  /// coefficients[0] + coefficients[1] x + ...
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> coefficients) {
    llvm::Value* sum = nullptr;
    for (auto it = std::rbegin(coefficients); it != std::rend(coefficients); ++it) sum = sum ? fma(sum, x, number(*it)) : number(*it);
    return sum;
  }

  /// Added to x, it rounds the fraction away (1.5 * 2^23) and leaves n + 254 in the low bits: both halves of that are
  /// biased exponents.
  static constexpr double rounder = 12582912.0 + 254;

  /// p * 2^n, for `shifted` = n + rounder.
  llvm::Value* scale(llvm::Value* p, llvm::Value* shifted) {
    llvm::Value* n = b_.CreateBitCast(shifted, integer_);
    llvm::Value* half = b_.CreateLShr(n, whole(1));
    auto power = [&](llvm::Value* exponent) { return b_.CreateBitCast(b_.CreateShl(exponent, whole(23)), floating_); };
    return mul(mul(p, power(half)), power(b_.CreateSub(n, half)));
  }

  llvm::IRBuilder<>& b_;
  llvm::Value* x_;
  llvm::Type* floating_;
  llvm::Type* integer_;
};

llvm::Value* library_call(Lowering& l, const char* name, llvm::Value* x) {
  llvm::IRBuilder<>& b = l.builder;
  llvm::Type* element = x->getType()->getScalarType();
  llvm::FunctionCallee callee = l.module.getOrInsertFunction(name, llvm::FunctionType::get(element, {element}, false));
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return b.CreateCall(callee, {x});
  llvm::Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    result = b.CreateInsertElement(result, b.CreateCall(callee, {b.CreateExtractElement(x, lane)}), lane);
  }
  return result;
}

struct Function {
  Opcode opcode;
  const char* f64_name;
};
constexpr Function functions[] = {{Opcode::exp, "exp"}, {Opcode::exp2, "exp2"}, {Opcode::log, "log"},   {Opcode::log2, "log2"},
                                  {Opcode::sin, "sin"}, {Opcode::cos, "cos"},   {Opcode::tanh, "tanh"}, {Opcode::erf, "erf"}};

}  // namespace

llvm::Value* emit_math(Lowering& l, Opcode opcode, llvm::Value* x) {
  if (x->getType()->getScalarType()->isDoubleTy()) {
    for (const Function& function : functions) {
      if (function.opcode == opcode) return library_call(l, function.f64_name, x);
    }
    return nullptr;
  }
  VectorMath math(l, x);
  if (opcode == Opcode::exp) return math.exp();
  if (opcode == Opcode::exp2) return math.exp2();
  if (opcode == Opcode::log) return math.log(false);
  if (opcode == Opcode::log2) return math.log(true);
  if (opcode == Opcode::sin) return math.sine(false);
  if (opcode == Opcode::cos) return math.sine(true);
  if (opcode == Opcode::tanh) return math.tanh(l);
  if (opcode == Opcode::erf) return math.erf(l);
  return nullptr;
}

}  // namespace flextile::backend::host
