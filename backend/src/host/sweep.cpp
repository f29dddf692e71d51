// Loops. A sweep visits a tile row by row and each row in vectors; a vector whose memory accesses are all inside runs
// without masks, the others run a masked twin, and what is left of a row is one narrower vector.
#include "host/lowering.hpp"

namespace flextile::backend::host {

void emit_loop(Lowering& l, llvm::Value* lower, llvm::Value* upper, std::int64_t step, llvm::function_ref<void(llvm::Value*)> body) {
  llvm::IRBuilder<>& b = l.builder;
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(lower);
  const auto* last = llvm::dyn_cast<llvm::ConstantInt>(upper);
  const bool known = first && last;
  if (known && first->getSExtValue() >= last->getSExtValue()) return;
  if (known && first->getSExtValue() + step >= last->getSExtValue()) return body(lower);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* head = llvm::BasicBlock::Create(l.context, "loop", l.program);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(l.context, "after", l.program);
  if (known) b.CreateBr(head);
  else b.CreateCondBr(b.CreateICmpSLT(lower, upper), head, after);
  b.SetInsertPoint(head);
  llvm::PHINode* index = b.CreatePHI(lower->getType(), 2, "i");
  index->addIncoming(lower, before);
  body(index);
  llvm::Value* next = b.CreateAdd(index, llvm::ConstantInt::getSigned(lower->getType(), step), "", true, true);
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, upper), head, after);
  b.SetInsertPoint(after);
}

int vector_axis_of(const ir::Shape& shape) {
  int axis = static_cast<int>(shape.size()) - 1;
  while (axis > 0 && shape[static_cast<std::size_t>(axis)] == 1) --axis;
  return axis;
}

namespace {

class Rows {
 public:
  Rows(Lowering& l, const ir::Shape& shape, const SweepBody& body) : l_(l), body_(body), shape_(shape), axis_(vector_axis_of(shape)) {}

  void emit() {
    Sweep sweep;
    Sweep* outer = l_.sweep;
    l_.sweep = &sweep;
    Point point;
    point.rank = static_cast<int>(shape_.size());
    point.vector_axis = axis_;
    for (std::size_t i = 0; i < shape_.size(); ++i) point.index[i] = index_constant(l_, 0);
    for (ir::OperationId id : body_.accesses) begin_access(l_, id, point);
    rows(point, 0);
    l_.sweep = outer;
  }

 private:
  std::int64_t columns() const { return shape_[static_cast<std::size_t>(axis_)]; }

  void rows(Point& point, int axis) {
    if (axis == axis_) return row(point);
    emit_loop(l_, index_constant(l_, 0), index_constant(l_, shape_[static_cast<std::size_t>(axis)]), 1, [&](llvm::Value* index) {
      point.index[static_cast<std::size_t>(axis)] = index;
      rows(point, axis + 1);
    });
  }

  void row(Point point) {
    Sweep& sweep = *l_.sweep;
    sweep.row_memo.clear();
    sweep.row_block = l_.builder.GetInsertBlock();
    point.index[static_cast<std::size_t>(axis_)] = index_constant(l_, 0);
    for (ir::OperationId id : body_.accesses) begin_access_row(l_, id, point);
    if (body_.row_begin) body_.row_begin(point);
    sweep.row_block = l_.builder.GetInsertBlock();
    close_row_block();
    const std::int64_t lanes = body_.one_lane ? 1 : l_.machine.lanes;
    std::int64_t unroll = columns() >= lanes ? body_.unroll : 1;
    while (unroll > 1 && columns() % (lanes * unroll) != 0) unroll /= 2;
    const std::int64_t main = columns() / (lanes * unroll) * (lanes * unroll);
    steps(point, 0, main, lanes, unroll);
    if (main < columns()) step(point, index_constant(l_, main), columns() - main, 1);
    sweep.row_memo.clear();
    sweep.row_block = nullptr;
    if (body_.row_end) body_.row_end(point);
  }

  /// What does not depend on the column is emitted before this branch, whenever it is asked for.
  void close_row_block() {
    llvm::BasicBlock* columns_block = llvm::BasicBlock::Create(l_.context, "columns", l_.program);
    l_.builder.CreateBr(columns_block);
    l_.builder.SetInsertPoint(columns_block);
  }

  void steps(const Point& point, std::int64_t from, std::int64_t to, std::int64_t lanes, std::int64_t unroll) {
    emit_loop(l_, index_constant(l_, from), index_constant(l_, to), lanes * unroll, [&](llvm::Value* column) { step(point, column, lanes, unroll); });
  }

  /// `unroll` vectors from `column` on: without masks if all of them are inside, else each with masks.
  void step(Point point, llvm::Value* column, std::int64_t lanes, std::int64_t unroll) {
    llvm::IRBuilder<>& b = l_.builder;
    point.lanes = static_cast<int>(lanes * unroll);
    point.index[static_cast<std::size_t>(axis_)] = column;
    llvm::Value* condition = whole_condition(point);
    point.lanes = static_cast<int>(lanes);
    if (!condition) return vectors(point, column, unroll, true);
    llvm::BasicBlock* fast = llvm::BasicBlock::Create(l_.context, "inside", l_.program);
    llvm::BasicBlock* slow = llvm::BasicBlock::Create(l_.context, "edge", l_.program);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(l_.context, "next", l_.program);
    b.CreateCondBr(condition, fast, slow);
    b.SetInsertPoint(fast);
    vectors(point, column, unroll, true);
    b.CreateBr(after);
    b.SetInsertPoint(slow);
    emit_loop(l_, index_constant(l_, 0), index_constant(l_, lanes * unroll), lanes, [&](llvm::Value* offset) {
      vectors(point, b.CreateAdd(column, offset), 1, false);
    });
    b.CreateBr(after);
    b.SetInsertPoint(after);
  }

  llvm::Value* whole_condition(const Point& point) {
    llvm::Value* all = nullptr;
    l_.sweep->body_memo.clear();
    for (ir::OperationId id : body_.accesses) {
      const std::optional<llvm::Value*> condition = access_condition(l_, id, point);
      l_.sweep->conditional[id.index] = condition.has_value();
      if (!condition || !*condition) continue;
      all = all ? l_.builder.CreateAnd(all, *condition) : *condition;
    }
    return all;
  }

  void vectors(Point point, llvm::Value* column, std::int64_t count, bool whole) {
    point.whole = whole;
    for (std::int64_t i = 0; i < count; ++i) {
      l_.sweep->body_memo.clear();
      point.index[static_cast<std::size_t>(axis_)] = i == 0 ? column : l_.builder.CreateAdd(column, index_constant(l_, i * point.lanes), "", true, true);
      body_.vector(point, static_cast<int>(i));
    }
    l_.sweep->body_memo.clear();
  }

  Lowering& l_;
  const SweepBody& body_;
  ir::Shape shape_;
  int axis_;
};

}  // namespace

void emit_sweep(Lowering& l, const ir::Shape& shape, const SweepBody& body) { Rows(l, shape, body).emit(); }

void copy_tile(Lowering& l, ir::Value value, ir::Value like, int slot) {
  const auto copy = [&](const Point& point, int) { store_slot(l, like, point, evaluate(l, value, point), slot); };
  emit_sweep(l, l.type(like).shape(), {.accesses = {}, .unroll = 4, .row_begin = nullptr, .vector = copy, .row_end = nullptr});
}

}  // namespace flextile::backend::host
