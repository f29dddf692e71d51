// dot by mma.sync, or by scalar multiply-adds where no matrix instruction has the types or divides the shape.
#include <algorithm>
#include <numeric>

#include <llvm/IR/IntrinsicsNVPTX.h>

#include "nvptx/lowering.hpp"
#include "nvptx/matmul.hpp"
#include "nvptx/scratch.hpp"
#include "nvptx/shared.hpp"
#include "nvptx/wgmma.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;

/// The assembly of one instruction: D = A B + C with A 4, B 2, C 4 registers.
std::string spelling(const ir::Function& function, const ir::Operation& dot, const MatrixInstruction& instruction) {
  const ElementType element = function.type(dot.operands[0]).element;
  const std::string operands = " {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};";
  const std::string head = "mma.sync.aligned.m16n8k" + std::to_string(instruction.k) + ".row.col.";
  if (instruction.packed == 4 && is_float8(element)) {
    const std::string type = element == ElementType::f8e4m3 ? "e4m3" : "e5m2";
    return head + "f32." + type + "." + type + ".f32" + operands;
  }
  if (instruction.packed == 4) {
    const std::string type = element == ElementType::u8 ? "u8" : "s8";
    return head + "s32." + type + "." + type + ".s32" + operands;
  }
  const std::string type = instruction.packed == 1 ? "tf32" : std::string(name(element));
  return head + "f32." + type + "." + type + ".f32" + operands;
}

/// An operand's registers as 32-bit words, from element registers or by ldmatrix.
class OperandWords {
 public:
  OperandWords(Lowering& l, const ir::Operation& dot, int operand, const MatrixInstruction& instruction, const Layout& layout)
      : l_(l), left_(operand == 0), packed_(instruction.packed), source_(fragment_source(l.f, dot, operand)) {
    if (source_.load) reader_.emplace_back(l, source_, layout, left_);
    else words_ = pack(l.of(dot.operands[operand]));
    inner_count_ = l.type(dot.operands[0]).extents[1] / instruction.k;
  }

  /// A: the four words of rows 16 `outer`, K step `inner`. B: the two words of columns 8 `outer`.
  Registers fragment(int outer, int inner, int outer_count) {
    const int words = left_ ? 4 : 2;
    if (!source_.load) {
      const int first = (outer * inner_count_ + inner) * words;
      return {words_.begin() + first, words_.begin() + first + words};
    }
    if (left_) return reader_.front().read(16 * outer, 16 * inner);
    if (outer % 2 == 1 && static_cast<int>(pair_.size()) == 4) return {pair_[2], pair_[3]};
    pair_ = reader_.front().read(8 * outer, 16 * inner, outer + 1 < outer_count);
    return {pair_[0], pair_[1]};
  }

 private:
  Registers pack(const Registers& elements) {
    llvm::Type* word = l_.b.getInt32Ty();
    Registers result;
    for (std::size_t i = 0; i < elements.size(); i += packed_) {
      if (packed_ == 1) {
        result.push_back(call(l_, llvm::Intrinsic::nvvm_f2tf32_rna, {elements[i]}));
        continue;
      }
      llvm::Value* vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[i]->getType(), packed_));
      for (int k = 0; k < packed_; ++k) vector = l_.b.CreateInsertElement(vector, elements[i + k], static_cast<std::uint64_t>(k));
      result.push_back(l_.b.CreateBitCast(vector, word));
    }
    return result;
  }

  Lowering& l_;
  bool left_;
  int packed_;
  FragmentSource source_;
  std::vector<FragmentReader> reader_;   // none or one
  Registers words_;
  Registers pair_;
  int inner_count_ = 1;
};

