// Traced control flow: for (auto i : range(lo, hi)), while_, if_ / else_. Variables (Var) that change inside become
// carried values; C++'s own for and if constexpr run while the kernel is traced.
#pragma once
#include <exception>
#include <flextile/dsl/variable.hpp>

namespace flextile {

/// A block whose variables stand for "the value when the block is entered". Once it is known which ones change, those
/// become arguments of the block and the others turn back into the value from outside.
class CarriedBlock {
 public:
  CarriedBlock() = default;
  /// Starts tracing into a fresh block whose first arguments have the types `leading`.
  CarriedBlock(Tracing& tracing, const std::vector<ir::Type>& leading) : tracing_(&tracing), outside_(tracing.slots) {
    ir::Function& function = tracing.builder.function();
    block = function.add_block();
    for (const ir::Type& type : leading) leading_.push_back(function.add_argument(block, type));
    ir::BlockId entry = function.add_block();  // holds the stand-ins; nothing refers to it later
    for (ir::Value& slot : tracing.slots) slot = function.add_argument(entry, ir::Type(function.type(slot)));
    entered_ = tracing.slots;
    first_operation_ = static_cast<std::uint32_t>(function.operation_count());
    tracing.builder.set_insertion_block(block);
  }

  ir::Value leading(int i) const { return leading_[i]; }
  const std::vector<ir::Value>& outside() const { return outside_; }

  /// Ends tracing into the block: remembers the variables' values and restores those from outside. Variables that were
  /// made inside end.
  void leave(ir::BlockId outside_block) {
    left_.assign(tracing_->slots.begin(), tracing_->slots.begin() + outside_.size());
    end_operation_ = static_cast<std::uint32_t>(tracing_->builder.function().operation_count());
    tracing_->slots = outside_;
    tracing_->builder.set_insertion_block(outside_block);
  }

  bool changed(std::size_t slot) const { return left_[slot] != entered_[slot]; }

  /// Makes the chosen variables arguments of the block, and gives their values at its end.
  std::vector<ir::Value> carry(const std::vector<std::size_t>& slots) {
    ir::Function& function = tracing_->builder.function();
    replacement_ = outside_;
    for (std::size_t slot : slots) replacement_[slot] = function.add_argument(block, ir::Type(function.type(entered_[slot])));
    if (!entered_.empty()) {
      for (std::uint32_t id = first_operation_; id < end_operation_; ++id) {
        for (ir::Value& value : function.operation({id}).operands) value = inside(value);
      }
    }
    std::vector<ir::Value> last;
    for (std::size_t slot : slots) last.push_back(inside(left_[slot]));
    return last;
  }
  /// A value that was seen while tracing into the block, now that carry() has settled what stands for what.
  ir::Value inside(ir::Value value) const {
    if (entered_.empty() || value.index < entered_.front().index || value.index > entered_.back().index) return value;
    return replacement_[value.index - entered_.front().index];
  }

  ir::BlockId block;

 private:
  Tracing* tracing_ = nullptr;
  std::vector<ir::Value> leading_, outside_, entered_, left_, replacement_;
  std::uint32_t first_operation_ = 0, end_operation_ = 0;
};

inline ir::OperationId append_operation(ir::Builder& builder, ir::BlockId block, ir::Operation operation,
                                        const std::vector<ir::Type>& results) {
  return builder.function().append(block, static_cast<ir::Operation&&>(operation), results);
}

inline std::vector<ir::Type> types_of(const ir::Builder& builder, const std::vector<ir::Value>& values) {
  std::vector<ir::Type> types;
  for (ir::Value value : values) types.push_back(builder.type(value));
  return types;
}

/// Adds yield (or another ending) to a block that is complete.
inline void end_block(ir::Builder& builder, ir::BlockId block, ir::Opcode ending, const std::vector<ir::Value>& values) {
  ir::Operation operation;
  operation.opcode = ending;
  operation.operands = values;
  operation.location = builder.location;
  append_operation(builder, block, static_cast<ir::Operation&&>(operation), {});
}

/// How a loop may be scheduled. 0: the compiler decides.
struct LoopHints {
  int stages = 0;  ///< loads in flight
  int unroll = 0;  ///< copies of the body
};

/// The loop of `for (auto i : range(...))`. Its body runs once, while it is traced.
class Range {
 public:
  Range(ir::Value lower, ir::Value upper, ir::Value step, LoopHints hints, const Where& where)
      : tracing_(Tracing::current()), bounds_{lower, upper, step}, hints_(hints), where_(where), exceptions_(std::uncaught_exceptions()) {}
  Range(const Range&) = delete;
  /// A loop that was begun and not finished was left by break or return: the trace cannot follow that.
  ~Range() noexcept(false) {
    if (body_ && std::uncaught_exceptions() == exceptions_) {
      builder_at(where_).fail(
          "[for] the body of this traced loop was left by break, return or goto: its iterations are not known while tracing; "
          "put the condition into while_, or use if_");
    }
  }

