// What the files that lower one family of operations each share: the LLVM function being built and what is known so far.
//
// A tile value becomes one LLVM value per register of its layout; a scalar becomes one. All threads run the same code;
// what differs is the thread's coordinate, which comes from the layout's lane and warp digits.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/function.hpp>

#include "nvptx/facts.hpp"
#include "nvptx/layouts.hpp"

namespace flextile::backend {

using Registers = std::vector<llvm::Value*>;

/// A tensor view's parts in registers.
struct ViewParts {
  llvm::Value* base = nullptr;
  Registers sizes;      // i32
  Registers strides;    // i64, in elements
  bool unit_stride = false;
  bool aligned = false;
};

/// Where a value became known: after the `last` instruction of a block (null: at its start). Later places have higher numbers.
struct Place {
  llvm::BasicBlock* block = nullptr;
  llvm::Instruction* last = nullptr;
  int number = 0;
};

/// What a thread does in every copy of rows of one width: its row, its column in elements, its byte in a stage.
struct CopyThread {
  llvm::Value* row = nullptr;
  llvm::Value* column = nullptr;
  llvm::Value* place = nullptr;
};

/// What a thread copies from a view, relative to the first row of a tile.
struct CopySource {
  llvm::Value* address = nullptr;
  llvm::Value* column = nullptr;  // the first of its chunk
  llvm::Value* rows = nullptr;    // how many rows have that chunk
};

/// A turn's stage and phase in a loop (turns.hpp).
struct Counter {
  ir::Value root;                              // what counts up by one
  int stages = 1;
  std::int64_t shift = 0;                      // the counter is of root + shift
  llvm::PHINode* stage = nullptr;
  llvm::PHINode* parity = nullptr;
  llvm::Value* start = nullptr;                // root + shift in the first iteration
};
struct OpenLoop {
  const ir::Operation* operation;
  llvm::BasicBlock* before;
  llvm::BasicBlock* body;
  std::deque<Counter> counters;
};

class SourceLines;

/// What is known of an i32 that is a sum (exact_sums.hpp).
enum class Exact { position, difference };

struct Lowering {
  const ir::Function& f;
  const Target& target;
  llvm::Module& module;
  llvm::IRBuilder<> b;
  llvm::Function* kernel = nullptr;
  llvm::BasicBlock* prologue = nullptr;        // thread coordinates are computed here
  llvm::GlobalVariable* shared = nullptr;      // the program's shared memory
  llvm::Value* thread = nullptr;
  llvm::Value* lane = nullptr;
  llvm::Value* warp = nullptr;
  int launched_warps = 0;                      // num_warps and a producer's
  bool in_producer = false;                    // one thread of each of its warps runs
  llvm::Value* programs[3] = {};               // of the grid, where launched programs share them out
  llvm::Value* counter = nullptr;              // of those that were taken
  std::vector<Registers> registers = {};       // by value
  std::map<std::uint32_t, Registers> bits = {};          // by value: words of tiles of i1 (bit_masks.hpp)
  std::map<llvm::Value*, Exact> exact = {};              // integers that are exact sums (exact_sums.hpp)
  std::map<std::pair<llvm::Value*, llvm::Value*>, llvm::Value*> joined[2] = {};   // sums and differences of the operation that is being lowered
  std::map<std::uint32_t, ViewParts> views = {};
  std::vector<IndexFacts> facts = {};
  std::map<std::pair<int, int>, llvm::Value*> thread_offsets = {};
  std::vector<Place> places = {};              // by value; a parameter's is the prologue
  int place_count = 0;
  std::map<std::vector<int>, CopyThread> copy_threads = {};
  std::map<std::vector<std::uint32_t>, CopySource> copy_sources = {};
  bool async_proxy = false;                    // wgmma reads what threads wrote to shared memory
  std::vector<OpenLoop> loops = {};            // whose body is being lowered
  SourceLines* lines = nullptr;                // null: no line information
  std::vector<ir::Value> block_results = {};   // operands of the terminator that was lowered last

  Registers& of(ir::Value value) { return registers[value.index]; }
  llvm::Value* scalar(ir::Value value) { return registers[value.index].front(); }
  const ir::Type& type(ir::Value value) const { return f.type(value); }
};

/// Says that these values are known here.
void known_here(Lowering& l, const std::vector<ir::Value>& values);

/// While it lives, instructions go where the last of `values` became known: in front of a loop, if they all come from there.
/// What is computed there is valid wherever the values are.
class HoistedTo {
 public:
  HoistedTo(Lowering& l, const std::vector<ir::Value>& values);

