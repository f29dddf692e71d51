// Matrix products on tiles in memory. The right operand is packed into panels of two vectors of columns (by the sweep that
// computes it, where nothing else reads it); for each panel and
// each block of rows one micro-kernel keeps rows x 2 vectors of sums in registers and runs over K:
//
//   c[rows x panel] += a[rows x K] . b[K x panel]        a: row-major, one element broadcast at a time; b: packed, contiguous
//
// Sums start from the accumulator tile and return to it, so a chain of dots over K updates one tile in place.
#include "host/lowering.hpp"

namespace flextile::backend::host {

using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

namespace {

class Dot {
 public:
  Dot(Lowering& l, OperationId id)
      : l_(l), b_(l.builder), operation_(l.function.operation(id)), shape_(dot_shape(l.function, operation_, l.machine)),
        packed_right_(slot_pointer(l, l.plan.temporaries[id.index][0])), packed_left_(slot_pointer(l, l.plan.temporaries[id.index][1])) {
    const ElementType element = l.type(operation_.results[0]).element;
    type_ = element == ElementType::f64   ? l.builder.getDoubleTy()
            : is_float(element)           ? l.builder.getFloatTy()
                                          : static_cast<llvm::Type*>(l.builder.getInt32Ty());
    lanes_ = shape_.panel / 2;
  }

  void emit() {
    const Value result = operation_.results[0], accumulator = operation_.operands[2];
    const int slot = l_.plan.slot[result.index];
    const bool in_place = !l_.plan.lazy[accumulator.index] && l_.plan.slot[accumulator.index] == slot;
    zero_ = !in_place && is_zero(accumulator);
    if (!in_place && !zero_) copy_tile(l_, accumulator, result, slot);
    llvm::Value* left = stored(shape_.left);
    if (shape_.left_transposed) {
      pack_transposed(left, packed_left_, /*source_rows=*/shape_.k, /*source_columns=*/shape_.m, /*in_panels=*/false);
      left = packed_left_;
    }
    if (l_.plan.panel[shape_.right.index] > 0) packed_right_ = stored(shape_.right);
    else pack_right(stored(shape_.right));
    multiply(left, slot_pointer(l_, slot));
  }

 private:
  bool is_zero(Value value) const {
    const Operation* operation = l_.function.defining(value);
    while (operation && operation->opcode == Opcode::broadcast) operation = l_.function.defining(operation->operands[0]);
    return operation && operation->opcode == Opcode::constant && operation->attributes.number(ir::AttributeName::value) == 0;
  }

  llvm::Value* stored(Value value) const {
    while (l_.plan.lazy[value.index]) value = l_.function.defining(value)->operands[0];   // reshapes keep the memory
    return slot_pointer(l_, l_.plan.slot[value.index]);
  }

  llvm::Value* at(llvm::Value* base, llvm::Value* elements) { return b_.CreateInBoundsGEP(type_, base, elements); }
  llvm::Value* number(std::int64_t value) { return index_constant(l_, value); }
  llvm::Value* times(llvm::Value* index, std::int64_t factor) { return b_.CreateMul(index, number(factor), "", true, true); }
  llvm::Align align() const { return llvm::Align(static_cast<std::uint64_t>(shape_.element_bytes)); }
  llvm::Value* load(llvm::Type* type, llvm::Value* pointer) { return b_.CreateAlignedLoad(type, pointer, align()); }
  void store(llvm::Value* value, llvm::Value* pointer) { b_.CreateAlignedStore(value, pointer, align()); }
  void loop(std::int64_t count, std::int64_t step, llvm::function_ref<void(llvm::Value*)> body) { emit_loop(l_, number(0), number(count), step, body); }