  struct End {};
  class Iterator {
   public:
    explicit Iterator(Range& range) : range_(range) {}
    bool operator!=(End) const { return !range_.finished_; }
    Scalar<i32> operator*() const { return Scalar<i32>::of(range_.body_storage_.leading(0)); }
    void operator++() { range_.finish(); }

   private:
    Range& range_;
  };
  Iterator begin() {
    outside_block_ = tracing_.builder.insertion_block();
    body_storage_ = CarriedBlock(tracing_, {ir::Type::scalar(ElementType::i32)});
    body_ = true;
    finished_ = false;   // a range can be looped over again
    return Iterator(*this);
  }
  End end() const { return {}; }

 private:
  friend class Iterator;
  void finish() {
    body_ = false;
    finished_ = true;
    ir::Builder& builder = tracing_.builder;
    body_storage_.leave(outside_block_);
    std::vector<std::size_t> changed;
    for (std::size_t slot = 0; slot < body_storage_.outside().size(); ++slot) {
      if (body_storage_.changed(slot)) changed.push_back(slot);
    }
    builder.set_location(where_.file_name(), where_.line());
    end_block(builder, body_storage_.block, Opcode::yield, body_storage_.carry(changed));
    ir::Operation loop;
    loop.opcode = Opcode::for_;
    loop.operands.assign(bounds_, bounds_ + 3);
    for (std::size_t slot : changed) loop.operands.push_back(tracing_.slots[slot]);
    loop.blocks = {body_storage_.block};
    loop.location = builder.location;
    if (hints_.stages) loop.attributes.set(ir::AttributeName::stages, std::int64_t{hints_.stages});
    if (hints_.unroll) loop.attributes.set(ir::AttributeName::unroll, std::int64_t{hints_.unroll});
    std::vector<ir::Value> initial(loop.operands.begin() + 3, loop.operands.end());
    ir::OperationId id = builder.create(static_cast<ir::Operation&&>(loop), types_of(builder, initial));
    for (std::size_t i = 0; i < changed.size(); ++i) tracing_.slots[changed[i]] = builder.results(id)[i];
  }

