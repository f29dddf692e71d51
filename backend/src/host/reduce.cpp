// A sweep with everything that runs in it: accesses, element-wise operations, and reductions of what it computes.
//
// Along the vector axis a reduction has one vector accumulator per unrolled copy, joined when the row ends; along another
// axis the result's slot is the accumulator. Either way the order of the additions is fixed.
#include <limits>

#include "host/lowering.hpp"

#include <flextile/ir/error.hpp>

namespace flextile::backend::host {

using ir::AttributeName;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

llvm::Value* combine(Lowering& l, std::string_view kind, ElementType element, llvm::Value* a, llvm::Value* b) {
  llvm::IRBuilder<>& builder = l.builder;
  const bool floating = is_float(element), with_sign = !is_unsigned(element);
  if (kind == "sum" || kind == "add") return floating ? builder.CreateFAdd(a, b) : builder.CreateAdd(a, b);
  if (kind == "prod") return floating ? builder.CreateFMul(a, b) : builder.CreateMul(a, b);
  if (kind == "and") return builder.CreateAnd(a, b);
  if (kind == "or") return builder.CreateOr(a, b);
  if (kind == "xor") return builder.CreateXor(a, b);
  if (kind == "max" && floating) return builder.CreateMaxNum(b, a);   // the other one where one is NaN; `a`, the sum so far, has the shorter way
  if (kind == "min" && floating) return builder.CreateMinNum(b, a);
  if (kind == "max") return builder.CreateBinaryIntrinsic(with_sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
  if (kind == "min") return builder.CreateBinaryIntrinsic(with_sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
  throw InternalError("flextile: internal error: host back end: no reduction of kind \"" + std::string(kind) + "\"");
}

namespace {

llvm::Constant* identity(std::string_view kind, ElementType element, llvm::Type* type) {
  if (is_float(element)) {
    if (kind == "prod") return llvm::ConstantFP::get(type, 1.0);
    if (kind == "max" || kind == "min") return llvm::ConstantFP::getNaN(type);   // loses against every number
    return llvm::ConstantFP::get(type, 0.0);
  }
  const unsigned bits = type->getScalarSizeInBits();
  const bool with_sign = !is_unsigned(element);
  if (kind == "prod") return llvm::ConstantInt::get(type, 1);
  if (kind == "and") return llvm::Constant::getAllOnesValue(type);
  if (kind == "max") return llvm::ConstantInt::get(type, with_sign ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt(bits, 0));
  if (kind == "min") return llvm::ConstantInt::get(type, with_sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::Constant::getNullValue(type);
}

/// All lanes to one: halves while the count is even, then one by one.
llvm::Value* across_lanes(Lowering& l, std::string_view kind, ElementType element, llvm::Value* vector) {
  llvm::IRBuilder<>& b = l.builder;
  if (!is_vector(vector)) return vector;
  int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements());
  while (lanes > 1 && lanes % 2 == 0) {
    lanes /= 2;
    std::vector<int> low, high;
    for (int i = 0; i < lanes; ++i) low.push_back(i), high.push_back(i + lanes);
    vector = combine(l, kind, element, b.CreateShuffleVector(vector, low), b.CreateShuffleVector(vector, high));
  }
  llvm::Value* total = b.CreateExtractElement(vector, std::uint64_t{0});
  for (int i = 1; i < lanes; ++i) total = combine(l, kind, element, total, b.CreateExtractElement(vector, static_cast<std::uint64_t>(i)));
  return total;
}

Point without_axis(const Point& point, int axis) {
  Point result = point;
  result.rank = point.rank - 1;
  for (int i = axis; i < result.rank; ++i) result.index[static_cast<std::size_t>(i)] = point.index[static_cast<std::size_t>(i + 1)];
  result.index[static_cast<std::size_t>(result.rank)] = nullptr;
  if (point.vector_axis == axis) result.vector_axis = -1;
  if (point.vector_axis > axis) result.vector_axis = point.vector_axis - 1;
  return result;
}

struct Reduction {
  OperationId id;
  std::string kind;
  ElementType element = ElementType::f32;
  int axis = 0;
  bool along_vector = false;
  llvm::Type* type = nullptr;
  std::vector<llvm::AllocaInst*> vectors;       // accumulators, one per unrolled copy
  llvm::AllocaInst* rest = nullptr;             // of the narrower vector at the row's end
};

class GroupSweep {
 public:
  GroupSweep(Lowering& l, const Group& group) : l_(l), group_(group), vector_axis_(vector_axis_of(group.shape)) {}

  /// About how many instructions one vector takes. A math function is some twenty, with a dozen constants: copies of it
  /// next to each other run out of registers.
  int instructions() const {
    int sum = 0;
    for (OperationId id : group_.operations) {
      const Opcode opcode = l_.function.operation(id).opcode;
      sum += opcode >= Opcode::exp && opcode <= Opcode::erf ? 20 : 1;
    }
    return sum;
  }

  void emit() {
    SweepBody body{.accesses = {}, .row_begin = nullptr, .vector = nullptr, .row_end = nullptr};
    for (OperationId id : group_.operations) {
      const Operation& operation = l_.function.operation(id);
      if (operation.opcode == Opcode::reduce) {
        add_reduction(id, operation);
      } else if (ir::has(operation.opcode, ir::reads) || ir::has(operation.opcode, ir::writes)) {
        body.accesses.push_back(id);
        body.one_lane = body.one_lane || operation.opcode == Opcode::atomic || operation.opcode == Opcode::atomic_cas;
      }
    }
    const int work = instructions();
    body.unroll = work <= 6 ? 4 : work <= 24 ? 2 : 1;
    if (body.one_lane) body.unroll = 1;
    const int lanes = body.one_lane ? 1 : l_.machine.lanes;
    for (Reduction& reduction : reductions_) prepare(reduction, lanes, body.unroll);
    const auto row_begin = [&](const Point&) { start_row(); };
    const auto vector = [&](const Point& point, int part) { one_vector(point, part); };
    const auto row_end = [&](const Point& point) { finish_row(point); };
    if (!reductions_.empty()) body.row_begin = row_begin, body.row_end = row_end;
    body.vector = vector;
    emit_sweep(l_, group_.shape, body);
    for (const Reduction& reduction : reductions_) round_result(reduction);
  }

 private:
  void add_reduction(OperationId id, const Operation& operation) {
    Reduction reduction;
    reduction.id = id;
    reduction.kind = std::string(operation.attributes.string(AttributeName::kind));
    reduction.element = l_.type(operation.operands[0]).element;
    reduction.axis = static_cast<int>(operation.attributes.integer(AttributeName::axis));
    reduction.type = compute_type(l_, l_.type(operation.operands[0]));
    reduction.along_vector = reduction.axis == vector_axis_;
    reductions_.push_back(reduction);
  }

  Value result(const Reduction& reduction) const { return l_.function.operation(reduction.id).results[0]; }

  void prepare(Reduction& reduction, int lanes, int unroll) {
    if (reduction.along_vector) {
      for (int i = 0; i < unroll; ++i) reduction.vectors.push_back(local(l_, vector_of(reduction.type, lanes), "partial"));
      reduction.rest = local(l_, reduction.type, "rest");
      return;
    }
    const Value value = result(reduction);
    Lane lane;
    lane.value = identity(reduction.kind, reduction.element, reduction.type);
    lane.uniform = true;
    const auto fill = [&](const Point& point, int) { store_slot(l_, value, point, lane, l_.plan.slot[value.index]); };
    emit_sweep(l_, l_.type(value).shape(), {.accesses = {}, .unroll = 4, .row_begin = nullptr, .vector = fill, .row_end = nullptr});
  }

  void start_row() {
    for (const Reduction& reduction : reductions_) {
      if (!reduction.along_vector) continue;
      for (llvm::AllocaInst* partial : reduction.vectors) {
        l_.builder.CreateStore(identity(reduction.kind, reduction.element, partial->getAllocatedType()), partial);
      }
      l_.builder.CreateStore(identity(reduction.kind, reduction.element, reduction.type), reduction.rest);
    }
  }

  void one_vector(const Point& point, int part) {
    struct Pending {
      Value value;
      Lane lane;
    };
    std::vector<Pending> pending;               // slots are written last: what is updated in place is read first
    std::size_t next_reduction = 0;
    for (OperationId id : group_.operations) {
      const Operation& operation = l_.function.operation(id);
      set_location(l_, operation);
      if (operation.opcode == Opcode::reduce) {
        accumulate(reductions_[next_reduction++], point, part);
        continue;
      }
      const bool access = ir::has(operation.opcode, ir::reads) || ir::has(operation.opcode, ir::writes);
      const Lane lane = access ? emit_access(l_, id, point) : evaluate_elementwise(l_, operation, point);
      if (operation.results.empty()) continue;
      remember(l_, operation.results[0], point, lane);
      if (l_.plan.slot[operation.results[0].index] >= 0) pending.push_back({operation.results[0], lane});
    }
    for (const Pending& store : pending) store_slot(l_, store.value, point, store.lane, l_.plan.slot[store.value.index]);
  }

  void accumulate(const Reduction& reduction, const Point& point, int part) {
    llvm::IRBuilder<>& b = l_.builder;
    const Operation& operation = l_.function.operation(reduction.id);
    llvm::Value* x = as_vector(l_, evaluate(l_, operation.operands[0], point), point.lanes);
    if (!reduction.along_vector) {
      const Value value = result(reduction);
      const Point target = without_axis(point, reduction.axis);
      llvm::Value* before = as_vector(l_, load_slot(l_, value, l_.type(value).shape(), target), point.lanes);
      store_slot(l_, value, target, {.value = combine(l_, reduction.kind, reduction.element, before, x)}, l_.plan.slot[value.index]);
      return;
    }
    llvm::AllocaInst* accumulator = reduction.vectors[static_cast<std::size_t>(part)];
    if (accumulator->getAllocatedType() != x->getType()) {
      accumulator = reduction.rest;
      x = across_lanes(l_, reduction.kind, reduction.element, x);
    }
    llvm::Value* before = b.CreateLoad(accumulator->getAllocatedType(), accumulator);
    b.CreateStore(combine(l_, reduction.kind, reduction.element, before, x), accumulator);
  }

  void finish_row(const Point& point) {
    llvm::IRBuilder<>& b = l_.builder;
    for (const Reduction& reduction : reductions_) {
      if (!reduction.along_vector) continue;
      set_location(l_, l_.function.operation(reduction.id));
      llvm::Value* total = nullptr;
      for (llvm::AllocaInst* partial : reduction.vectors) {
        llvm::Value* next = b.CreateLoad(partial->getAllocatedType(), partial);
        total = total ? combine(l_, reduction.kind, reduction.element, total, next) : next;
      }
      total = across_lanes(l_, reduction.kind, reduction.element, total);
      total = combine(l_, reduction.kind, reduction.element, total, b.CreateLoad(reduction.type, reduction.rest));
      total = round_to(l_, reduction.element, total);
      const Value value = result(reduction);
      if (l_.type(value).rank == 0) {
        l_.scalars[value.index] = total;
      } else {
        Point target = without_axis(point, reduction.axis);
        target.vector_axis = -1;
        store_slot(l_, value, target, {.value = total, .uniform = true}, l_.plan.slot[value.index]);
      }
    }
  }

  void round_result(const Reduction& reduction) {
    if (reduction.along_vector || !l_.plan.wide[result(reduction).index]) return;
    const Value value = result(reduction);
    const auto body = [&](const Point& point, int) {
      const Lane before = load_slot(l_, value, l_.type(value).shape(), point);
      store_slot(l_, value, point, {.value = round_to(l_, reduction.element, before.value)}, l_.plan.slot[value.index]);
    };
    emit_sweep(l_, l_.type(value).shape(), {.accesses = {}, .row_begin = nullptr, .vector = body, .row_end = nullptr});
  }

  Lowering& l_;
  const Group& group_;
  int vector_axis_;
  std::vector<Reduction> reductions_;
};

/// The user's combination, on vectors: the block's scalars stand for lanes.
std::vector<llvm::Value*> run_block(Lowering& l, const Operation& reduce, const std::vector<llvm::Value*>& arguments, int lanes) {
  const ir::Block& block = l.function.block(reduce.blocks[0]);
  std::map<std::uint32_t, llvm::Value*> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) values[block.arguments[i].index] = arguments[i];
  const auto get = [&](Value value) {
    const auto found = values.find(value.index);
    Lane lane;
    lane.uniform = found == values.end();
    lane.value = lane.uniform ? l.scalars[value.index] : found->second;
    return as_vector(l, lane, lanes);
  };
  for (OperationId id : block.operations) {
    const Operation& operation = l.function.operation(id);
    set_location(l, operation);
    std::vector<llvm::Value*> operands;
    for (Value operand : operation.operands) operands.push_back(get(operand));
    if (operation.opcode == Opcode::yield) return operands;
    if (operation.opcode == Opcode::constant) {
      values[operation.results[0].index] = as_vector(l, {.value = constant_value(l, operation), .uniform = true}, lanes);
    } else if (ir::has(operation.opcode, ir::elementwise)) {
      values[operation.results[0].index] = emit_elementwise(l, operation, operands, l.type(operation.operands.back()), l.type(operation.results[0]));
    } else {
      throw CompileError("flextile: compile error in kernel \"" + l.function.name + "\"\n  [reduce] the combination uses " +
                         std::string(ir::name(operation.opcode)) + ": it may use element-wise operations only");
    }
  }
  return {};
}

}  // namespace

void emit_group_sweep(Lowering& l, const Group& group) { GroupSweep(l, group).emit(); }

void emit_custom_reduce(Lowering& l, const Operation& operation) {
  llvm::IRBuilder<>& b = l.builder;
  const int axis = static_cast<int>(operation.attributes.integer(AttributeName::axis));
  const ir::Type& input = l.type(operation.operands[0]);
  const bool to_scalar = input.rank == 1;
  const auto at_point = [&](const Point& point, int) {
    llvm::BasicBlock* row_block = l.sweep->row_block;
    l.sweep->row_block = nullptr;                // everything below depends on the loop's index
    Point element;
    element.rank = input.rank;
    element.lanes = to_scalar ? 1 : point.lanes;
    element.vector_axis = to_scalar ? 0 : point.vector_axis + (point.vector_axis >= axis ? 1 : 0);
    for (int i = 0, from = 0; i < input.rank; ++i) {
      if (i != axis) element.index[static_cast<std::size_t>(i)] = point.index[static_cast<std::size_t>(from++)];
    }
    const auto inputs = [&](llvm::Value* index) {
      element.index[static_cast<std::size_t>(axis)] = index;
      std::vector<llvm::Value*> values;
      for (Value operand : operation.operands) values.push_back(as_vector(l, evaluate(l, operand, element), element.lanes));
      return values;
    };
    std::vector<llvm::AllocaInst*> totals;
    for (llvm::Value* first : inputs(index_constant(l, 0))) {
      totals.push_back(local(l, first->getType(), "total"));
      b.CreateStore(first, totals.back());
    }
    emit_loop(l, index_constant(l, 1), index_constant(l, input.extents[static_cast<std::size_t>(axis)]), 1, [&](llvm::Value* index) {
      std::vector<llvm::Value*> arguments;
      for (llvm::AllocaInst* total : totals) arguments.push_back(b.CreateLoad(total->getAllocatedType(), total));
      for (llvm::Value* value : inputs(index)) arguments.push_back(value);
      const std::vector<llvm::Value*> next = run_block(l, operation, arguments, element.lanes);
      for (std::size_t i = 0; i < totals.size(); ++i) b.CreateStore(next[i], totals[i]);
    });
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const Value result = operation.results[i];
      llvm::Value* total = b.CreateLoad(totals[i]->getAllocatedType(), totals[i]);
      if (to_scalar) l.scalars[result.index] = total;
      else store_slot(l, result, point, {.value = total}, l.plan.slot[result.index]);
    }
    l.sweep->row_block = row_block;
  };
  const ir::Shape shape = to_scalar ? ir::Shape{1} : l.type(operation.results[0]).shape();
  emit_sweep(l, shape, {.accesses = {}, .one_lane = to_scalar, .row_begin = nullptr, .vector = at_point, .row_end = nullptr});
}

}  // namespace flextile::backend::host