  void pack_right(llvm::Value* right) {
    const std::int64_t panel = shape_.panel, full = shape_.n / panel, rest = shape_.n % panel;
    if (shape_.right_transposed) {
      pack_transposed(right, packed_right_, /*source_rows=*/shape_.n, /*source_columns=*/shape_.k, /*in_panels=*/true);
      return;
    }
    const auto copy_panel = [&](llvm::Value* index, std::int64_t columns) {
      llvm::Value* from = at(right, times(index, panel));
      llvm::Value* to = at(packed_right_, times(index, panel * shape_.k));
      const std::int64_t unroll = shape_.k % 4 == 0 ? 4 : 1;
      loop(shape_.k, unroll, [&](llvm::Value* k) {
        for (std::int64_t i = 0; i < unroll; ++i) {
          llvm::Value* row = b_.CreateAdd(k, number(i));
          store(load(vector_of(type_, static_cast<int>(columns)), at(from, times(row, shape_.n))), at(to, times(row, panel)));
        }
      });
    };
    loop(full, 1, [&](llvm::Value* index) { copy_panel(index, panel); });
    if (rest > 0) copy_panel(number(full), rest);
  }

  /// target(i, j) = source(j, i). Left operand: [k x rows] to [rows][k]. Right operand: [columns x k] to [panels][k][panel].
  void pack_transposed(llvm::Value* source, llvm::Value* target, std::int64_t source_rows, std::int64_t source_columns, bool in_panels) {
    const std::int64_t width = lanes_, block_rows = source_rows / width * width, block_columns = source_columns / width * width;
    const auto target_at = [&](llvm::Value* row, llvm::Value* column) {           // row, column of the source
      if (!in_panels) return at(target, b_.CreateAdd(times(column, shape_.k), row));
      llvm::Value* panel = b_.CreateUDiv(row, number(shape_.panel));
      llvm::Value* inside = b_.CreateURem(row, number(shape_.panel));
      return at(target, b_.CreateAdd(times(panel, shape_.panel * shape_.k), b_.CreateAdd(times(column, shape_.panel), inside)));
    };
    loop(block_rows, width, [&](llvm::Value* row) {
      loop(block_columns, width, [&](llvm::Value* column) {
        std::vector<llvm::Value*> rows;
        for (std::int64_t i = 0; i < width; ++i) {
          llvm::Value* from = at(source, b_.CreateAdd(times(b_.CreateAdd(row, number(i)), source_columns), column));
          rows.push_back(load(vector_of(type_, static_cast<int>(width)), from));
        }
        transpose(rows);
        for (std::int64_t i = 0; i < width; ++i) store(rows[static_cast<std::size_t>(i)], target_at(row, b_.CreateAdd(column, number(i))));
      });
      copy_elements(source, source_columns, row, width, block_columns, source_columns, target_at);
    });
    for (std::int64_t row = block_rows; row < source_rows; ++row) copy_elements(source, source_columns, number(row), 1, 0, source_columns, target_at);
  }

  template <class Target>
  void copy_elements(llvm::Value* source, std::int64_t source_columns, llvm::Value* row, std::int64_t rows, std::int64_t from, std::int64_t to, Target&& target_at) {
    if (from >= to) return;
    loop(rows, 1, [&](llvm::Value* i) {
      llvm::Value* line = b_.CreateAdd(row, i);
      emit_loop(l_, number(from), number(to), 1, [&](llvm::Value* column) {
        store(load(type_, at(source, b_.CreateAdd(times(line, source_columns), column))), target_at(line, column));
      });
    });
  }

  /// Square, in place: at distance d the off-diagonal d x d blocks of each 2d x 2d block change places.
  void transpose(std::vector<llvm::Value*>& rows) {
    const int width = static_cast<int>(rows.size());
    for (int d = width / 2; d >= 1; d /= 2) {
      std::vector<int> low, high;
      for (int c = 0; c < width; ++c) {
        low.push_back((c & d) == 0 ? c : width + c - d);
        high.push_back((c & d) == 0 ? c + d : width + c);
      }
      for (int i = 0; i < width; ++i) {
        if ((i & d) != 0) continue;
        llvm::Value*& a = rows[static_cast<std::size_t>(i)];
        llvm::Value*& b = rows[static_cast<std::size_t>(i + d)];
        llvm::Value* first = b_.CreateShuffleVector(a, b, low);
        b = b_.CreateShuffleVector(a, b, high);
        a = first;
      }
    }
  }