  Tracing& tracing_;
  ir::Value bounds_[3];
  LoopHints hints_;
  Where where_;
  int exceptions_;
  ir::BlockId outside_block_;
  CarriedBlock body_storage_;
  bool body_ = false, finished_ = false;
};

template <class X>
ir::Value emit_bound(ir::Builder& builder, X&& x) {
  static_assert(rules::is_an_index<code_of<X>>());
  static_assert(rules::is_scalar_shape<shape_of<X>>());
  Emitted bound = emit_operand(builder, static_cast<X&&>(x));
  if (!bound.value && bound.number.as_integer(ElementType::i32) != bound.number.integer) {
    builder.fail("[for] the bound or step " + std::to_string(bound.number.integer) + " does not fit i32, the type of a loop's index");
  }
  return emit_index(builder, bound);
}

/// lower, lower + step, ... below upper. Traced: its body runs once.
///   for (auto k : range(0, a.size(1), 32, {.stages = 4})) acc = dot(...);
template <NumberOperand L, NumberOperand U, NumberOperand S>
Range range(L&& lower, U&& upper, S&& step, LoopHints hints = {}, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value low = emit_bound(builder, static_cast<L&&>(lower));
  ir::Value high = emit_bound(builder, static_cast<U&&>(upper));
  return Range(low, high, emit_bound(builder, static_cast<S&&>(step)), hints, where);
}
template <NumberOperand L, NumberOperand U>
Range range(L&& lower, U&& upper, LoopHints hints = {}, Where where = Where::current()) {
  return range(static_cast<L&&>(lower), static_cast<U&&>(upper), 1, hints, where);
}
template <NumberOperand U>
Range range(U&& upper, LoopHints hints = {}, Where where = Where::current()) {
  return range(0, static_cast<U&&>(upper), 1, hints, where);
}

/// What condition gave, as one i1.
template <class C>
ir::Value emit_condition(ir::Builder& builder, C&& condition) {
  static_assert(rules::is_condition<code_of<C>>());
  static_assert(rules::is_scalar_shape<shape_of<C>>());
  return emit_value(builder, static_cast<C&&>(condition));
}

/// Repeats body while condition() gives true: while_([&] { return i < n; }, [&] { i = i + 1; });
template <class Condition, class Body>
void while_(Condition&& condition, Body&& body, Where where = Where::current()) {
  Tracing& tracing = Tracing::current();
  ir::Builder& builder = builder_at(where);
  ir::BlockId outside = builder.insertion_block();
  CarriedBlock before(tracing, {});
  ir::Value keep_going = emit_condition(builder, condition());
  before.leave(outside);
  CarriedBlock inside(tracing, {});
  body();
  inside.leave(outside);
  std::vector<std::size_t> changed;
  for (std::size_t slot = 0; slot < before.outside().size(); ++slot) {
    if (before.changed(slot) || inside.changed(slot)) changed.push_back(slot);
  }
  builder.set_location(where.file_name(), where.line());
  std::vector<ir::Value> passed = before.carry(changed);
  passed.insert(passed.begin(), before.inside(keep_going));
  end_block(builder, before.block, Opcode::condition, passed);
  end_block(builder, inside.block, Opcode::yield, inside.carry(changed));
  ir::Operation loop;
  loop.opcode = Opcode::while_;
  for (std::size_t slot : changed) loop.operands.push_back(tracing.slots[slot]);
  loop.blocks = {before.block, inside.block};
  loop.location = builder.location;
  std::vector<ir::Type> types = types_of(builder, loop.operands);
  ir::OperationId id = builder.create(static_cast<ir::Operation&&>(loop), types);
  for (std::size_t i = 0; i < changed.size(); ++i) tracing.slots[changed[i]] = builder.results(id)[i];
}

/// A branch that is being traced; else_ completes it.
class Branch {
 public:
  template <class Then>
  Branch(ir::Value condition, Then&& then, const Where& where) : tracing_(Tracing::current()), condition_(condition), where_(where) {
    outside_ = tracing_.slots;
    outside_block_ = tracing_.builder.insertion_block();
    trace(then, blocks_[0], then_);
  }
  Branch(const Branch&) = delete;
  ~Branch() noexcept(false) {
    if (done_) return;
    blocks_[1] = tracing_.builder.function().add_block();
    else_values_ = outside_;
    finish();
  }

  /// What runs where the condition is false.
  template <class Else>
  void else_(Else&& otherwise) {
    done_ = true;  // if tracing throws, nothing is left to complete
    trace(otherwise, blocks_[1], else_values_);
    finish();
  }

 private:
  template <class Body>
  void trace(Body&& body, ir::BlockId& block, std::vector<ir::Value>& values) {
    ir::Builder& builder = tracing_.builder;
    block = builder.function().add_block();
    builder.set_insertion_block(block);
    body();
    values.assign(tracing_.slots.begin(), tracing_.slots.begin() + outside_.size());
    tracing_.slots = outside_;
    builder.set_insertion_block(outside_block_);
  }
  void finish() {
    done_ = true;
    ir::Builder& builder = tracing_.builder;
    builder.set_location(where_.file_name(), where_.line());
    std::vector<std::size_t> changed;
    std::vector<ir::Value> then_results, else_results;
    for (std::size_t slot = 0; slot < outside_.size(); ++slot) {
      if (then_[slot] == outside_[slot] && else_values_[slot] == outside_[slot]) continue;
      changed.push_back(slot);
      then_results.push_back(then_[slot]);
      else_results.push_back(else_values_[slot]);
    }
    end_block(builder, blocks_[0], Opcode::yield, then_results);
    end_block(builder, blocks_[1], Opcode::yield, else_results);
    ir::Operation branch;
    branch.opcode = Opcode::if_;
    branch.operands = {condition_};
    branch.blocks = {blocks_[0], blocks_[1]};
    branch.location = builder.location;
    std::vector<ir::Type> types = types_of(builder, then_results);
    ir::OperationId id = builder.create(static_cast<ir::Operation&&>(branch), types);
    for (std::size_t i = 0; i < changed.size(); ++i) tracing_.slots[changed[i]] = builder.results(id)[i];
  }

  Tracing& tracing_;
  ir::Value condition_;
  Where where_;
  std::vector<ir::Value> outside_, then_, else_values_;
  ir::BlockId outside_block_, blocks_[2];
  bool done_ = false;
};

/// Runs then where the scalar condition holds: if_(i < n, [&] { acc = acc + x; }).else_([&] { ... });
template <class C, class Then>
Branch if_(C&& condition, Then&& then, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  return Branch(emit_condition(builder, static_cast<C&&>(condition)), then, where);
}

}  // namespace flextile
