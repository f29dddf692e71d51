#include "lifted_shapes.hpp"

#include <utility>

#include "text.hpp"

namespace flextile::ir {
namespace {

class ShapeInference {
 public:
  ShapeInference(Builder& builder, const Function& fragment) : builder_(builder), fragment_(fragment), shapes_(fragment.value_count()) {}

  std::vector<Shape> run(const std::vector<Shape>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) shape(fragment_.parameter(i)) = arguments[i];
    infer_block(fragment_.body());
    return std::move(shapes_);
  }

 private:
  Shape& shape(Value value) { return shapes_[value.index]; }

  void refuse(const Operation& operation, std::string_view why) {
    if (operation.location.line != 0) builder_.set_location(fragment_.files[operation.location.file], operation.location.line);
    builder_.fail(join("[", name(operation.opcode), "] in fragment \"", fragment_.name, "\" cannot be inlined: ", why));
  }

  // Grows `shape` to what it shares with `other`; says whether it grew.
  bool grow(Shape& shape, const Shape& other, const Operation& operation) {
    Shape merged;
    if (!broadcast_shapes(shape, other, merged)) {
      refuse(operation, join("shapes ", shape, " and ", other, " must be equal, or 1 where they stretch (axes are matched from the last)"));
    }
    bool grew = merged != shape;
    shape = std::move(merged);
    return grew;
  }

  const Operation& ending(BlockId block) { return fragment_.operation(fragment_.block(block).operations.back()); }

  void infer_block(BlockId block) {
    for (OperationId id : fragment_.block(block).operations) infer(fragment_.operation(id));
  }

  void infer(const Operation& operation) {
    for (Value result : operation.results) {
      const Type& type = fragment_.type(result);
      if (!type.has_shape() || type.rank != 0) refuse(operation, join("its result is ", type, "; a fragment is written on scalars"));
    }
    switch (lifting(operation.opcode)) {
      case Lifting::elementwise:
      case Lifting::identity:
      case Lifting::load:
        return merge_operands(operation, 0);
      case Lifting::gather:
        return merge_operands(operation, 1);
      case Lifting::uniform:
        return check_uniform(operation);
      case Lifting::loop:
        return infer_loop(operation);
      case Lifting::choice:
        return infer_choice(operation);
      case Lifting::repeat:
        return infer_repeat(operation);
      case Lifting::ending:
        return;
      case Lifting::refused:
        return refuse(operation, "a fragment computes values from scalars, captured tensors and indices; it has no other effect");
    }
  }

  void merge_operands(const Operation& operation, std::size_t first) {
    Shape merged;
    for (std::size_t i = first; i < operation.operands.size(); ++i) grow(merged, shape(operation.operands[i]), operation);
    shape(operation.results[0]) = std::move(merged);
  }

  void check_uniform(const Operation& operation) {
    for (Value operand : operation.operands) {
      if (!shape(operand).empty())
        refuse(operation, join("its operand became a tile of shape ", shape(operand), "; index the view instead"));
    }
  }

  // The values that a block carries round grow until they hold what the block passes on.
  void infer_loop(const Operation& operation) {
    const std::vector<Value>& arguments = fragment_.block(operation.blocks[0]).arguments;
    Shape index, active;
    grow(index, shape(operation.operands[0]), operation);
    grow(index, shape(operation.operands[2]), operation);
    active = index;
    grow(active, shape(operation.operands[1]), operation);
    shape(arguments[0]) = index;
    for (std::size_t i = 0; i < operation.results.size(); ++i) {
      shape(arguments[i + 1]) = shape(operation.operands[i + 3]);
      grow(shape(arguments[i + 1]), active, operation);
    }
    for (bool grew = true; grew;) {
      grew = false;
      infer_block(operation.blocks[0]);
      const Operation& last = ending(operation.blocks[0]);
      for (std::size_t i = 0; i < operation.results.size(); ++i) grew |= grow(shape(arguments[i + 1]), shape(last.operands[i]), operation);
    }
    for (std::size_t i = 0; i < operation.results.size(); ++i) shape(operation.results[i]) = shape(arguments[i + 1]);
  }

  void infer_choice(const Operation& operation) {
    for (BlockId block : operation.blocks) infer_block(block);
    for (std::size_t i = 0; i < operation.results.size(); ++i) {
      Shape merged = shape(operation.operands[0]);
      for (BlockId block : operation.blocks) grow(merged, shape(ending(block).operands[i]), operation);
      shape(operation.results[i]) = std::move(merged);
    }
  }

