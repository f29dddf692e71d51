// Reductions: over a thread's registers, then over the lanes of a warp by shuffles, then over warps through shared memory.
// Threads that hold copies are not counted twice: their digits do not move along the reduced axis.
#include <algorithm>
#include <map>

#include "nvptx/lowering.hpp"
#include "nvptx/scratch.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

Opcode combining(std::string_view kind) {
  if (kind == "sum") return Opcode::add;
  if (kind == "prod") return Opcode::mul;
  if (kind == "min") return Opcode::min;
  if (kind == "max") return Opcode::max;
  if (kind == "and") return Opcode::bit_and;
  if (kind == "or") return Opcode::bit_or;
  return Opcode::bit_xor;
}

/// One partial result of each input.
using Partial = Registers;

class Reduction {
 public:
  Reduction(Lowering& l, const ir::Operation& operation)
      : l_(l), operation_(operation), kind_(operation.attributes.string(AttributeName::kind)), axis_(static_cast<int>(operation.attributes.integer(AttributeName::axis))),
        input_(layout_of(l, operation.operands[0])), output_(layout_of(l, operation.results[0])), shape_(l.type(operation.operands[0]).shape()) {}

  void run() {
    std::vector<Partial> partials = within_thread();
    for (Partial& partial : partials) within_warp(partial);
    if (reduce_warps(l_.f, operation_) > 1) partials = across_warps(partials);
    for (std::size_t input = 0; input < operation_.results.size(); ++input) {
      Registers& out = l_.of(operation_.results[input]);
      out.clear();
      for (const Partial& partial : partials) out.push_back(narrow(partial[input], input));
    }
  }

 private:
  /// f16 and bf16 accumulate in f32.
  bool widens(std::size_t input) const {
    const ElementType element = l_.type(operation_.operands[input]).element;
    return kind_ != "custom" && (element == ElementType::f16 || element == ElementType::bf16);
  }
  llvm::Value* widen(llvm::Value* value, std::size_t input) { return widens(input) ? l_.b.CreateFPExt(value, l_.b.getFloatTy()) : value; }
  llvm::Value* narrow(llvm::Value* value, std::size_t input) {
    return widens(input) ? l_.b.CreateFPTrunc(value, element_type(l_, l_.type(operation_.results[input]).element)) : value;
  }

  Partial combine(const Partial& a, const Partial& b) {
    if (kind_ == "custom") return combine_custom(a, b);
    ir::Operation element;
    element.opcode = combining(kind_);
    element.operands = {operation_.operands[0], operation_.operands[0]};
    element.results = {operation_.operands[0]};
    if (!widens(0)) return {lower_element(l_, element, {a[0], b[0]})};
    const llvm::Intrinsic::ID extreme = element.opcode == Opcode::min ? llvm::Intrinsic::minnum : llvm::Intrinsic::maxnum;
    if (element.opcode == Opcode::add) return {l_.b.CreateFAdd(a[0], b[0])};
    if (element.opcode == Opcode::mul) return {l_.b.CreateFMul(a[0], b[0])};
    return {call(l_, extreme, {a[0], b[0]}, {a[0]->getType()})};
  }

  Partial combine_custom(const Partial& a, const Partial& b) {
    const ir::BlockId block = operation_.blocks[0];
    const auto& arguments = l_.f.block(block).arguments;
    for (std::size_t i = 0; i < a.size(); ++i) {
      l_.of(arguments[i]) = {a[i]};
      l_.of(arguments[a.size() + i]) = {b[i]};
    }
    lower_block(l_, block);
    Partial result;
    for (ir::Value value : l_.block_results) result.push_back(l_.scalar(value));
    return result;
  }

  /// For each register of the result, the partial result over this thread's registers; pairwise, so that chains are short.
  std::vector<Partial> within_thread() {
    const int rank = static_cast<int>(shape_.size());
    std::map<Shape, std::vector<int>> members;
    for (int i = 0; i < register_count(input_); ++i) {
      Shape at = digit_offset(input_.registers, i, rank);
      at.erase(at.begin() + axis_);
      members[at].push_back(i);
    }
    std::vector<Partial> result;
    for (int i = 0; i < register_count(output_); ++i) {
      std::vector<Partial> list;
      for (int index : members[digit_offset(output_.registers, i, rank - 1)]) {
        Partial& partial = list.emplace_back();
        for (std::size_t input = 0; input < operation_.operands.size(); ++input) partial.push_back(widen(l_.of(operation_.operands[input])[index], input));
      }
      // Four chains: as many as hide the latency, and the same order for every layout of the same shape.
      const std::size_t chains = list.size() >= 8 ? 4 : 1;
      for (std::size_t k = chains; k < list.size(); ++k) list[k % chains] = combine(list[k % chains], list[k]);
      for (std::size_t width = chains; width > 1; width /= 2) {
        for (std::size_t k = 0; k < width / 2; ++k) list[k] = combine(list[k], list[k + width / 2]);
      }
      result.push_back(list.front());
    }
    return result;
  }

