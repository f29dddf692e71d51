// f8e4m3: sign, 4 bits of exponent (bias 7), 3 of mantissa. Moved up into an f32 they are the number times 2^-120.
// f8e5m2: sign, 5 bits of exponent (bias 15), 2 of mantissa: the upper half of an f16.
#include "llvm/float8.hpp"

namespace flextile::backend {
namespace {

constexpr int place_of_e4m3 = 20;                        // of its lowest bit in an f32
constexpr double scale_of_e4m3 = 0x1p120;
constexpr std::uint64_t sign_bit = 0x80000000u, nan_bits = 0x7fe00000u;

/// A type for as many lanes as `value` has.
llvm::Type* like(llvm::Type* element, const llvm::Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

llvm::Constant* number(llvm::IRBuilder<>& b, std::uint64_t bits, const llvm::Value* value) { return llvm::ConstantInt::get(like(b.getInt32Ty(), value), bits); }

}  // namespace

llvm::Value* float_of_float8(llvm::IRBuilder<>& b, ElementType element, llvm::Value* bits) {
  llvm::Type* f32 = like(b.getFloatTy(), bits);
  if (element == ElementType::f8e5m2) {
    llvm::Value* half = b.CreateShl(b.CreateZExt(bits, like(b.getInt16Ty(), bits)), 8);
    return b.CreateFPExt(b.CreateBitCast(half, like(b.getHalfTy(), bits)), f32);
  }
  llvm::Value* wide = b.CreateZExt(bits, like(b.getInt32Ty(), bits));
  llvm::Value* magnitude = b.CreateAnd(wide, number(b, 0x7f, bits));
  llvm::Value* sign = b.CreateShl(b.CreateAnd(wide, number(b, 0x80, bits)), 24);
  llvm::Value* scaled = b.CreateFMul(b.CreateBitCast(b.CreateShl(magnitude, place_of_e4m3), f32), llvm::ConstantFP::get(f32, scale_of_e4m3));
  llvm::Value* is_nan = b.CreateICmpEQ(magnitude, number(b, 0x7f, bits));
  llvm::Value* unsigned_bits = b.CreateSelect(is_nan, number(b, nan_bits, bits), b.CreateBitCast(scaled, wide->getType()));
  return b.CreateBitCast(b.CreateOr(unsigned_bits, sign), f32);
}

llvm::Value* float8_of_float(llvm::IRBuilder<>& b, ElementType element, llvm::Value* value) {
  llvm::Type* i8 = like(b.getInt8Ty(), value);
  if (element == ElementType::f8e5m2) {
    llvm::Value* half = b.CreateBitCast(b.CreateFPTrunc(value, like(b.getHalfTy(), value)), like(b.getInt16Ty(), value));
    return b.CreateTrunc(b.CreateLShr(half, 8), i8);
  }
  llvm::Value* bits = b.CreateBitCast(value, like(b.getInt32Ty(), value));
  llvm::Value* sign = b.CreateAnd(b.CreateLShr(bits, 24), number(b, 0x80, value));
  llvm::Value* magnitude = b.CreateBitCast(b.CreateAnd(bits, number(b, ~sign_bit & 0xffffffffu, value)), value->getType());
  llvm::Value* scaled = b.CreateFMul(magnitude, llvm::ConstantFP::get(value->getType(), 1 / scale_of_e4m3));
  llvm::Value* moved = b.CreateLShr(b.CreateBitCast(scaled, bits->getType()), place_of_e4m3);
  llvm::Value* chosen = b.CreateSelect(b.CreateFCmpUNO(value, value), number(b, 0x7f, value), moved);
  return b.CreateTrunc(b.CreateOr(chosen, sign), i8);
}

/// Normal numbers are rounded in their bits. Below them the format's numbers have one distance, as those of f32 have from a power of 2
/// on: adding that power rounds.
llvm::Value* round_to_float8(llvm::IRBuilder<>& b, ElementType element, llvm::Value* value) {
  const bool e4m3 = element == ElementType::f8e4m3;
  const int cut = e4m3 ? 20 : 21;
  const double most = e4m3 ? 448 : 57344, least_normal = e4m3 ? 0x1p-6 : 0x1p-14, power = e4m3 ? 0x1p14 : 0x1p7;
  llvm::Type* f32 = value->getType();
  auto real = [&](double x) { return llvm::ConstantFP::get(f32, x); };
  llvm::Value* bits = b.CreateBitCast(value, like(b.getInt32Ty(), value));
  llvm::Value* sign = b.CreateAnd(bits, number(b, sign_bit, value));
  llvm::Value* absolute = b.CreateBitCast(b.CreateAnd(bits, number(b, ~sign_bit & 0xffffffffu, value)), f32);
  llvm::Value* magnitude = b.CreateSelect(b.CreateFCmpOGT(absolute, real(most)), real(most), absolute);
  llvm::Value* whole = b.CreateBitCast(magnitude, bits->getType());
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(whole, static_cast<std::uint64_t>(cut)), number(b, 1, value));
  llvm::Value* up = b.CreateAdd(whole, b.CreateAdd(odd, number(b, (std::uint64_t{1} << (cut - 1)) - 1, value)));
  llvm::Value* normal = b.CreateAnd(up, number(b, 0xffffffffu << cut & 0xffffffffu, value));
  llvm::Value* small = b.CreateBitCast(b.CreateFSub(b.CreateFAdd(magnitude, real(power)), real(power)), bits->getType());
  llvm::Value* rounded = b.CreateSelect(b.CreateFCmpOLT(magnitude, real(least_normal)), small, normal);
  llvm::Value* result = b.CreateSelect(b.CreateFCmpUNO(value, value), number(b, nan_bits, value), b.CreateOr(rounded, sign));
  return b.CreateBitCast(result, f32);
}

}  // namespace flextile::backend
