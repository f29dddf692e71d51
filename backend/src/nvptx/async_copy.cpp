// Asynchronous copies of a tile of a view into shared memory: cp.async, 16 bytes per thread and instruction. Only existing
// elements are read; the rest of the tile is filled with zeros.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "nvptx/access.hpp"
#include "nvptx/shared.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;

class AsyncCopy {
 public:
  AsyncCopy(Lowering& l, const ir::Operation& operation)
      : l_(l), operation_(operation), buffer_(l.type(operation.operands[0])), shape_(shared_shape(l.f, operation.operands[0])),
        view_(l.views.at(operation.operands[2].index)), rank_(buffer_.rank), lead_(static_cast<int>(view_.sizes.size()) - rank_),
        threads_(l.f.num_warps * lanes_per_warp), chunks_(shape_.panels * shape_.pitch / 16), per_chunk_(16 / shape_.element_bytes),
        unit_(element_type(l, buffer_.element)) {}

  void run() {
    llvm::Value* predicate = operation_.attributes.integer(AttributeName::has_predicate) != 0 ? l_.scalar(operation_.operands.back()) : nullptr;
    stage_ = stage_bytes(l_, shape_, operation_.operands[1]);
    when(l_, predicate, [&] {
      const int row_step = threads_ / chunks_;
      if (rank_ == 2 && threads_ % chunks_ == 0 && row_step % 8 == 0) copy_rows(row_step);
      else copy_chunks();
    });
    call(l_, llvm::Intrinsic::nvvm_cp_async_commit_group, {});
  }

 private:
  llvm::Value* offset(int axis) { return l_.scalar(operation_.operands[3 + axis]); }
  llvm::Value* number(int value) { return l_.b.getInt32(value); }

  /// Elements before the tile along the leading axes, and whether those offsets exist (null: no leading axes).
  std::pair<llvm::Value*, llvm::Value*> leading() {
    llvm::Value* elements = l_.b.getInt64(0);
    llvm::Value* inside = nullptr;
    for (int axis = 0; axis < lead_; ++axis) {
      elements = l_.b.CreateAdd(elements, l_.b.CreateMul(l_.b.CreateSExt(offset(axis), l_.b.getInt64Ty()), view_.strides[axis]));
      inside = both(l_, inside, l_.b.CreateICmpULT(offset(axis), view_.sizes[axis]));
    }
    return {elements, inside};
  }

  /// How many bytes of the chunk at `column` exist.
  llvm::Value* bytes_at(llvm::Value* column) {
    llvm::Value* left = l_.b.CreateSub(view_.sizes.back(), column);
    llvm::Value* most = call(l_, llvm::Intrinsic::smin, {left, number(per_chunk_)}, {l_.b.getInt32Ty()});
    llvm::Value* inside = l_.b.CreateAnd(l_.b.CreateICmpSGT(left, number(0)), l_.b.CreateICmpSGE(column, number(0)));
    return l_.b.CreateSelect(inside, l_.b.CreateMul(most, number(shape_.element_bytes)), number(0));
  }

  /// Where the chunk lies in its stage.
  llvm::Value* place_of(llvm::Value* row, llvm::Value* chunk) {
    const int across = shape_.pitch / 16;   // chunks of a panel's row
    llvm::Value* place = l_.b.CreateMul(shape_.panels > 1 ? l_.b.CreateURem(chunk, number(across)) : chunk, number(16));
    if (shape_.group > 1) place = l_.b.CreateXor(place, swizzle_key(l_, shape_, row));
    if (shape_.panels > 1) place = l_.b.CreateAdd(place, l_.b.CreateMul(l_.b.CreateUDiv(chunk, number(across)), number(shape_.panel_bytes)));
    return l_.b.CreateAdd(place, l_.b.CreateMul(row, number(shape_.pitch)));
  }

  /// Copies what exists of a chunk and fills up with zeros; where it is not `inside` (null: it is) nothing is read, whatever
  /// `source` is. A chunk of an aligned view of two axes and more exists as a whole or not at all.
  void copy(std::int64_t fixed_bytes, llvm::Value* place, llvm::Value* source, llvm::Value* column, llvm::Value* inside) {
    llvm::Value* in_buffer = l_.b.CreateAdd(place, stage_);
    const std::int64_t fixed = shape_.base + fixed_bytes;
    if (whole_chunks()) {
      llvm::Value* target = l_.b.CreatePtrToInt(shared_address(l_, 0, in_buffer), l_.b.getInt32Ty());
      const std::string text = "cp.async.cg.shared.global [$0+" + std::to_string(fixed) + "], [$1], 16, $2;";
      assembly(l_, l_.b.getVoidTy(), text, "r,l,b", {target, source, l_.b.CreateNot(inside)}, true);
      return;
    }
    llvm::Value* target = shared_address(l_, fixed, in_buffer);
    llvm::Value* bytes = bytes_at(column);
    if (inside) bytes = l_.b.CreateSelect(inside, bytes, number(0));
    call(l_, llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {target, source, bytes});
  }
  bool whole_chunks() const { return view_.sizes.size() >= 2; }

