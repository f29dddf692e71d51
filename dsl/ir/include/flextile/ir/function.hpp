// A function of the tile IR: one kernel, or one mod's fragment. Owns everything; copies are deep.
//
//   func @name(%0: view<2xf32> {aligned, unit_stride}, %1: i32) {
//     %2 = program_id {axis = 0} : i32                       an operation; %2 is a Value
//     %3 = for %4 = %lower, %upper, %step ... { ... }        its block has arguments: the index and the carried values
//   }
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <flextile/ir/attributes.hpp>
#include <flextile/ir/layout.hpp>
#include <flextile/ir/opcode.hpp>
#include <flextile/ir/type.hpp>

namespace flextile::ir {

inline constexpr std::uint32_t none = 0xffffffffu;

/// An index into the Function that owns the value.
struct Value {
  std::uint32_t index = none;
  explicit operator bool() const { return index != none; }
  bool operator==(const Value&) const = default;
};

struct OperationId {
  std::uint32_t index = none;
  explicit operator bool() const { return index != none; }
  bool operator==(const OperationId&) const = default;
};

struct BlockId {
  std::uint32_t index = none;
  explicit operator bool() const { return index != none; }
  bool operator==(const BlockId&) const = default;
};

/// A line of the user's source. `file` indexes Function::files; line 0: unknown.
struct Location {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  bool operator==(const Location&) const = default;
};

struct Operation {
  Opcode opcode{};
  std::vector<Value> operands{};
  std::vector<Value> results{};
  std::vector<BlockId> blocks{};
  Attributes attributes{};
  Location location{};
};

struct Block {
  std::vector<Value> arguments;
  std::vector<OperationId> operations;   // in order; the last one is a terminator
};

/// What is known of an argument when the kernel is compiled. The launch checks it, or picks another variant.
struct Parameter {
  std::string name;
  Type type;
  bool read_only = false;     // pointer or view to const
  bool aligned = false;       // multiples of 16 bytes: a pointer; a view's base, strides but the last (> 0, < 2^40), last extent of 2 axes and more
  bool unit_stride = false;   // view: the last axis has stride 1
  bool operator==(const Parameter&) const = default;
};

/// Where a value is defined: an operation's result or a block's argument.
struct Definition {
  OperationId operation;      // none: a block argument
  BlockId block;              // the block of the argument, or the block that holds the operation
  std::uint32_t position = 0; // index among the results or arguments
};

class Function {
 public:
  std::string name;
  std::vector<Parameter> parameters;     // the arguments of the body block, in order
  std::vector<std::string> files;        // files[0] is "" (unknown)
  std::vector<Layout> layouts;           // referred to by layout_of
  int num_warps = 4;                     // threads per program / 32, on a GPU
  int occupancy = 1;                     // programs that shall share a multiprocessor of a GPU, each with its part of registers and shared memory

  Function() = default;
  /// A function with its body block and one argument per parameter; the body is still empty.
  Function(std::string name, std::vector<Parameter> parameters);

  BlockId body() const { return BlockId{0}; }
  /// The value of parameter i.
  Value parameter(std::size_t i) const { return block(body()).arguments[i]; }

  const Operation& operation(OperationId id) const { return operations_[id.index]; }
  Operation& operation(OperationId id) { return operations_[id.index]; }
  const Block& block(BlockId id) const { return blocks_[id.index]; }
  Block& block(BlockId id) { return blocks_[id.index]; }
  const Type& type(Value value) const { return values_[value.index].type; }
  void set_type(Value value, const Type& type) { values_[value.index].type = type; }
  const Definition& definition(Value value) const { return values_[value.index].definition; }
  /// The defining operation, or null for a block argument.
  const Operation* defining(Value value) const;
  /// Index into `layouts`, or -1 while the value has none.
  int layout_of(Value value) const { return values_[value.index].layout; }
  void set_layout(Value value, const Layout& layout);

  std::size_t value_count() const { return values_.size(); }
  std::size_t operation_count() const { return operations_.size(); }
  std::size_t block_count() const { return blocks_.size(); }

  BlockId add_block();
  Value add_argument(BlockId block, const Type& type);
  /// Appends an operation with fresh results of the given types to `block`.
  OperationId append(BlockId block, Operation operation, const std::vector<Type>& result_types);
  /// Moves an operation, with the blocks inside it, to the end of another block.
  void move(OperationId operation, BlockId from, BlockId to);
  /// The index of `path` in `files`, added if new.
  std::uint32_t file(std::string_view path);

 private:
  struct ValueInfo {
    Type type;
    Definition definition;
    int layout = -1;
  };
  std::vector<Operation> operations_;
  std::vector<Block> blocks_;
  std::vector<ValueInfo> values_;
};

/// The IR as text. parse(print(f)) prints the same text.
std::string print(const Function& function);
/// One operation, on one line, without its blocks. For errors.
std::string print(const Function& function, OperationId operation);
/// Throws CompileError naming the line, the column and what was expected.
Function parse(std::string_view text);

/// Checks structure (dominance, terminators, arity) and every operation's rule. Throws InternalError with the
/// sentence, the operation and the name of what ran last ("after pass cse").
void verify(const Function& function, std::string_view after);

/// The rule that `operation` breaks, as a sentence "[dot] left is ..., right is ...: columns of left (64) must equal
/// rows of right (32)", or "" if it is right. The one place where the IR's typing rules are written down: the builder
/// throws it as CompileError, the verifier as InternalError.
std::string rule_violation(const Function& function, const Operation& operation);

}  // namespace flextile::ir
