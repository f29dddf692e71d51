#include "nvptx/access.hpp"

namespace flextile::backend {
namespace {

/// How an access of some bytes is spelt: `count` words of `bits`.
struct Words {
  int count;
  int bits;
  const char* constraint;
  std::string suffix;
};

Words words_of(int bytes) {
  switch (bytes) {
    case 1: return {1, 16, "h", ".b8"};      // a byte lives in a 16-bit register
    case 2: return {1, 16, "h", ".b16"};
    case 4: return {1, 32, "r", ".b32"};
    case 8: return {1, 64, "l", ".b64"};
    default: return {4, 32, "r", ".v4.b32"};
  }
}

std::string operand_list(int first, int count) {
  if (count == 1) return "$" + std::to_string(first);
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

/// Elements as words.
Registers pack(Lowering& l, const Registers& values, const Words& words, int bytes) {
  llvm::Type* unit = to_memory(l, values[0])->getType();
  const int run = static_cast<int>(values.size());
  llvm::Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(unit, run));
  for (int i = 0; i < run; ++i) vector = l.b.CreateInsertElement(vector, to_memory(l, values[i]), static_cast<std::uint64_t>(i));
  if (bytes == 1) return {l.b.CreateZExt(l.b.CreateBitCast(vector, l.b.getInt8Ty()), l.b.getInt16Ty())};
  llvm::Type* word = l.b.getIntNTy(words.bits);
  if (words.count == 1) return {l.b.CreateBitCast(vector, word)};
  llvm::Value* packed = l.b.CreateBitCast(vector, llvm::FixedVectorType::get(word, words.count));
  Registers result;
  for (int i = 0; i < words.count; ++i) result.push_back(l.b.CreateExtractElement(packed, static_cast<std::uint64_t>(i)));
  return result;
}

Registers unpack(Lowering& l, const Registers& packed, ElementType element, int run, const Words& words, int bytes) {
  llvm::Type* unit = element == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, element);
  auto* type = llvm::FixedVectorType::get(unit, run);
  llvm::Value* vector;
  if (bytes == 1) {
    vector = l.b.CreateBitCast(l.b.CreateTrunc(packed[0], l.b.getInt8Ty()), type);
  } else if (words.count == 1) {
    vector = l.b.CreateBitCast(packed[0], type);
  } else {
    llvm::Value* joined = llvm::PoisonValue::get(llvm::FixedVectorType::get(l.b.getIntNTy(words.bits), words.count));
    for (int i = 0; i < words.count; ++i) joined = l.b.CreateInsertElement(joined, packed[i], static_cast<std::uint64_t>(i));
    vector = l.b.CreateBitCast(joined, type);
  }
  Registers result;
  for (int i = 0; i < run; ++i) result.push_back(from_memory(l, l.b.CreateExtractElement(vector, static_cast<std::uint64_t>(i)), element));
  return result;
}

std::string cache_suffix(std::string_view cache) { return cache.empty() ? "" : "." + std::string(cache); }

}  // namespace

llvm::Value* both(Lowering& l, llvm::Value* a, llvm::Value* b) { return !a ? b : !b ? a : l.b.CreateAnd(a, b); }

Registers load_run(Lowering& l, llvm::Value* address, ElementType element, int run, llvm::Value* predicate, const Registers& other, std::string_view cache) {
  const int bytes = run * byte_size(element);
  llvm::Type* unit = element == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, element);
  if (!predicate && cache.empty()) {
    llvm::Type* type = run == 1 ? unit : llvm::FixedVectorType::get(unit, run);
    llvm::Value* loaded = l.b.CreateAlignedLoad(type, address, llvm::Align(bytes));
    Registers result;
    for (int i = 0; i < run; ++i) result.push_back(from_memory(l, run == 1 ? loaded : l.b.CreateExtractElement(loaded, static_cast<std::uint64_t>(i)), element));
    return result;
  }
  const Words words = words_of(bytes);
  Registers start = other;
  if (start.empty()) start.assign(run, llvm::Constant::getNullValue(element_type(l, element)));
  Registers arguments{predicate ? predicate : l.b.getTrue(), address};
  for (llvm::Value* word : pack(l, start, words, bytes)) arguments.push_back(word);
  std::string constraints;
  for (int i = 0; i < words.count; ++i) constraints += std::string("=") + words.constraint + ",";
  constraints += "b,l";
  for (int i = 0; i < words.count; ++i) constraints += "," + std::to_string(i);
  const std::string text = "@$" + std::to_string(words.count) + " ld.global" + cache_suffix(cache) + words.suffix + " " + operand_list(0, words.count) + ", [$" +
                           std::to_string(words.count + 1) + "];";
  llvm::Type* word = l.b.getIntNTy(words.bits);
  llvm::Type* type = words.count == 1 ? word : llvm::StructType::get(l.b.getContext(), std::vector<llvm::Type*>(words.count, word));
  llvm::Value* loaded = assembly(l, type, text, constraints, arguments, true);
  Registers packed;
  for (int i = 0; i < words.count; ++i) packed.push_back(words.count == 1 ? loaded : l.b.CreateExtractValue(loaded, static_cast<unsigned>(i)));
  return unpack(l, packed, element, run, words, bytes);
}

void store_run(Lowering& l, llvm::Value* address, ElementType element, const Registers& values, llvm::Value* predicate, std::string_view cache) {
  const int run = static_cast<int>(values.size()), bytes = run * byte_size(element);
  if (!predicate && cache.empty()) {
    llvm::Value* value = to_memory(l, values[0]);
    if (run > 1) {
      llvm::Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(value->getType(), run));
      for (int i = 0; i < run; ++i) vector = l.b.CreateInsertElement(vector, to_memory(l, values[i]), static_cast<std::uint64_t>(i));
      value = vector;
    }
    l.b.CreateAlignedStore(value, address, llvm::Align(bytes));
    return;
  }
  const Words words = words_of(bytes);
  Registers arguments{predicate ? predicate : l.b.getTrue(), address};
  for (llvm::Value* word : pack(l, values, words, bytes)) arguments.push_back(word);
  std::string constraints = "b,l";
  for (int i = 0; i < words.count; ++i) constraints += std::string(",") + words.constraint;
  assembly(l, l.b.getVoidTy(), "@$0 st.global" + cache_suffix(cache) + words.suffix + " [$1], " + operand_list(2, words.count) + ";", constraints, arguments, true);
}

}  // namespace flextile::backend
