// Lifts a fragment written on scalars to tiles. lifted_shapes() says which shape every value will have; this file emits.
#include <utility>

#include "builder_support.hpp"
#include "lifted_shapes.hpp"
#include "structure.hpp"

namespace flextile::ir {
namespace {

/// Says which elements may be read.
struct Guard {
  Value mask;
  bool reduces;  // "or"-reduced for reads of a smaller shape; else such reads are not guarded by it
};

class Inliner {
 public:
  ~Inliner() { builder_.location = call_location_; }

  Inliner(Builder& builder, const Function& fragment, std::vector<Guard> guards)
      : builder_(builder),
        fragment_(fragment),
        guards_(std::move(guards)),
        values_(fragment.value_count()),
        call_location_(builder.location) {
    for (const std::string& file : fragment.files) files_.push_back(file.empty() ? 0 : builder.function().file(file));
  }

  std::vector<Value> run(const std::vector<Value>& arguments) {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      values_[fragment_.parameter(i).index] = arguments[i];
      const Type& type = builder_.type(arguments[i]);
      shapes.push_back(type.has_shape() ? type.shape() : Shape{});
    }
    shapes_ = lifted_shapes(builder_, fragment_, shapes);
    return emit_block(fragment_.body());
  }

 private:
  Value operator[](Value value) const { return values_[value.index]; }
  const Shape& shape(Value value) const { return shapes_[value.index]; }
  Value widened(Value value, const Shape& shape) { return builder_.broadcast((*this)[value], shape); }
  Type lifted(Value value) const { return fragment_.type(value).with_shape(shape(value)); }

  // Emits the operations; returns what the block's terminator passes on.
  std::vector<Value> emit_block(BlockId block) {
    std::vector<Value> passed;
    for (OperationId id : fragment_.block(block).operations) {
      const Operation& operation = fragment_.operation(id);
      const Location& location = operation.location;
      builder_.location =
          location.line == 0 ? call_location_ : Location{location.file < files_.size() ? files_[location.file] : 0, location.line};
      if (lifting(operation.opcode) == Lifting::ending) {
        for (Value operand : operation.operands) passed.push_back((*this)[operand]);
      } else {
        emit(operation);
      }
    }
    return passed;
  }

  void emit(const Operation& operation) {
    switch (lifting(operation.opcode)) {
      case Lifting::elementwise:
        return emit_elementwise(operation);
      case Lifting::identity:
        values_[operation.results[0].index] = (*this)[operation.operands[0]];
        return;
      case Lifting::uniform:
        return emit_uniform(operation);
      case Lifting::gather:
        return emit_gather(operation);
      case Lifting::load:
        return emit_load(operation);
      case Lifting::loop:
        return emit_loop(operation);
      case Lifting::choice:
        return emit_choice(operation);
      case Lifting::repeat:
        return emit_repeat(operation);
      case Lifting::ending:
      case Lifting::refused:
        return;
    }
  }

  void emit_elementwise(const Operation& operation) {
    Value result = operation.results[0];
    Operation copy{.opcode = operation.opcode, .attributes = operation.attributes};
    for (Value operand : operation.operands) copy.operands.push_back(widened(operand, shape(result)));
    values_[result.index] = builder_.results(builder_.create(std::move(copy), {lifted(result)}))[0];
  }

  void emit_uniform(const Operation& operation) {
    Value result = operation.results[0];
    Operation copy{.opcode = operation.opcode, .attributes = operation.attributes};
    for (Value operand : operation.operands) copy.operands.push_back((*this)[operand]);
    values_[result.index] = builder_.results(builder_.create(std::move(copy), {lifted(result)}))[0];
  }

  // `mask` reduced to a shape that is smaller on some axes: set where any element along them is.
  Value reduced(Value mask, const Shape& shape) {
    Shape from = builder_.type(mask).shape();
    int surplus = static_cast<int>(from.size()) - static_cast<int>(shape.size());
    for (int axis = static_cast<int>(from.size()); axis-- > 0;) {
      std::int32_t wanted = axis >= surplus ? shape[axis - surplus] : 1;
      if (from[axis] == 1 || wanted != 1) continue;
      mask = builder_.expand_dims(builder_.reduce("or", mask, axis), axis);
      from[axis] = 1;
    }
    if (surplus > 0) mask = builder_.reshape(mask, Shape(from.begin() + surplus, from.end()));
    return mask;
  }

