// A dot as one batch of wgmma per 64 rows: every K step, issued together and waited for at once, or, where it is async, by
// a product_wait.
//
// Operands in shared memory are named by descriptors of their swizzled panels (SharedShape):
//   K is the last axis:      8 rows of 128 bytes are a group, groups follow at 1,024 bytes; a step of K is 32 bytes on
//   K is the first axis:     (B of 16-bit elements only) the panel's 64 columns are read transposed; a step of 16 elements of K is
//                            2,048 bytes on, the next 64 columns lie one panel further
//
// A step of K is 8 f32 (as tf32), 16 elements of 16 bits, 32 of 8 bits; sums are f32, or i32 of integers.
#include <algorithm>

#include "nvptx/wgmma.hpp"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "nvptx/matmul.hpp"
#include "nvptx/shared.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;

constexpr int row_bytes = 128;   // of a panel
constexpr const char* upper_word = "0x40000040";   // groups of 1,024 bytes, a swizzle of 128 bytes

llvm::Value* warpgroup(Lowering& l) { return l.b.CreateLShr(l.warp, l.b.getInt32(2)); }

/// The low word of an operand's descriptor, and how it moves.
struct Descriptor {
  llvm::Value* low = nullptr;
  int panel_units = 0;     // 16-byte units from panel to panel
  bool transposed = false;

  /// Units from the first K step to step `k`.
  int at(int k) const { return transposed ? 128 * k : k / 4 * panel_units + k % 4 * 2; }
};

/// The operand from a row on, which lies in a panel's rows: `rows` for each warpgroup before this one, and `first`. Stages are whole
/// 16-byte units apart and shared memory ends far below 2^18: the stage's distance is added to the first one's descriptor, which is
/// known in front of all loops.
Descriptor descriptor(Lowering& l, const FragmentSource& source, int rows, int first) {
  const SharedShape shape = shared_shape(l.f, source.load->operands[0]);
  Descriptor result{nullptr, shape.panel_bytes / 16, source.transposed};
  {
    HoistedTo front(l, {});
    llvm::Value* row = l.b.CreateAdd(l.b.CreateMul(warpgroup(l), l.b.getInt32(rows)), l.b.getInt32(first));
    llvm::Value* bytes = l.b.CreateMul(row, l.b.getInt32(shape.pitch));
    llvm::Value* address = l.b.CreatePtrToInt(shared_address(l, shape.base, bytes), l.b.getInt32Ty());
    result.low = l.b.CreateLShr(l.b.CreateAnd(address, l.b.getInt32(0x3ffff)), l.b.getInt32(4));
    if (source.transposed) result.low = l.b.CreateOr(result.low, l.b.getInt32(result.panel_units << 16));
  }
  llvm::Value* stage = l.scalar(source.load->operands[1]);
  result.low = l.b.CreateAdd(result.low, l.b.CreateMul(stage, l.b.getInt32(shape.stage_bytes / 16)));
  return result;
}

/// Four words per K step: rows g and g + 8 of its first half, then of its second half. `packed` elements are a word; f32 is rounded.
Registers packed_words(Lowering& l, const Registers& elements, int packed) {
  Registers words;
  for (std::size_t i = 0; i < elements.size(); i += static_cast<std::size_t>(packed)) {
    if (packed == 1) {
      words.push_back(call(l, llvm::Intrinsic::nvvm_f2tf32_rna, {elements[i]}));
      continue;
    }
    llvm::Value* word = llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[i]->getType(), static_cast<unsigned>(packed)));
    for (int k = 0; k < packed; ++k) word = l.b.CreateInsertElement(word, elements[i + static_cast<std::size_t>(k)], static_cast<std::uint64_t>(k));
    words.push_back(l.b.CreateBitCast(word, l.b.getInt32Ty()));
  }
  return words;
}

/// "m64n128k16.f32.bf16.bf16": shape, type of the sums, types of the operands.
std::string kind_of(const ir::Type& sums, int columns, ElementType element, int step) {
  std::string type(name(element));
  if (element == ElementType::f32) type = "tf32";
  else if (element == ElementType::i8) type = "s8";
  else if (is_float8(element)) type = element == ElementType::f8e4m3 ? "e4m3" : "e5m2";
  return "m64n" + std::to_string(columns) + "k" + std::to_string(step) + (is_float(sums.element) ? ".f32." : ".s32.") + type + "." + type;
}