  void within_warp(Partial& partial) {
    int place = 1;
    for (const Digit& digit : input_.lanes) {
      if (digit.axis == axis_) {
        for (int mask = place * digit.size / 2; mask >= place; mask /= 2) {
          Partial other;
          for (llvm::Value* value : partial) other.push_back(shuffle_xor(l_, value, mask));
          partial = combine(partial, other);
        }
      }
      place *= digit.size;
    }
  }

  /// This warp's number among those that share its rows.
  llvm::Value* warp_position() {
    llvm::Value* position = l_.b.getInt32(0);
    int place = 1, weight = 1;
    for (const Digit& digit : input_.warps) {
      if (digit.axis == axis_) {
        llvm::Value* value = l_.b.CreateURem(l_.b.CreateUDiv(l_.warp, l_.b.getInt32(place)), l_.b.getInt32(digit.size));
        position = l_.b.CreateAdd(position, l_.b.CreateMul(value, l_.b.getInt32(weight)));
        weight *= digit.size;
      }
      place *= digit.size;
    }
    return position;
  }

  std::vector<Partial> across_warps(const std::vector<Partial>& partials) {
    const int warps = reduce_warps(l_.f, operation_), elements = reduce_partial_elements(l_.f, operation_);
    const std::int64_t base = operation_.attributes.integer(AttributeName::offset);
    Shape kept = shape_;
    kept.erase(kept.begin() + axis_);
    // Slots of 8 bytes: input, warp position, element.
    llvm::Value* element = l_.b.getInt32(0);
    for (std::size_t axis = 0; axis < kept.size(); ++axis) {
      element = l_.b.CreateAdd(l_.b.CreateMul(element, l_.b.getInt32(kept[axis])), thread_offset(l_, output_, static_cast<int>(axis)));
    }
    auto address = [&](std::size_t input, llvm::Value* slot, int fixed) {
      const std::int64_t start = base + 8 * (static_cast<std::int64_t>(input) * warps * elements + fixed);
      return shared_address(l_, start, l_.b.CreateMul(slot, l_.b.getInt32(8)));
    };
    const std::vector<int> offset = linear_offsets(output_.registers, register_count(output_), kept);
    llvm::Value* own = l_.b.CreateAdd(l_.b.CreateMul(warp_position(), l_.b.getInt32(elements)), element);
    for (std::size_t i = 0; i < partials.size(); ++i) {
      for (std::size_t input = 0; input < partials[i].size(); ++input) l_.b.CreateStore(to_memory(l_, partials[i][input]), address(input, own, offset[i]));
    }
    barrier(l_);
    std::vector<Partial> result;
    for (std::size_t i = 0; i < partials.size(); ++i) {
      Partial sum;
      for (int warp = 0; warp < warps; ++warp) {
        Partial next;
        for (std::size_t input = 0; input < partials[i].size(); ++input) {
          llvm::Type* type = partials[i][input]->getType();
          const bool bit = type->isIntegerTy(1);
          llvm::Value* loaded = l_.b.CreateLoad(bit ? l_.b.getInt8Ty() : type, address(input, element, offset[i] + warp * elements));
          next.push_back(bit ? from_memory(l_, loaded, ElementType::i1) : loaded);
        }
        sum = warp == 0 ? next : combine(sum, next);
      }
      result.push_back(sum);
    }
    return result;
  }

  Lowering& l_;
  const ir::Operation& operation_;
  std::string_view kind_;
  int axis_;
  const Layout& input_;
  const Layout& output_;
  Shape shape_;
};

}  // namespace

void lower_reduce(Lowering& l, const ir::Operation& operation) { Reduction(l, operation).run(); }

}  // namespace flextile::backend
