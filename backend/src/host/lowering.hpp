// The state of one lowering from the tile IR to LLVM IR for a CPU, and the functions that its families of operations share.
//
// A tile is computed by sweeps: loops over all axes but one, and along that one (the vector axis: the last axis longer
// than 1) in steps of `lanes` elements. A Point says where a sweep is; a Lane is the value of a tile's elements there.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <flextile/backend/compile.hpp>

#include "host/plan.hpp"

namespace flextile::backend::host {

/// The elements at a Point. Floats narrower than f32 are f32 values, already rounded to their type; i1 is an LLVM i1.
struct Lane {
  llvm::Value* value = nullptr;                 // vector; scalar when uniform or when there is one lane
  llvm::Value* base = nullptr;                  // affine integers and pointers: element l is base + l * step (pointers: in elements)
  std::int64_t step = 0;
  bool uniform = false;                         // all lanes are equal and `value` is a scalar
};

struct Point {
  std::array<llvm::Value*, ir::max_tile_rank> index{};   // i64; along the vector axis: of the first lane
  int rank = 0;
  int vector_axis = -1;                         // -1: one element, the same for all lanes
  int lanes = 1;
  bool whole = true;                            // every access that has a condition is inside: no masks are needed
};

/// A view parameter, unpacked.
struct ViewValue {
  int parameter = -1;
  llvm::Value* base = nullptr;
  std::vector<llvm::Value*> sizes;              // i64
  std::vector<llvm::Value*> strides;            // i64; the constant 1 where the last axis is known to be contiguous
};

/// What a sweep knows of a view_load or view_store: which columns of the current row are inside.
struct ViewAccess {
  llvm::Value* low = nullptr;                   // i64: first column inside, for all rows
  llvm::Value* high = nullptr;
  llvm::Value* inside = nullptr;                // i1: the axes before the tile's
  llvm::Value* origin = nullptr;                // pointer to the tile's first element
  llvm::Value* row_high = nullptr;              // `high`, or 0 for a row that is outside
  llvm::Value* row = nullptr;                   // pointer to the row's column 0
  llvm::Value* stride = nullptr;                // along the vector axis
  bool unit = false;                            // known to be 1
};

using LaneKey = std::tuple<std::uint32_t, std::array<llvm::Value*, ir::max_tile_rank>, int, int>;

struct Sweep {
  llvm::BasicBlock* row_block = nullptr;        // values that do not depend on the vector axis are computed here, once a row
  std::map<LaneKey, Lane> row_memo;
  std::map<LaneKey, Lane> body_memo;
  std::map<std::uint32_t, ViewAccess> views;    // by operation
  std::map<std::uint32_t, bool> conditional;    // by operation: it needs no mask at a whole point
};

struct Lowering {
  const ir::Function& function;
  const Plan& plan;
  const Machine machine;
  const CompileOptions& options;
  llvm::LLVMContext& context;
  llvm::Module& module;
  llvm::IRBuilder<>& builder;
  llvm::Function* program = nullptr;
  llvm::BasicBlock* entry = nullptr;            // allocas
  llvm::Value* scratch = nullptr;
  llvm::Value* nowhere = nullptr;               // 64 bytes that masked-off scalars read and write
  std::vector<llvm::Value*> scalars;            // by value
  std::map<std::uint32_t, ViewValue> views;     // by value
  Sweep* sweep = nullptr;
  std::map<std::tuple<int, int, std::int64_t, std::int64_t, std::int64_t, int>, llvm::Function*> kernels;   // matmul micro-kernels
  llvm::DIBuilder* debug = nullptr;
  llvm::DISubprogram* debug_function = nullptr;
  std::vector<llvm::DIFile*> debug_files;