/// Behind scale-d: factors of 1 for floats, then which 16-bit operands in shared memory are read transposed.
std::string modifiers(ElementType element, bool left_in_shared, bool right_transposed) {
  if (!is_float(element)) return "";
  if (bit_width(element) != 16) return ", 1, 1";
  return std::string(", 1, 1, ") + (left_in_shared ? "0, " : "") + (right_transposed ? "1" : "0");
}

/// Instructions of integers have above 32 only every other width: eight columns are then left for one of their own.
std::vector<int> widths(int columns, ElementType element) {
  return is_float(element) || columns <= 32 || columns % 16 == 0 ? std::vector<int>{columns} : std::vector<int>{columns - 8, 8};
}

std::string list(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ",$" : "$") + std::to_string(first + i);
  return text + "}";
}

}  // namespace

bool uses_wgmma(const ir::Function& function) {
  for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
    const ir::Operation& operation = function.operation({i});
    if (operation.opcode == ir::Opcode::dot && operation.attributes.string(AttributeName::instruction) == "wgmma") return true;
  }
  return false;
}

void lower_wgmma(Lowering& l, const ir::Operation& operation) {
  const ir::Type& type = l.type(operation.results[0]);
  const ir::Type& left_type = l.type(operation.operands[0]);
  const MatrixInstruction instruction = instruction_of(l.f, operation);
  const int columns = type.extents[1], steps = left_type.extents[1] / instruction.k, blocks = type.extents[0] / (16 * l.f.num_warps);
  const FragmentSource left = fragment_source(l.f, operation, 0), right = fragment_source(l.f, operation, 1);
  const Descriptor b = descriptor(l, right, 0, 0);
  const Registers words = left.load ? Registers{} : packed_words(l, l.of(operation.operands[0]), instruction.packed);
  llvm::Type* unit = register_type(l, type);
  const std::string sum_output = unit->isFloatTy() ? "=f," : "=r,";
  Registers sums = l.of(operation.operands[2]);
  const int count = columns / 2;
  const bool fresh = is_zero(l.f, operation.operands[2]);     // then the first step ignores what is in the registers
  for (int block = 0; block < blocks; ++block) {
    Registers arguments;
    std::string constraints;
    for (int i = 0; i < count; ++i) constraints += sum_output;
    int next = count;                                          // number of the operand that comes next
    if (!fresh) {
      arguments.assign(sums.begin() + block * count, sums.begin() + (block + 1) * count);
      for (int i = 0; i < count; ++i) constraints += std::to_string(i) + ",";
      next += count;
    }
    const int first_a = next;
    Descriptor a;
    if (left.load) {
      a = descriptor(l, left, 64 * blocks, 64 * block);   // a warpgroup holds 64 neighbouring rows per block; its blocks follow one another
      arguments.push_back(a.low);
      constraints += "r,";
      ++next;
    } else {
      arguments.insert(arguments.end(), words.begin() + block * 4 * steps, words.begin() + (block + 1) * 4 * steps);
      for (int i = 0; i < 4 * steps; ++i) constraints += "r,";
      next += 4 * steps;
    }
    arguments.push_back(b.low);
    constraints += "r";
    std::string text = "{\n\t.reg .b32 %a_low, %b_low;\n\t.reg .b64 %a_at, %b_at;\n\twgmma.fence.sync.aligned;\n";
    for (int k = 0; k < steps; ++k) {
      std::string source;
      if (left.load) {
        text += "\tadd.u32 %a_low, $" + std::to_string(first_a) + ", " + std::to_string(a.at(k)) + ";\n\tmov.b64 %a_at, {%a_low, " + upper_word + "};\n";
        source = "%a_at";
      } else {
        source = list(first_a + 4 * k, 4);
      }
      int first = 0;   // column
      for (const int width : widths(columns, left_type.element)) {
        const int units = b.at(k) + first * row_bytes / 16;
        text += "\tadd.u32 %b_low, $" + std::to_string(next) + ", " + std::to_string(units) + ";\n\tmov.b64 %b_at, {%b_low, " + upper_word + "};\n";
        text += "\twgmma.mma_async.sync.aligned." + kind_of(type, width, left_type.element, instruction.k) + " " + list(first / 2, width / 2) + ", " + source + ", %b_at, " +
                (fresh && k == 0 ? "0" : "1") + modifiers(left_type.element, left.load != nullptr, b.transposed) + ";\n";
        first += width;
      }
    }
    text += "\twgmma.commit_group.sync.aligned;\n";
    text += operation.attributes.integer(AttributeName::async) ? "\t}" : "\twgmma.wait_group.sync.aligned 0;\n\t}";
    auto* result = llvm::StructType::get(l.b.getContext(), std::vector<llvm::Type*>(count, unit));
    llvm::Value* product = assembly(l, result, text, constraints, arguments, true);
    for (int i = 0; i < count; ++i) sums[block * count + i] = l.b.CreateExtractValue(product, static_cast<unsigned>(i));
  }
  l.of(operation.results[0]) = sums;
}