  // The conjunction of `own` (may be none) and of the guards that concern reads of `shape`; none if there are none.
  Value guarded(Value own, const Shape& shape) {
    Value result = own ? builder_.broadcast(own, shape) : own;
    for (const Guard& guard : guards_) {
      Value mask = guard.mask;
      Shape merged;
      if (!broadcast_shapes(builder_.type(mask).shape(), shape, merged) || merged != shape) {
        if (!guard.reduces) continue;
        mask = reduced(mask, shape);
      }
      mask = builder_.broadcast(mask, shape);
      result = result ? builder_.binary(Opcode::bit_and, result, mask) : mask;
    }
    return result;
  }

  void emit_gather(const Operation& operation) {
    Value result = operation.results[0];
    bool masked = operation.attributes.integer(AttributeName::has_mask) != 0;
    std::size_t count = operation.operands.size() - (masked ? 1 : 0);
    std::vector<Value> indices;
    for (std::size_t i = 1; i < count; ++i) indices.push_back(widened(operation.operands[i], shape(result)));
    Value mask = guarded(masked ? (*this)[operation.operands.back()] : Value{}, shape(result));
    values_[result.index] = builder_.gather((*this)[operation.operands[0]], std::move(indices), mask);
  }

  void emit_load(const Operation& operation) {
    Value result = operation.results[0];
    Value pointer = widened(operation.operands[0], shape(result));
    Value mask = guarded(operation.operands.size() > 1 ? (*this)[operation.operands[1]] : Value{}, shape(result));
    Value other;
    if (operation.operands.size() > 2) other = widened(operation.operands[2], shape(result));
    if (mask && !other) other = builder_.splat(lifted(result), std::int64_t{0});
    values_[result.index] = builder_.load(pointer, mask, other);
  }

  std::vector<Value> initial_values(const Operation& operation, std::size_t first) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < operation.results.size(); ++i)
      values.push_back(widened(operation.operands[first + i], shape(operation.results[i])));
    return values;
  }

  void widen_to_results(std::vector<Value>& values, const Operation& operation) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = builder_.broadcast(values[i], shape(operation.results[i]));
  }

  void take_results(const Operation& operation, OperationId emitted) {
    for (std::size_t i = 0; i < operation.results.size(); ++i) values_[operation.results[i].index] = builder_.results(emitted)[i];
  }

  // Bounds that differ between elements: the loop runs as long as any element's does, and an element whose own loop is
  // over keeps its values.
  void emit_loop(const Operation& operation) {
    Value lower = (*this)[operation.operands[0]], upper = (*this)[operation.operands[1]], step = (*this)[operation.operands[2]];
    ElementType element = builder_.type(lower).element;
    bool ragged = !builder_.type(upper).is_scalar(), offset = !builder_.type(lower).is_scalar() || !builder_.type(step).is_scalar();
    Value first = lower, last = upper, stride = step;
    if (offset) {
      stride = builder_.constant(element, std::int64_t{1});
      Value length = builder_.binary(Opcode::sub, builder_.binary(Opcode::add, builder_.binary(Opcode::sub, upper, lower), step), stride);
      first = builder_.constant(element, std::int64_t{0});
      last = builder_.reduce("max", builder_.binary(Opcode::div, length, step), -1);
    } else if (ragged) {
      last = builder_.reduce("max", upper, -1);
    }
    OperationId loop = builder_.for_loop(first, last, stride, initial_values(operation, 3), operation.attributes);
    BlockId outside = builder_.insertion_block();
    builder_.set_insertion_block(builder_.function().operation(loop).blocks[0]);
    Value index = builder_.argument(loop, 0, 0);
    if (offset) index = builder_.binary(Opcode::add, lower, builder_.binary(Opcode::mul, index, step));
    const std::vector<Value>& arguments = fragment_.block(operation.blocks[0]).arguments;
    values_[arguments[0].index] = index;
    for (std::size_t i = 0; i < operation.results.size(); ++i)
      values_[arguments[i + 1].index] = builder_.argument(loop, 0, static_cast<int>(i) + 1);
    Value active;
    if (offset || ragged) {
      active = builder_.binary(Opcode::lt, index, upper);
      guards_.push_back({active, true});
    }
    std::vector<Value> passed = emit_block(operation.blocks[0]);
    if (active) {
      guards_.pop_back();
      for (std::size_t i = 0; i < passed.size(); ++i) passed[i] = builder_.select(active, passed[i], (*this)[arguments[i + 1]]);
    }
    widen_to_results(passed, operation);
    builder_.yield(passed);
    builder_.set_insertion_block(outside);
    take_results(operation, loop);
  }

  // A choice per element computes both sides and selects; what one side reads is guarded by the condition.
  void emit_choice(const Operation& operation) {
    Value condition = (*this)[operation.operands[0]];
    if (!builder_.type(condition).is_scalar()) {
      guards_.push_back({condition, true});
      std::vector<Value> then = emit_block(operation.blocks[0]);
      guards_.back().mask = builder_.unary(Opcode::bit_not, condition);
      std::vector<Value> otherwise = emit_block(operation.blocks[1]);
      guards_.pop_back();
      for (std::size_t i = 0; i < then.size(); ++i) values_[operation.results[i].index] = builder_.select(condition, then[i], otherwise[i]);
      return;
    }
    std::vector<Type> types;
    for (Value result : operation.results) types.push_back(lifted(result));
    OperationId choice = builder_.if_else(condition, types);
    BlockId outside = builder_.insertion_block();
    for (int side = 0; side < 2; ++side) {
      builder_.set_insertion_block(builder_.function().operation(choice).blocks[side]);
      std::vector<Value> passed = emit_block(operation.blocks[side]);
      widen_to_results(passed, operation);
      builder_.yield(passed);
    }
    builder_.set_insertion_block(outside);
    take_results(operation, choice);
  }

  void emit_repeat(const Operation& operation) {
    OperationId loop = builder_.while_loop(initial_values(operation, 0));
    BlockId outside = builder_.insertion_block();
    for (int part = 0; part < 2; ++part) {
      builder_.set_insertion_block(builder_.function().operation(loop).blocks[part]);
      const std::vector<Value>& arguments = fragment_.block(operation.blocks[part]).arguments;
      for (std::size_t i = 0; i < arguments.size(); ++i) values_[arguments[i].index] = builder_.argument(loop, part, static_cast<int>(i));
      std::vector<Value> passed = emit_block(operation.blocks[part]);
      Value keep_going;
      if (part == 0) {
        keep_going = passed.front();
        passed.erase(passed.begin());
      }
      widen_to_results(passed, operation);
      if (part == 0) {
        builder_.condition(keep_going, passed);
      } else {
        builder_.yield(passed);
      }
    }
    builder_.set_insertion_block(outside);
    take_results(operation, loop);
  }

  Builder& builder_;
  const Function& fragment_;
  std::vector<Guard> guards_;
  std::vector<Value> values_;  // by fragment value
  std::vector<Shape> shapes_;  // by fragment value
  std::vector<std::uint32_t> files_;
  Location call_location_;
};