  const ir::Type& type(ir::Value value) const { return function.type(value); }
};

[[noreturn]] void fail(const Lowering& l, const ir::Operation& operation, const char* sentence);

// ---- types and small things (lanes.cpp)
llvm::Type* compute_type(Lowering& l, const ir::Type& type);            // of one element
llvm::Type* memory_type(Lowering& l, ElementType element);
llvm::Type* vector_of(llvm::Type* element, int lanes);                 // the element itself for one lane
bool is_vector(const llvm::Value* value);
int lanes_of(const llvm::Value* value);
llvm::Value* decode(Lowering& l, ElementType element, llvm::Value* stored);
llvm::Value* encode(Lowering& l, ElementType element, llvm::Value* value);
llvm::Value* index_constant(Lowering& l, std::int64_t value);
llvm::Value* iota(Lowering& l, llvm::Type* integer, int lanes, std::int64_t step = 1);
/// The lanes as a vector (as a scalar for one lane).
llvm::Value* as_vector(Lowering& l, const Lane& lane, int lanes, ElementType pointee = ElementType::i8);
llvm::AllocaInst* local(Lowering& l, llvm::Type* type, const char* name);
llvm::Value* constant_value(Lowering& l, const ir::Operation& operation);
void set_location(Lowering& l, const ir::Operation& operation);

// ---- tiles in slots (slots.cpp)
llvm::Value* slot_pointer(Lowering& l, int slot);
Lane load_slot(Lowering& l, ir::Value stored, const ir::Shape& shape, const Point& point);
void store_slot(Lowering& l, ir::Value value, const Point& point, const Lane& lane, int slot);

// ---- values (lanes.cpp)
/// The value of a tile at a point: from the memo, from its slot, or computed.
Lane evaluate(Lowering& l, ir::Value value, const Point& point);
void remember(Lowering& l, ir::Value value, const Point& point, const Lane& lane);
/// What one element-wise operation gives for these lanes (lane arithmetic on affine lanes included).
Lane evaluate_elementwise(Lowering& l, const ir::Operation& operation, const Point& point);

/// Where the operand's elements are, for broadcast, expand_dims, transpose and a reshape that only moves extents of 1.
Point operand_point(Lowering& l, const ir::Operation& operation, const Point& point);

// ---- loops (sweep.cpp)
void emit_loop(Lowering& l, llvm::Value* lower, llvm::Value* upper, std::int64_t step, llvm::function_ref<void(llvm::Value*)> body);
struct SweepBody {
  std::vector<ir::OperationId> accesses;        // operations that touch memory
  bool one_lane = false;
  int unroll = 1;
  llvm::function_ref<void(const Point&)> row_begin;
  llvm::function_ref<void(const Point&, int)> vector;   // point, which of the unrolled copies
  llvm::function_ref<void(const Point&)> row_end;
};
void emit_sweep(Lowering& l, const ir::Shape& shape, const SweepBody& body);
/// Computes a value (lazy, or in another slot) into `slot`, which holds tiles like `like`.
void copy_tile(Lowering& l, ir::Value value, ir::Value like, int slot);
int vector_axis_of(const ir::Shape& shape);

// ---- families
/// `operands` are scalars or vectors in compute types; so is the result, rounded to `result`'s element type.
llvm::Value* emit_elementwise(Lowering& l, const ir::Operation& operation, const std::vector<llvm::Value*>& operands, const ir::Type& operand_type,
                              const ir::Type& result);                                            // elementwise.cpp
llvm::Value* round_to(Lowering& l, ElementType element, llvm::Value* value);                      // elementwise.cpp
llvm::Value* emit_math(Lowering& l, ir::Opcode opcode, llvm::Value* x);                           // math.cpp
bool begin_access(Lowering& l, ir::OperationId id, const Point& anywhere);                        // memory.cpp: before the rows
void begin_access_row(Lowering& l, ir::OperationId id, const Point& row);                         // memory.cpp
/// The scalar condition under which all lanes of the vector at `point` are inside; null: no condition can be told.
std::optional<llvm::Value*> access_condition(Lowering& l, ir::OperationId id, const Point& point);
Lane emit_access(Lowering& l, ir::OperationId id, const Point& point);                            // memory.cpp: loads, stores, gathers, atomics
llvm::Value* emit_scalar_access(Lowering& l, ir::OperationId id);                                 // memory.cpp
llvm::Value* emit_atomic(Lowering& l, const ir::Operation& operation, llvm::Value* pointer, llvm::Value* value, llvm::Value* desired, llvm::Value* mask);
llvm::Value* combine(Lowering& l, std::string_view kind, ElementType element, llvm::Value* a, llvm::Value* b);   // reduce.cpp
void emit_group_sweep(Lowering& l, const Group& group);                                           // reduce.cpp: a sweep with its reductions
void emit_custom_reduce(Lowering& l, const ir::Operation& operation);                             // reduce.cpp
void emit_dot(Lowering& l, ir::OperationId id);                                                   // dot.cpp
void emit_block(Lowering& l, ir::BlockId block);                                                  // control_flow.cpp
/// Calls the function that throws, and ends the block.
void emit_fault(Lowering& l, const ir::Operation& operation, int parameter, int axis, llvm::Value* index, llvm::Value* size);   // memory_check.cpp
void check_index(Lowering& l, const ir::Operation& operation, const ViewValue& view, int axis, llvm::Value* index, llvm::Value* live);

}  // namespace flextile::backend::host