void lower_mma(Lowering& l, const ir::Operation& operation, const MatrixInstruction& instruction) {
  const ir::Value result = operation.results[0];
  const Layout& accumulator = layout_of(l, result);
  const ir::Type& type = l.type(result);
  const bool rows_only = accumulator == dot_layouts(l.f, operation, true).accumulator;
  const DotLayouts layouts = dot_layouts(l.f, operation, rows_only);
  const int rows = type.extents[0] / 16 / layouts.grid.rows, columns = type.extents[1] / 8 / layouts.grid.columns;
  const int steps = l.type(operation.operands[0]).extents[1] / instruction.k;
  OperandWords left(l, operation, 0, instruction, layouts.left), right(l, operation, 1, instruction, layouts.right);
  Registers sums = l.of(operation.operands[2]);
  llvm::Type* unit = register_type(l, type);
  auto* four = llvm::StructType::get(l.b.getContext(), {unit, unit, unit, unit});
  const std::string c = unit->isFloatTy() ? "f" : "r";
  const std::string constraints = "=" + c + ",=" + c + ",=" + c + ",=" + c + ",r,r,r,r,r,r," + c + "," + c + "," + c + "," + c;
  const std::string text = spelling(l.f, operation, instruction);
  for (int step = 0; step < steps; ++step) {
    std::vector<Registers> a;
    for (int row = 0; row < rows; ++row) a.push_back(left.fragment(row, step, rows));
    for (int column = 0; column < columns; ++column) {
      const Registers b = right.fragment(column, step, columns);
      for (int row = 0; row < rows; ++row) {
        llvm::Value** place = &sums[(row * columns + column) * 4];
        Registers arguments = a[row];
        arguments.insert(arguments.end(), b.begin(), b.end());
        arguments.insert(arguments.end(), place, place + 4);
        llvm::Value* product = assembly(l, four, text, constraints, arguments, false);
        for (unsigned i = 0; i < 4; ++i) place[i] = l.b.CreateExtractValue(product, i);
      }
    }
  }
  l.of(result) = sums;
}

/// An operand of a scalar dot in shared memory: in its own buffer, or stored to the dot's scratch space.
struct ScalarOperand {
  SharedShape shape;
  llvm::Value* stage = nullptr;
  bool k_is_row = false;
  llvm::Type* unit = nullptr;

  /// Elements k .. k + count - 1 of row or column `outer`, as one load where they are neighbours.
  Registers along_k(Lowering& l, llvm::Value* outer, llvm::Value* k, int count) const {
    Registers result;
    if (k_is_row) {
      for (int i = 0; i < count; ++i) result.push_back(l.b.CreateLoad(unit, element_address(l, shape, stage, {l.b.CreateAdd(k, l.b.getInt32(i)), outer})));
      return result;
    }
    return neighbours(l, {outer, k}, count);
  }

  Registers neighbours(Lowering& l, RowColumn at, int count) const {
    llvm::Value* address = element_address(l, shape, stage, at);
    if (count == 1) return {l.b.CreateLoad(unit, address)};
    llvm::Value* vector = l.b.CreateAlignedLoad(llvm::FixedVectorType::get(unit, count), address, llvm::Align(count * shape.element_bytes));
    Registers result;
    for (int i = 0; i < count; ++i) result.push_back(l.b.CreateExtractElement(vector, static_cast<std::uint64_t>(i)));
    return result;
  }
};

ScalarOperand scalar_operand(Lowering& l, const ir::Operation& dot, int which, std::int64_t& scratch) {
  const ir::Value value = dot.operands[which];
  const ir::Type& type = l.type(value);
  ScalarOperand result;
  result.unit = element_type(l, type.element);
  if (const FragmentSource source = fragment_source(l.f, dot, which); source.load) {
    result.shape = shared_shape(l.f, source.load->operands[0]);
    result.stage = stage_bytes(l, result.shape, source.load->operands[1]);
    result.k_is_row = source.transposed;
    return result;
  }
  const int bytes = byte_size(type.element);
  result.shape = {.base = scratch, .stage_bytes = 0, .pitch = type.extents[1] * bytes, .divisor = 1, .group = 1, .element_bytes = bytes};
  result.stage = l.b.getInt32(0);
  result.k_is_row = which == 1;
  scratch += (type.elements() * bytes + 15) / 16 * 16;
  const Layout& layout = layout_of(l, value);
  for (int i = 0; i < register_count(layout); ++i) {
    l.b.CreateStore(l.of(value)[i], element_address(l, result.shape, result.stage, {coordinate(l, layout, 2, i, 0), coordinate(l, layout, 2, i, 1)}));
  }
  return result;
}