  /// Every thread keeps its chunk of a row and goes down the rows. What does not depend on the first row is computed where its
  /// operands are known: outside the loop, usually.
  void copy_rows(int row_step) {
    const int row_operand = 3 + lead_;
    CopyThread& thread = l_.copy_threads[{chunks_, shape_.element_bytes, shape_.group, shape_.panel_bytes}];
    if (!thread.row) {
      llvm::IRBuilder<>::InsertPointGuard guard(l_.b);
      l_.b.SetInsertPoint(l_.prologue);
      llvm::Value* chunk = l_.b.CreateURem(l_.thread, number(chunks_));
      thread.row = l_.b.CreateUDiv(l_.thread, number(chunks_));
      thread.column = l_.b.CreateMul(chunk, number(per_chunk_));
      thread.place = place_of(thread.row, chunk);
    }
    std::vector<ir::Value> fixed_operands(operation_.operands.begin() + 3, operation_.operands.begin() + 3 + lead_ + rank_);
    fixed_operands.erase(fixed_operands.begin() + lead_);
    std::vector<std::uint32_t> key = {operation_.operands[2].index, static_cast<std::uint32_t>(chunks_)};
    for (ir::Value value : fixed_operands) key.push_back(value.index);
    CopySource& from = l_.copy_sources[key];
    if (!from.address) {
      HoistedTo there(l_, fixed_operands);
      auto [elements, inside] = leading();
      llvm::Value* column = from.column = l_.b.CreateAdd(offset(lead_ + 1), thread.column);
      elements = l_.b.CreateAdd(elements, l_.b.CreateMul(l_.b.CreateSExt(thread.row, l_.b.getInt64Ty()), view_.strides[lead_]));
      from.address = l_.b.CreateGEP(unit_, view_.base, l_.b.CreateAdd(elements, l_.b.CreateSExt(column, l_.b.getInt64Ty())));
      inside = both(l_, inside, l_.b.CreateICmpULT(column, view_.sizes.back()));
      from.rows = l_.b.CreateSelect(inside, view_.sizes[lead_], number(0));
    }
    llvm::Value* first_row = l_.scalar(operation_.operands[row_operand]);
    llvm::Value* row = l_.b.CreateAdd(first_row, thread.row);
    llvm::Value* source = l_.b.CreateGEP(unit_, from.address, l_.b.CreateMul(l_.b.CreateSExt(first_row, l_.b.getInt64Ty()), view_.strides[lead_]));
    llvm::Value* step = l_.b.CreateMul(view_.strides[lead_], l_.b.getInt64(row_step));
    for (int fixed = 0; fixed < buffer_.extents[0]; fixed += row_step) {
      const bool partial = fixed + row_step > buffer_.extents[0];
      when(l_, partial ? l_.b.CreateICmpULT(thread.row, number(buffer_.extents[0] - fixed)) : nullptr, [&] {
        llvm::Value* inside = l_.b.CreateICmpULT(l_.b.CreateAdd(row, number(fixed)), from.rows);
        copy(static_cast<std::int64_t>(fixed) * shape_.pitch, thread.place, source, from.column, inside);
      });
      source = l_.b.CreateGEP(unit_, source, step);
    }
  }

  /// Any rank and shape: the threads go over the chunks of the tile in order.
  void copy_chunks() {
    const int total = static_cast<int>(buffer_.elements()) / per_chunk_;
    const auto [lead_elements, lead_inside] = leading();
    for (int first = 0; first < total; first += threads_) {
      llvm::Value* index = l_.b.CreateAdd(l_.thread, number(first));
      when(l_, first + threads_ > total ? l_.b.CreateICmpULT(index, number(total)) : nullptr, [&] {
        llvm::Value* chunk = l_.b.CreateURem(index, number(chunks_));
        llvm::Value* row = l_.b.CreateUDiv(index, number(chunks_));
        llvm::Value* rest = row;
        llvm::Value* elements = lead_elements;
        llvm::Value* inside = lead_inside;
        for (int axis = rank_ - 2; axis >= 0; --axis) {
          llvm::Value* at = axis == 0 ? rest : l_.b.CreateURem(rest, number(buffer_.extents[axis]));
          rest = l_.b.CreateUDiv(rest, number(buffer_.extents[axis]));
          at = l_.b.CreateAdd(at, offset(lead_ + axis));
          inside = both(l_, inside, l_.b.CreateICmpULT(at, view_.sizes[lead_ + axis]));
          elements = l_.b.CreateAdd(elements, l_.b.CreateMul(l_.b.CreateSExt(at, l_.b.getInt64Ty()), view_.strides[lead_ + axis]));
        }
        llvm::Value* column = l_.b.CreateAdd(offset(lead_ + rank_ - 1), l_.b.CreateMul(chunk, number(per_chunk_)));
        llvm::Value* source = l_.b.CreateGEP(unit_, view_.base, l_.b.CreateAdd(elements, l_.b.CreateSExt(column, l_.b.getInt64Ty())));
        if (whole_chunks()) inside = both(l_, inside, l_.b.CreateICmpULT(column, view_.sizes.back()));
        copy(0, place_of(row, chunk), source, column, inside);
      });
    }
  }

  Lowering& l_;
  const ir::Operation& operation_;
  const ir::Type& buffer_;
  const SharedShape shape_;
  const ViewParts& view_;
  const int rank_;
  const int lead_;
  const int threads_;
  const int chunks_;
  const int per_chunk_;
  llvm::Type* unit_;
  llvm::Value* stage_ = nullptr;
};

}  // namespace

void lower_async_copy(Lowering& l, const ir::Operation& operation) { AsyncCopy(l, operation).run(); }

}  // namespace flextile::backend