 private:
  llvm::IRBuilder<>::InsertPointGuard guard_;
};

// ---- types and layouts
llvm::Type* element_type(Lowering& l, ElementType element);
/// A number of a float type, in a register.
llvm::Constant* float_constant(Lowering& l, ElementType element, double value);
/// One register of a value of this type.
llvm::Type* register_type(Lowering& l, const ir::Type& type);
/// The value's layout; a scalar's has one register in every thread.
const Layout& layout_of(Lowering& l, ir::Value value);
/// What lane and warp add to the coordinate of `axis`: i32.
llvm::Value* thread_offset(Lowering& l, const Layout& layout, int axis);
/// thread_offset plus what the register adds.
llvm::Value* coordinate(Lowering& l, const Layout& layout, int rank, int register_index, int axis);
/// True in the one thread that answers for each element; null where no two threads hold the same element.
llvm::Value* owner(Lowering& l, const Layout& layout);

// ---- instructions
llvm::Value* call(Lowering& l, llvm::Intrinsic::ID id, const Registers& arguments, const std::vector<llvm::Type*>& overloads = {});
/// Convergent inline assembly. Several results come as a struct.
llvm::Value* assembly(Lowering& l, llvm::Type* result, const std::string& text, const std::string& constraints, const Registers& arguments, bool memory);
/// The same of an instruction that only computes: LLVM may move it, share it or leave it out.
llvm::Value* pure_assembly(Lowering& l, llvm::Type* result, const std::string& text, const std::string& constraints, const Registers& arguments);
/// Of the program's own warps.
void barrier(Lowering& l);
/// Of all warps that were launched, a producer's too.
void barrier_of_all(Lowering& l);
/// The value of the lane whose number differs in the bits of `mask`.
llvm::Value* shuffle_xor(Lowering& l, llvm::Value* value, int mask);
/// The value of the lane whose number has the bits `kept` of the own one and the others from `lane`.
llvm::Value* shuffle_from(Lowering& l, llvm::Value* value, int lane, int kept);
/// Byte `offset` of the program's shared memory.
llvm::Value* shared_address(Lowering& l, std::int64_t offset, llvm::Value* bytes = nullptr);
/// i1 ↔ i8 on the way to and from memory.
llvm::Value* to_memory(Lowering& l, llvm::Value* value);
llvm::Value* from_memory(Lowering& l, llvm::Value* value, ElementType element);
/// Emits `body` under `condition` (null: always).
template <class Body> void when(Lowering& l, llvm::Value* condition, Body&& body) {
  if (!condition) return body();
  auto* inside = llvm::BasicBlock::Create(l.b.getContext(), "when", l.kernel);
  auto* after = llvm::BasicBlock::Create(l.b.getContext(), "after", l.kernel);
  l.b.CreateCondBr(condition, inside, after);
  l.b.SetInsertPoint(inside);
  body();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(after);
}

// ---- one family each
void lower_block(Lowering& l, ir::BlockId block);
void lower_operation(Lowering& l, const ir::Operation& operation);
llvm::Value* lower_element(Lowering& l, const ir::Operation& operation, const Registers& operands);
void lower_elementwise(Lowering& l, const ir::Operation& operation);
/// exp, log, sin, ... of f32 or f64.
llvm::Value* lower_math(Lowering& l, ir::Opcode opcode, llvm::Value* x, llvm::Value* y = nullptr);
/// a / b. f32 through div.full, which errs by at most 2 ulp over the whole range: the correctly rounded form is four times as
/// many instructions, and soft caps divide every score.
llvm::Value* divide_floats(Lowering& l, llvm::Value* a, llvm::Value* b);
void lower_shape(Lowering& l, const ir::Operation& operation);
void lower_memory(Lowering& l, const ir::Operation& operation);
void lower_atomic(Lowering& l, const ir::Operation& operation);
void lower_reduce(Lowering& l, const ir::Operation& operation);
/// convert_layout, and reshapes and transposes that move elements between threads.
void lower_move(Lowering& l, const ir::Operation& operation);
void lower_dot(Lowering& l, const ir::Operation& operation);
void lower_control_flow(Lowering& l, const ir::Operation& operation);
void lower_shared(Lowering& l, const ir::Operation& operation);

}  // namespace flextile::backend