/// Both operands lie in shared memory; every thread walks K for its own elements of the accumulator.
void lower_fma(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  const ir::Type left_type = l.type(operation.operands[0]), type = l.type(result);
  const int bytes = byte_size(left_type.element), depth = left_type.extents[1];
  const std::int64_t start = operation.attributes.integer(AttributeName::offset);
  std::int64_t scratch = start;
  const ScalarOperand left = scalar_operand(l, operation, 0, scratch), right = scalar_operand(l, operation, 1, scratch);
  if (scratch > start) barrier(l);

  const Layout& layout = layout_of(l, result);
  const int count = register_count(layout);
  llvm::Type* sum_type = register_type(l, type);
  llvm::BasicBlock* before = l.b.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(l.b.getContext(), "depth", l.kernel);
  auto* after = llvm::BasicBlock::Create(l.b.getContext(), "depth.end", l.kernel);
  l.b.CreateBr(body);
  l.b.SetInsertPoint(body);
  llvm::PHINode* k = l.b.CreatePHI(l.b.getInt32Ty(), 2);
  k->addIncoming(l.b.getInt32(0), before);
  std::vector<llvm::PHINode*> phis;
  Registers sums;
  for (int i = 0; i < count; ++i) {
    phis.push_back(l.b.CreatePHI(sum_type, 2));
    phis.back()->addIncoming(l.of(operation.operands[2])[i], before);
    sums.push_back(phis.back());
  }
  const bool floating = is_float(type.element), is_signed = !is_unsigned(left_type.element);
  auto widen = [&](llvm::Value* value) {
    if (floating) return value->getType() == sum_type ? value : l.b.CreateFPExt(value, sum_type);
    return l.b.CreateIntCast(value, sum_type, is_signed);
  };
  // A few steps of K at once: they share a 16-byte chunk, and each row's and column's elements are read once.
  const int unroll = std::gcd(depth, std::min(4, 16 / bytes));
  const int run = right.k_is_row ? register_run(layout, 1, std::gcd(16, right.shape.pitch) / bytes) : 1;
  std::map<int, Registers> rows, columns;   // by static offset: one value per step
  for (int i = 0; i < count; ++i) {
    const Shape offset = digit_offset(layout.registers, i, 2);
    if (!rows.contains(offset[0])) rows[offset[0]] = left.along_k(l, coordinate(l, layout, 2, i, 0), k, unroll);
    if (columns.contains(offset[1])) continue;
    llvm::Value* column = coordinate(l, layout, 2, i, 1);
    if (run == 1) {
      columns[offset[1]] = right.along_k(l, column, k, unroll);
      continue;
    }
    for (int step = 0; step < unroll; ++step) {
      const Registers values = right.neighbours(l, {l.b.CreateAdd(k, l.b.getInt32(step)), column}, run);
      for (int c = 0; c < run; ++c) columns[offset[1] + c].push_back(values[c]);
    }
  }
  for (int step = 0; step < unroll; ++step) {
    for (int i = 0; i < count; ++i) {
      const Shape offset = digit_offset(layout.registers, i, 2);
      llvm::Value* a = widen(rows[offset[0]][step]);
      llvm::Value* b = widen(columns[offset[1]][step]);
      sums[i] = floating ? call(l, llvm::Intrinsic::fma, {a, b, sums[i]}, {sum_type}) : l.b.CreateAdd(sums[i], l.b.CreateMul(a, b));
    }
  }
  llvm::Value* next = l.b.CreateAdd(k, l.b.getInt32(unroll));
  k->addIncoming(next, body);
  for (int i = 0; i < count; ++i) phis[i]->addIncoming(sums[i], body);
  l.b.CreateCondBr(l.b.CreateICmpSLT(next, l.b.getInt32(depth)), body, after);
  l.b.SetInsertPoint(after);
  l.of(result) = sums;
}

}  // namespace

void lower_dot(Lowering& l, const ir::Operation& operation) {
  const MatrixInstruction instruction = instruction_of(l.f, operation);
  if (instruction.name == "fma") lower_fma(l, operation);
  else if (instruction.name == "wgmma") lower_wgmma(l, operation);
  else lower_mma(l, operation, instruction);
}

}  // namespace flextile::backend