void check_call(Builder& builder, const Function& fragment, const std::vector<Value>& arguments, const std::vector<Value>& masks) {
  std::string who = join("[inline] fragment \"", fragment.name, "\" ");
  if (arguments.size() != fragment.parameters.size())
    builder.fail(join(who, "takes ", fragment.parameters.size(), " arguments, got ", arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& parameter = fragment.parameters[i];
    std::string role = parameter.name.empty() ? join("argument ", i) : join("argument ", i, " (", parameter.name, ")");
    if (arguments[i].index >= builder.function().value_count()) builder.fail(join(who, role, " is no value of this kernel"));
    const Type& type = builder.type(arguments[i]);
    if (type.has_shape() ? type.with_shape({}) == parameter.type : type == parameter.type) continue;
    builder.fail(join(who, role, " is ", type, ": must be ", parameter.type, parameter.type.has_shape() ? " or a tile of it" : ""));
  }
  for (Value mask : masks) {
    if (mask.index >= builder.function().value_count()) builder.fail(join(who, "has a mask that is no value of this kernel"));
    const Type& type = builder.type(mask);
    if (!type.is_number() || type.element != ElementType::i1) builder.fail(join(who, "has a mask that is ", type, ": must be i1"));
  }
  if (&fragment == &builder.function()) builder.fail(join(who, "cannot be inlined into itself"));
  Fault fault = find_fault(fragment);
  if (!fault.sentence.empty()) builder.fail(join(who, "is broken: ", fault.sentence));
}

}  // namespace

std::vector<Value> Builder::inline_call(const Function& fragment, const std::vector<Value>& arguments, Value mask) {
  std::vector<Value> masks(mask ? 1 : 0, mask);
  check_call(*this, fragment, arguments, masks);
  std::vector<Guard> guards(masks.size(), Guard{mask, true});
  return Inliner(*this, fragment, std::move(guards)).run(arguments);
}

std::vector<Value> Builder::inline_call(const Function& fragment, const std::vector<Value>& arguments, const std::vector<Value>& masks) {
  check_call(*this, fragment, arguments, masks);
  std::vector<Guard> guards;
  for (Value mask : masks) guards.push_back({mask, false});
  return Inliner(*this, fragment, std::move(guards)).run(arguments);
}

}  // namespace flextile::ir
