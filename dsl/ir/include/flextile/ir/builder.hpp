// Builds a Function operation by operation. Every call checks the operation's rule and throws CompileError
// "flextile: compile error in kernel "name", file:line\n  [op] ..." where it is broken.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::ir {

class Builder {
 public:
  /// Appends to `function`'s body block. The function outlives the builder.
  explicit Builder(Function& function);

  Function& function() { return function_; }
  const Type& type(Value value) const { return function_.type(value); }
  BlockId insertion_block() const { return block_; }
  void set_insertion_block(BlockId block) { block_ = block; }
  /// The location that following operations get.
  Location location;
  void set_location(std::string_view file, std::uint32_t line);

  // ---- constants and indices
  Value constant(ElementType element, double value);
  Value constant(ElementType element, std::int64_t value);
  /// A tile of one value.
  Value splat(const Type& type, double value);
  Value splat(const Type& type, std::int64_t value);
  /// start, start + 1, ..., count values: tile<countxi32>.
  Value arange(int count, std::int64_t start = 0);
  Value program_id(int axis);
  Value num_programs(int axis);

  // ---- element-wise. `unary`, `binary` and `select` promote element types (promote()) and broadcast shapes themselves.
  Value unary(Opcode opcode, Value x);
  /// Arithmetic, bits, shifts, comparisons, offset (pointer + integer).
  Value binary(Opcode opcode, Value a, Value b);
  Value fma(Value a, Value b, Value c);
  Value select(Value condition, Value a, Value b);
  Value cast(Value x, ElementType element);
  Value bitcast(Value x, ElementType element);
  Value offset(Value pointer, Value elements);

  // ---- shape
  Value broadcast(Value x, const Shape& shape);
  Value expand_dims(Value x, int axis);
  Value reshape(Value x, const Shape& shape);
  /// Reversed axes when `permutation` is empty.
  Value transpose(Value x, std::vector<std::int64_t> permutation = {});

  // ---- memory
  Value load(Value pointer, Value mask = {}, Value other = {});
  void store(Value pointer, Value value, Value mask = {});
  /// Tile axes are the last axes of the view; the offsets of the axes before pick one element each.
  Value view_load(Value view, const std::vector<Value>& offsets, const Shape& shape, double other = 0);
  void view_store(Value view, Value value, const std::vector<Value>& offsets);
  /// view[i, j, ...] with index tiles; they broadcast against each other. Masked-off elements are 0 and not read.
  Value gather(Value view, std::vector<Value> indices, Value mask = {});
  Value view_size(Value view, int axis);
  Value view_stride(Value view, int axis);
  Value view_base(Value view);
  Value atomic(std::string_view kind, Value pointer, Value value, Value mask = {}, std::string_view order = "relaxed", std::string_view scope = "gpu");
  Value atomic_cas(Value pointer, Value expected, Value desired, std::string_view order = "acq_rel", std::string_view scope = "gpu");

  // ---- dot and reductions
  /// accumulator + a . b. bf16, f16, f32 operands with an f32 accumulator; f64 with f64; i8 with i32.
  Value dot(Value a, Value b, Value accumulator, std::string_view precision = "tf32");
  /// kind: sum, prod, min, max, and, or, xor. The axis is dropped. axis -1: all axes, one after the other, to a scalar.
  Value reduce(std::string_view kind, Value x, int axis);
  /// User-defined: returns the operation, whose block has 2n scalar arguments (n left, then n right) and is still
  /// empty; fill it with set_insertion_block and yield n values. The combine must be associative and commutative.
  OperationId reduce_custom(const std::vector<Value>& inputs, int axis);

  // ---- structured control flow: the blocks are still empty; fill each and end it with yield (or condition).
  OperationId for_loop(Value lower, Value upper, Value step, const std::vector<Value>& initial, Attributes hints = {});
  OperationId while_loop(const std::vector<Value>& initial);
  OperationId if_else(Value condition, const std::vector<Type>& results);
  void yield(const std::vector<Value>& values);
  void condition(Value keep_going, const std::vector<Value>& carried);
  void return_values(const std::vector<Value>& values = {});

  /// Any operation, checked. For passes and the parser.
  OperationId create(Operation operation, const std::vector<Type>& result_types);
  const std::vector<Value>& results(OperationId operation) const { return function_.operation(operation).results; }
  Value argument(OperationId operation, int block, int index) const;

  /// Inlines a fragment written on scalars, lifted to tiles: each operation acts on the broadcast shape of its operands
  /// only, so what depends on rows alone stays [M, 1]. `arguments` match the fragment's parameters; element types must
  /// be equal, tiles may have any shapes that broadcast. Loops carry what their body needs: a scalar start value widens.
  /// `mask` (optional) guards the fragment's gathers and loads: an element is read only if the mask is set for some
  /// element that needs it. A gather whose shape is smaller than the mask reduces the mask ("or") to its own shape.
  std::vector<Value> inline_call(const Function& fragment, const std::vector<Value>& arguments, Value mask = {});
  /// The same with a mask per axis, such as rows [M, 1] and columns [1, N]: a gather is guarded by those masks that
  /// broadcast into its shape, and none is ever reduced. Right where each mask says which indices of its axis exist.
  std::vector<Value> inline_call(const Function& fragment, const std::vector<Value>& arguments, const std::vector<Value>& masks);

  /// Throws CompileError with the kernel's name and the current location.
  [[noreturn]] void fail(std::string_view sentence) const;

 private:
  Function& function_;
  BlockId block_;
};

}  // namespace flextile::ir
