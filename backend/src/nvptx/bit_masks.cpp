#include "nvptx/bit_masks.hpp"

#include <algorithm>
#include <map>

#include "nvptx/exact_sums.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // operations that are not listed keep their predicates

namespace flextile::backend {
namespace {

using ir::Opcode;
using llvm::Value;

constexpr int least_registers = 16;   // fewer predicates are quicker than words
constexpr int word_bits = 32;

int word_count(const std::vector<BitPlace>& places) {
  int words = 0;
  for (const BitPlace& place : places) words = std::max(words, place.word + 1);
  return words;
}

/// left - right, without wrapping to the other side of any number.
Value* difference(Lowering& l, Value* left, Value* right) {
  if (!right) return left;
  if (!left) left = l.b.getInt32(0);
  if (is_position(l, left) && is_position(l, right)) return l.b.CreateSub(left, right);
  return pure_assembly(l, l.b.getInt32Ty(), "sub.sat.s32 $0, $1, $2;", "=r,r,r", {left, right});
}

/// Numbers of a word's columns: pairs of neighbours, `step` from one pair to the next, upwards.
bool counts_in_pairs(const std::vector<std::int64_t>& numbers, std::int64_t& step) {
  if (numbers.size() < 4) return false;
  step = numbers[2] - numbers[0];
  if (step < 2 || (step & (step - 1)) != 0) return false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != numbers[0] + step * static_cast<std::int64_t>(i / 2) + static_cast<std::int64_t>(i % 2)) return false;
  }
  return true;
}

/// A bit for each column whose number is at most `limit`.
Value* columns_up_to(Lowering& l, Value* limit, const std::vector<std::int64_t>& numbers, std::int64_t step) {
  llvm::Type* type = l.b.getInt32Ty();
  auto integer = [&](std::int64_t value) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true); };
  Value* near = call(l, llvm::Intrinsic::smax, {limit, integer(numbers.front() - 1)}, {type});
  near = call(l, llvm::Intrinsic::smin, {near, integer(numbers.back())}, {type});
  Value* beyond = l.b.CreateSub(near, integer(numbers.front()));                     // -1: before all of them
  Value* pairs = l.b.CreateAShr(beyond, static_cast<std::uint64_t>(llvm::Log2_64(static_cast<std::uint64_t>(step))));
  Value* in_pair = call(l, llvm::Intrinsic::umin, {l.b.CreateAnd(beyond, integer(step - 1)), integer(1)}, {type});
  Value* count = l.b.CreateAdd(l.b.CreateAdd(l.b.CreateShl(pairs, 1), in_pair), integer(1));
  return pure_assembly(l, type, "bmsk.clamp.b32 $0, 0, $1;", "=r,r", {count});
}

Opcode mirrored(Opcode opcode) {
  switch (opcode) {
    case Opcode::lt: return Opcode::gt;
    case Opcode::le: return Opcode::ge;
    case Opcode::gt: return Opcode::lt;
    default: return Opcode::le;
  }
}

/// The word of registers `columns`; null where they do not count up.
Value* compare_word(Lowering& l, Opcode opcode, const Registers& a, const Registers& b, const std::vector<int>& columns) {
  std::vector<std::int64_t> numbers;
  Value *left = nullptr, *right = nullptr;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Value *x = a[static_cast<std::size_t>(columns[i])], *y = b[static_cast<std::size_t>(columns[i])];
    if (!is_exact(l, x) || !is_exact(l, y)) return nullptr;
    const WithNumber first = split_number(x), second = split_number(y);
    if (i == 0) left = first.rest, right = second.rest;
    if (first.rest != left || second.rest != right) return nullptr;
    numbers.push_back(second.value() - first.value());
  }
  if (numbers.back() < numbers.front()) {
    std::swap(left, right);
    for (std::int64_t& number : numbers) number = -number;
    opcode = mirrored(opcode);
  }
  // left >= right + number: the numbers up to left - right.
  const bool strict = opcode == Opcode::gt || opcode == Opcode::le, negated = opcode == Opcode::lt || opcode == Opcode::le;
  if (strict) {
    for (std::int64_t& number : numbers) ++number;
  }
  // Near the ends of i32 a difference that was cut off there would not tell.
  constexpr std::int64_t far = std::int64_t{1} << 30;
  std::int64_t step = 0;
  if (!counts_in_pairs(numbers, step) || numbers.front() < -far || numbers.back() > far) return nullptr;
  Value* word = columns_up_to(l, difference(l, left, right), numbers, step);
  return negated ? l.b.CreateNot(word) : word;
}

/// Registers of each word, in the order of their bits.
std::vector<std::vector<int>> columns_of_words(const std::vector<BitPlace>& places) {
  std::vector<std::vector<int>> columns(static_cast<std::size_t>(word_count(places)));
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto& word = columns[static_cast<std::size_t>(places[i].word)];
    word.resize(std::max(word.size(), static_cast<std::size_t>(places[i].bit) + 1));
    word[static_cast<std::size_t>(places[i].bit)] = static_cast<int>(i);
  }
  return columns;
}

bool compare_to_bits(Lowering& l, const ir::Operation& operation) {
  if (l.type(operation.operands[0]).element != ElementType::i32) return false;
  const std::vector<BitPlace> places = bit_places(l, operation.results[0]);
  Registers words;
  for (const std::vector<int>& columns : columns_of_words(places)) {
    words.push_back(compare_word(l, operation.opcode, l.of(operation.operands[0]), l.of(operation.operands[1]), columns));
    if (!words.back()) return false;
  }
  if (words.empty()) return false;
  l.bits[operation.results[0].index] = std::move(words);
  return true;
}