  // ---- the product

  void multiply(llvm::Value* left, llvm::Value* result) {
    const std::int64_t panel = shape_.panel, full = shape_.n / panel, rest = shape_.n % panel;
    loop(full, 1, [&](llvm::Value* index) { one_panel(left, result, index, panel); });
    if (rest > 0) one_panel(left, result, number(full), rest);
  }

  /// Blocks of rows as equal as can be: the first ones have one row more.
  void one_panel(llvm::Value* left, llvm::Value* result, llvm::Value* index, std::int64_t columns) {
    const std::int64_t most = l_.machine.registers >= 32 ? 12 : 6;
    const std::int64_t blocks = (shape_.m + most - 1) / most, rows = shape_.m / blocks, longer = shape_.m % blocks;
    llvm::Value* right = at(packed_right_, times(index, shape_.panel * shape_.k));
    llvm::Value* corner = at(result, times(index, shape_.panel));
    const auto run = [&](std::int64_t first_row, std::int64_t count, std::int64_t block_rows) {
      if (count == 0) return;
      llvm::Function* kernel = micro_kernel(block_rows, columns);
      loop(count, 1, [&](llvm::Value* block) {
        llvm::Value* row = b_.CreateAdd(times(block, block_rows), number(first_row));
        llvm::CallInst* call = b_.CreateCall(kernel, {at(left, times(row, shape_.k)), right, at(corner, times(row, shape_.n))});
        call->setCallingConv(kernel->getCallingConv());
      });
    };
    run(0, longer, rows + 1);
    run(longer * (rows + 1), blocks - longer, rows);
  }

  llvm::Function* micro_kernel(std::int64_t rows, std::int64_t columns) {
    const int flavour = (zero_ ? 1 : 0) + 2 * static_cast<int>(type_->getTypeID());
    const auto key = std::make_tuple(static_cast<int>(rows), static_cast<int>(columns), shape_.k, shape_.n, std::int64_t{shape_.panel}, flavour);
    llvm::Function*& kernel = l_.kernels[key];
    if (!kernel) kernel = make_micro_kernel(rows, columns);
    return kernel;
  }

  struct Columns {
    std::int64_t from;
    llvm::Type* type;
  };

