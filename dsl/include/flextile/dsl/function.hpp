// Tracing with everything known only at trace time: parameters are declared one by one, tiles are AnyTile.
#pragma once
#include <flextile/dsl/view.hpp>
#include <flextile/ir/rewriter.hpp>

namespace flextile {

/// What is known of a parameter when the kernel is compiled. The launch checks it, or takes another variant.
struct ParameterFacts {
  bool read_only = false;    ///< pointers and views
  /// Multiples of 16 bytes: the base; of a view also all strides but the last (above 0 and below 2^40 bytes) and, of 2 axes and more, the
  /// last extent. Axes of one element and empty tensors may have any strides.
  bool aligned = false;
  bool unit_stride = false;  ///< views: the last axis has stride 1
};

/// Declares the parameters of a function that is being traced, in order.
class Parameters {
 public:
  explicit Parameters(ir::Function& function) : function_(function) {}
  AnyView view(std::string_view name, ElementType element, int rank, ParameterFacts facts = {}) {
    return AnyView::of(add(name, ir::Type::view(element, rank), facts));
  }
  AnyPointer pointer(std::string_view name, ElementType element, ParameterFacts facts = {}) {
    return AnyPointer::of(add(name, ir::Type::pointer(element), facts));
  }
  AnyTile scalar(std::string_view name, ElementType element) { return AnyTile::of(add(name, ir::Type::scalar(element), {})); }

 private:
  ir::Value add(std::string_view name, const ir::Type& type, ParameterFacts facts) {
    function_.parameters.push_back({std::string(name), type, facts.read_only, facts.aligned, facts.unit_stride});
    return function_.add_argument(function_.body(), type);
  }
  ir::Function& function_;
};

/// What a kernel is made with beside its body; for kernel() and trace().
struct TraceOptions {
  int num_warps = 4;  ///< threads per program / 32, on a GPU: 1, 2, 4, 8, 12, 16 or 32
  int occupancy = 1;  ///< programs that share a multiprocessor of a GPU at the least, each with its part of registers and shared memory
};

/// Sets the options of the function that is being traced.
inline void apply_options(ir::Builder& builder, const TraceOptions& options, const Where& where) {
  const int warps = options.num_warps;
  builder.set_location(where.file_name(), where.line());
  if (warps != 1 && warps != 2 && warps != 4 && warps != 8 && warps != 12 && warps != 16 && warps != 32)
    builder.fail("[kernel] num_warps is " + std::to_string(warps) + " and must be 1, 2, 4, 8, 12, 16 or 32: a warp is 32 threads of a program");
  builder.function().num_warps = warps;
  if (options.occupancy < 1 || options.occupancy * warps > 64)
    builder.fail("[kernel] occupancy is " + std::to_string(options.occupancy) + " with " + std::to_string(warps) +
                 " warps and must be 1 or more, and at most 64 warps together: that many a multiprocessor holds");
  builder.function().occupancy = options.occupancy;
}

/// Throws where an operation reads a value that was made in a loop or branch that does not enclose it.
inline void check_scopes(ir::Builder& builder, ir::BlockId block, std::vector<bool>& visible) {
  const ir::Function& function = builder.function();
  std::vector<ir::Value> made = function.block(block).arguments;
  for (ir::Value value : made) visible[value.index] = true;
  for (ir::OperationId id : function.block(block).operations) {
    const ir::Operation& operation = function.operation(id);
    for (ir::Value operand : operation.operands) {
      if (visible[operand.index]) continue;
      builder.location = operation.location;
      builder.fail(
          "[scope] a value that was made inside a traced loop or branch is used outside of it: assign it to a Var that was made before the "
          "loop");
    }
    for (ir::BlockId inner : operation.blocks) check_scopes(builder, inner, visible);
    for (ir::Value result : operation.results) visible[result.index] = true, made.push_back(result);
  }
  for (ir::Value value : made) visible[value.index] = false;
}

/// The function in its final form: values numbered in order, nothing left over from tracing.
inline ir::Function settled(ir::Builder& builder) {
  const ir::Function& function = builder.function();
  std::vector<bool> visible(function.value_count());
  check_scopes(builder, function.body(), visible);
  ir::Rewriter rewriter(function);
  rewriter.run([](ir::OperationId) { return false; });
  return rewriter.take();
}

/// Runs body once and records what it does.
///
///   ir::Function f = trace("scale", [](Parameters& p) {
///     AnyView x = p.view("x", ElementType::f32, 1);
///     store(x, load(x, {0}, {128}) * 2.0f, {0});
///   });
template <class Body>
ir::Function trace(std::string_view name, Body&& body, TraceOptions options = {}, Where where = Where::current()) {
  ir::Function function(std::string(name), {});
  Tracing tracing(function);
  apply_options(tracing.builder, options, where);
  Parameters parameters(function);
  body(parameters);
  tracing.builder.return_values();
  return settled(tracing.builder);
}

/// An argument of call(): a tile, scalar, expression, view, pointer or number.
class CallArgument {
 public:
  template <NumberOperand X>
  CallArgument(X&& x, Where where = Where::current()) : emitted_(emit_operand(builder_at(where), static_cast<X&&>(x))) {}
  template <PointerOperand P>
  CallArgument(P&& pointer, Where where = Where::current()) : emitted_{pointer.emit(builder_at(where)), {}} {}
  CallArgument(const AnyView& view) : emitted_{view.value(), {}} {}
  template <class T, int Rank>
  CallArgument(const TensorView<T, Rank>& view) : emitted_{view.value(), {}} {}
  ir::Value emit(ir::Builder& builder, ElementType element) const {
    return emitted_.value ? emitted_.value : emit_number(builder, emitted_.number, element);
  }

 private:
  Emitted emitted_;
};

inline std::vector<AnyTile> emit_call(ir::Builder& builder, const ir::Function& fragment, const std::vector<CallArgument>& arguments,
                                      ir::Value mask) {
  if (arguments.size() != fragment.parameters.size()) {
    builder.fail("[call] " + fragment.name + " takes " + std::to_string(fragment.parameters.size()) + " arguments, got " +
                 std::to_string(arguments.size()));
  }
  std::vector<ir::Value> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) values.push_back(arguments[i].emit(builder, fragment.parameters[i].type.element));
  std::vector<AnyTile> results;
  for (ir::Value value : builder.inline_call(fragment, values, mask)) results.push_back(AnyTile::of(value));
  return results;
}

/// Inlines a fragment written on scalars, such as a mod's, on tiles of any shapes that broadcast; gives its first result.
/// What depends on rows alone stays one column wide. Where mask is false, the fragment's loads are not done.
inline AnyTile call(const ir::Function& fragment, const std::vector<CallArgument>& arguments, Where where = Where::current()) {
  return emit_call(builder_at(where), fragment, arguments, {}).front();
}
template <NumberOperand M>
AnyTile call(const ir::Function& fragment, const std::vector<CallArgument>& arguments, M&& mask, Where where = Where::current()) {
  ir::Builder& builder = builder_at(where);
  ir::Value guard = emit_value(builder, static_cast<M&&>(mask));
  return emit_call(builder, fragment, arguments, guard).front();
}

}  // namespace flextile