  void infer_repeat(const Operation& operation) {
    std::vector<Shape> carried;
    for (Value initial : operation.operands) carried.push_back(shape(initial));
    for (bool grew = true; grew;) {
      grew = false;
      for (BlockId block : operation.blocks) {
        const std::vector<Value>& arguments = fragment_.block(block).arguments;
        for (std::size_t i = 0; i < carried.size(); ++i) shape(arguments[i]) = carried[i];
        infer_block(block);
        const Operation& last = ending(block);
        std::size_t first = last.opcode == Opcode::condition ? 1 : 0;
        for (std::size_t i = 0; i < carried.size(); ++i) grew |= grow(carried[i], shape(last.operands[first + i]), operation);
      }
    }
    const Shape& condition = shape(ending(operation.blocks[0]).operands[0]);
    if (!condition.empty())
      refuse(operation, join("its condition became a tile of shape ", condition, "; use for with a bound per element"));
    for (std::size_t i = 0; i < carried.size(); ++i) {
      for (BlockId block : operation.blocks) shape(fragment_.block(block).arguments[i]) = carried[i];
      shape(operation.results[i]) = carried[i];
    }
  }

  Builder& builder_;
  const Function& fragment_;
  std::vector<Shape> shapes_;
};

}  // namespace

Lifting lifting(Opcode opcode) {
  switch (opcode) {
    case Opcode::constant:
    case Opcode::program_id:
    case Opcode::num_programs:
    case Opcode::view_load:
    case Opcode::view_size:
    case Opcode::view_stride:
    case Opcode::view_base:
      return Lifting::uniform;
    case Opcode::neg:
    case Opcode::bit_not:
    case Opcode::unlikely:
    case Opcode::abs:
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round:
    case Opcode::trunc:
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::exp:
    case Opcode::exp2:
    case Opcode::log:
    case Opcode::log2:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::erf:
    case Opcode::cast:
    case Opcode::bitcast:
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::div:
    case Opcode::rem:
    case Opcode::min:
    case Opcode::max:
    case Opcode::pow:
    case Opcode::bit_and:
    case Opcode::bit_or:
    case Opcode::bit_xor:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::eq:
    case Opcode::ne:
    case Opcode::lt:
    case Opcode::le:
    case Opcode::gt:
    case Opcode::ge:
    case Opcode::fma:
    case Opcode::select:
    case Opcode::offset:
      return Lifting::elementwise;
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::transpose:
      return Lifting::identity;
    case Opcode::gather:
      return Lifting::gather;
    case Opcode::load:
      return Lifting::load;
    case Opcode::for_:
      return Lifting::loop;
    case Opcode::if_:
      return Lifting::choice;
    case Opcode::while_:
      return Lifting::repeat;
    case Opcode::yield:
    case Opcode::condition:
    case Opcode::return_:
      return Lifting::ending;
    case Opcode::arange:
    case Opcode::expand_dims:
    case Opcode::store:
    case Opcode::view_store:
    case Opcode::atomic:
    case Opcode::atomic_cas:
    case Opcode::dot:
    case Opcode::reduce:
    case Opcode::convert_layout:
    case Opcode::alloc_shared:
    case Opcode::shared_load:
    case Opcode::shared_store:
    case Opcode::async_copy:
    case Opcode::async_wait:
    case Opcode::barrier:
    case Opcode::product_wait:
    case Opcode::turn:
    case Opcode::bulk_copy:
    case Opcode::matrix_store:
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
    case Opcode::bulk_store:
    case Opcode::bulk_wait:
    case Opcode::ring_start:
    case Opcode::ring_wait:
    case Opcode::ring_release:
    case Opcode::ring_refill:
    case Opcode::take_program:
    case Opcode::ring_put:
    case Opcode::ring_get:
    case Opcode::worker_id:
    case Opcode::num_workers:
    case Opcode::roles:
      return Lifting::refused;
  }
  return Lifting::refused;
}

std::vector<Shape> lifted_shapes(Builder& builder, const Function& fragment, const std::vector<Shape>& arguments) {
  return ShapeInference(builder, fragment).run(arguments);
}

}  // namespace flextile::ir