/// One instruction a register: the word takes its bit under the predicate.
Registers pack(Lowering& l, const Registers& conditions, const std::vector<BitPlace>& places) {
  Registers words(static_cast<std::size_t>(word_count(places)), l.b.getInt32(0));
  for (std::size_t i = 0; i < places.size(); ++i) {
    Value*& word = words[static_cast<std::size_t>(places[i].word)];
    const std::string bit = std::to_string(std::uint32_t{1} << places[i].bit);
    word = pure_assembly(l, l.b.getInt32Ty(), "@$2 or.b32 $0, $0, " + bit + ";", "=r,0,b", {word, conditions[i]});
  }
  return words;
}

bool logic_to_bits(Lowering& l, const ir::Operation& operation) {
  const std::vector<ir::Value>& operands = operation.operands;
  if (std::none_of(operands.begin(), operands.end(), [&](ir::Value x) { return l.bits.contains(x.index); })) return false;
  const std::vector<BitPlace> places = bit_places(l, operation.results[0]);
  std::vector<Registers> words;
  for (ir::Value operand : operands) {
    const auto known = l.bits.find(operand.index);
    words.push_back(known != l.bits.end() ? known->second : pack(l, l.of(operand), places));
  }
  Registers& result = l.bits[operation.results[0].index];
  for (std::size_t i = 0; i < words[0].size(); ++i) {
    switch (operation.opcode) {
      case Opcode::bit_and: result.push_back(l.b.CreateAnd(words[0][i], words[1][i])); break;
      case Opcode::bit_or: result.push_back(l.b.CreateOr(words[0][i], words[1][i])); break;
      case Opcode::bit_xor: result.push_back(l.b.CreateXor(words[0][i], words[1][i])); break;
      default: result.push_back(l.b.CreateNot(words[0][i]));
    }
  }
  return true;
}

}  // namespace

std::vector<BitPlace> bit_places(Lowering& l, ir::Value value) {
  const ir::Type& type = l.type(value);
  if (type.rank != 2 || type.element != ElementType::i1) return {};
  const Layout& layout = layout_of(l, value);
  const int count = register_count(layout);
  if (count < least_registers) return {};
  std::map<int, std::map<int, int>> rows;   // of each row, the register of each column
  for (int i = 0; i < count; ++i) {
    const Shape at = digit_offset(layout.registers, i, 2);
    rows[at[0]][at[1]] = i;
  }
  std::vector<BitPlace> places(static_cast<std::size_t>(count));
  int words = 0;
  for (const auto& [row, columns] : rows) {
    int bit = 0;
    for (const auto& [column, index] : columns) {
      if (bit == word_bits) ++words, bit = 0;
      places[static_cast<std::size_t>(index)] = {words, bit++};
    }
    ++words;
  }
  return words * 8 > count ? std::vector<BitPlace>{} : places;   // rows of few columns
}

bool lower_to_bits(Lowering& l, const ir::Operation& operation) {
  if (operation.attributes.integer(ir::AttributeName::bits) == 0) return false;
  bool done = false;
  switch (operation.opcode) {
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge: done = compare_to_bits(l, operation); break;
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::bit_not: done = logic_to_bits(l, operation); break;
    default: break;
  }
  if (done) l.of(operation.results[0]) = predicates(l, operation.results[0]);
  return done;
}

void keep_bits(Lowering& l, const ir::Operation& operation) {
  if (operation.attributes.integer(ir::AttributeName::bits) == 0) return;
  const std::vector<BitPlace> places = bit_places(l, operation.results[0]);
  if (places.empty()) return;
  l.bits[operation.results[0].index] = pack(l, l.of(operation.results[0]), places);
  l.of(operation.results[0]) = predicates(l, operation.results[0]);
}

void broadcast_bits(Lowering& l, const ir::Operation& operation, const std::vector<int>& sources) {
  const auto known = l.bits.find(operation.operands[0].index);
  if (known == l.bits.end()) return;
  const std::vector<BitPlace> from = bit_places(l, operation.operands[0]), to = bit_places(l, operation.results[0]);
  if (from.empty() || to.empty()) return;
  Registers words(static_cast<std::size_t>(word_count(to)));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const BitPlace& source = from[static_cast<std::size_t>(sources[i])];
    Value*& word = words[static_cast<std::size_t>(to[i].word)];
    Value* here = known->second[static_cast<std::size_t>(source.word)];
    if (source.bit != to[i].bit || (word && word != here)) return;
    word = here;
  }
  l.bits[operation.results[0].index] = std::move(words);
}

void fill_bits(Lowering& l, const ir::Operation& operation) {
  if (l.type(operation.results[0]).element != ElementType::i1) return;
  const int words = word_count(bit_places(l, operation.results[0]));
  if (words > 0) l.bits[operation.results[0].index].assign(static_cast<std::size_t>(words), l.b.CreateSExt(l.scalar(operation.operands[0]), l.b.getInt32Ty()));
}

Registers predicates(Lowering& l, ir::Value value) {
  const auto known = l.bits.find(value.index);
  if (known == l.bits.end()) return l.of(value);
  Registers result;
  for (const BitPlace& place : bit_places(l, value)) {
    Value* bit = l.b.CreateAnd(known->second[static_cast<std::size_t>(place.word)], l.b.getInt32(std::uint32_t{1} << place.bit));
    result.push_back(l.b.CreateICmpNE(bit, l.b.getInt32(0)));
  }
  return result;
}

}  // namespace flextile::backend