/// Warpgroup g waits at barrier 1 + g, where the one before it arrives.
void lower_turn(Lowering& l, const ir::Operation& operation) {
  const std::string_view kind = operation.attributes.string(AttributeName::kind);
  const int groups = l.f.num_warps / 4;
  const std::string threads = std::to_string(2 * 4 * lanes_per_warp);   // of the one that waits and the one that arrives
  auto wait = [&](llvm::Value* number) { assembly(l, l.b.getVoidTy(), "bar.sync $0, " + threads + ";", "r", {number}, true); };
  auto arrive = [&](llvm::Value* number) { assembly(l, l.b.getVoidTy(), "bar.arrive $0, " + threads + ";", "r", {number}, true); };
  llvm::Value *last = nullptr, *own = nullptr, *next = nullptr;
  {
    HoistedTo front(l, {});
    llvm::Value* group = warpgroup(l);
    last = l.b.CreateICmpEQ(group, l.b.getInt32(groups - 1));
    own = l.b.CreateAdd(group, l.b.getInt32(1));
    next = l.b.CreateSelect(last, l.b.getInt32(1), l.b.CreateAdd(group, l.b.getInt32(2)));
  }
  if (kind == "take") return wait(own);
  if (kind == "pass") return arrive(next);
  // Opening arrives on behalf of a turn before the first; closing takes up the one after the last.
  if (kind == "open") when(l, last, [&] { arrive(l.b.getInt32(1)); });
  else when(l, l.b.CreateICmpEQ(own, l.b.getInt32(1)), [&] { wait(l.b.getInt32(1)); });
}

/// What follows is done behind the number, also by the assembler, which moves a wait across arithmetic but not across a vote.
void stay_behind(Lowering& l, llvm::Value* number) {
  const std::string text = "{\n\t.reg .pred %huge;\n\tsetp.gt.f32 %huge, $0, 0f7F7FFFFF;\n\tvote.sync.any.pred %huge, %huge, 0xffffffff;\n\t@%huge bar.warp.sync 0xffffffff;\n\t}";
  assembly(l, l.b.getVoidTy(), text, "f", {number}, true);
}

/// Passes the sums through, so that nobody reads them earlier.
void lower_product_wait(Lowering& l, const ir::Operation& operation) {
  const std::int64_t wanted = operation.attributes.integer(AttributeName::pending);
  if (operation.results.empty()) {   // all dots of such a loop have as many rows
    std::int64_t batches = 1;
    for (std::uint32_t i = 0; i < l.f.operation_count(); ++i) {
      const ir::Operation& dot = l.f.operation({i});
      if (dot.opcode == ir::Opcode::dot && dot.attributes.integer(AttributeName::async) != 0) batches = l.type(dot.results[0]).extents[0] / (16 * l.f.num_warps);
    }
    assembly(l, l.b.getVoidTy(), "wgmma.wait_group.sync.aligned " + std::to_string(wanted * batches) + ";", "", {}, true);
    return;
  }
  if (operation.operands.size() > 1) {
    const Registers& first = l.of(operation.operands[1]);
    stay_behind(l, first[first.size() / 2 - 1]);
  }
  const Registers& sums = l.of(operation.operands[0]);
  std::string constraints;
  llvm::Type* unit = register_type(l, l.type(operation.results[0]));
  const std::string output = unit->isFloatTy() ? "=f" : "=r";
  for (std::size_t i = 0; i < sums.size(); ++i) constraints += i ? "," + output : output;
  for (std::size_t i = 0; i < sums.size(); ++i) constraints += "," + std::to_string(i);
  auto* result = llvm::StructType::get(l.b.getContext(), std::vector<llvm::Type*>(sums.size(), unit));
  const std::int64_t blocks = l.type(operation.results[0]).extents[0] / (16 * l.f.num_warps);   // a dot is so many batches
  const std::string pending = std::to_string(wanted * blocks);
  llvm::Value* done = assembly(l, result, "wgmma.wait_group.sync.aligned " + pending + ";", constraints, sums, true);
  Registers values;
  for (std::size_t i = 0; i < sums.size(); ++i) values.push_back(l.b.CreateExtractValue(done, static_cast<unsigned>(i)));
  l.of(operation.results[0]) = std::move(values);
}

}  // namespace flextile::backend