  llvm::Function* make_micro_kernel(std::int64_t rows, std::int64_t columns) {
    llvm::Type* pointer = b_.getPtrTy();
    const std::string name = "multiply_" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(shape_.k);
    auto* kernel = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer}, false), llvm::Function::InternalLinkage,
                                          name, l_.module);
    kernel->addFnAttr(llvm::Attribute::NoUnwind);
    kernel->addFnAttr(llvm::Attribute::NoInline);
    for (unsigned i = 0; i < 3; ++i) kernel->addParamAttr(i, llvm::Attribute::NoAlias);
    for (const char* name_of_attribute : {"prefer-vector-width", "min-legal-vector-width"}) {
      if (l_.program->hasFnAttribute(name_of_attribute)) kernel->addFnAttr(l_.program->getFnAttribute(name_of_attribute));
    }
    llvm::BasicBlock* entry = llvm::BasicBlock::Create(l_.context, "entry", kernel);
    llvm::BasicBlock* head = llvm::BasicBlock::Create(l_.context, "over_k", kernel);
    llvm::BasicBlock* exit = llvm::BasicBlock::Create(l_.context, "exit", kernel);
    llvm::IRBuilder<> b(entry);
    llvm::Value* left = kernel->getArg(0);
    llvm::Value* right = kernel->getArg(1);
    llvm::Value* result = kernel->getArg(2);
    std::vector<Columns> parts;
    for (std::int64_t from = 0; from < columns; from += lanes_) {
      parts.push_back({from, vector_of(type_, static_cast<int>(std::min<std::int64_t>(lanes_, columns - from)))});
    }
    const auto result_at = [&](std::int64_t row, const Columns& part) {
      return b.CreateConstInBoundsGEP1_64(type_, result, static_cast<std::uint64_t>(row * shape_.n + part.from));
    };
    std::vector<llvm::Value*> sums;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const Columns& part : parts) {
        sums.push_back(zero_ ? static_cast<llvm::Value*>(llvm::Constant::getNullValue(part.type)) : b.CreateAlignedLoad(part.type, result_at(row, part), align()));
      }
    }
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode* k = b.CreatePHI(b.getInt64Ty(), 2);
    k->addIncoming(b.getInt64(0), entry);
    std::vector<llvm::PHINode*> phis;
    for (llvm::Value*& sum : sums) {
      phis.push_back(b.CreatePHI(sum->getType(), 2));
      phis.back()->addIncoming(sum, entry);
      sum = phis.back();
    }
    const std::int64_t unroll = shape_.k % 4 == 0 ? 4 : shape_.k % 2 == 0 ? 2 : 1;
    llvm::Value* left_k = b.CreateInBoundsGEP(type_, left, k);
    llvm::Value* right_k = b.CreateInBoundsGEP(type_, right, b.CreateMul(k, b.getInt64(static_cast<std::uint64_t>(shape_.panel)), "", true, true));
    for (std::int64_t u = 0; u < unroll; ++u) {
      std::vector<llvm::Value*> vectors;
      for (const Columns& part : parts) {
        llvm::Value* from = b.CreateConstInBoundsGEP1_64(type_, right_k, static_cast<std::uint64_t>(u * shape_.panel + part.from));
        vectors.push_back(b.CreateAlignedLoad(part.type, from, align()));
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        llvm::Value* from = b.CreateConstInBoundsGEP1_64(type_, left_k, static_cast<std::uint64_t>(row * shape_.k + u));
        llvm::Value* scalar = b.CreateAlignedLoad(type_, from, align());
        for (std::size_t part = 0; part < parts.size(); ++part) {
          llvm::Value*& sum = sums[static_cast<std::size_t>(row) * parts.size() + part];
          llvm::Value* factor = scalar;
          if (is_vector(vectors[part])) factor = b.CreateVectorSplat(llvm::cast<llvm::VectorType>(parts[part].type)->getElementCount(), scalar);
          sum = type_->isFloatingPointTy() ? b.CreateIntrinsic(llvm::Intrinsic::fmuladd, {parts[part].type}, {factor, vectors[part], sum})
                                           : b.CreateAdd(b.CreateMul(factor, vectors[part]), sum);
        }
      }
    }
    llvm::Value* next = b.CreateAdd(k, b.getInt64(static_cast<std::uint64_t>(unroll)), "", true, true);
    k->addIncoming(next, head);
    for (std::size_t i = 0; i < sums.size(); ++i) phis[i]->addIncoming(sums[i], head);
    b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(static_cast<std::uint64_t>(shape_.k))), head, exit);
    b.SetInsertPoint(exit);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        b.CreateAlignedStore(sums[static_cast<std::size_t>(row) * parts.size() + part], result_at(row, parts[part]), align());
      }
    }
    b.CreateRetVoid();
    return kernel;
  }

  Lowering& l_;
  llvm::IRBuilder<>& b_;
  const Operation& operation_;
  DotShape shape_;
  llvm::Value* packed_right_;
  llvm::Value* packed_left_;
  llvm::Type* type_ = nullptr;
  int lanes_ = 0;
  bool zero_ = false;
};

}  // namespace

void emit_dot(Lowering& l, OperationId id) { Dot(l, id).emit(); }

}  // namespace flextile::backend::host
