// The walk over blocks and operations that interpreter.hpp declares.
#pragma once

// Every switch here names the operations of one family; anything else is an error at run time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::test {

class Interpreter {
 public:
  Interpreter(const ir::Function& function, const HostProgram& program) : function_(function), program_(program), values_(function.value_count()) {}

  std::vector<Contents> run(std::vector<Contents> parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) values_[function_.parameter(i).index] = std::move(parameters[i]);
    std::vector<Contents> results = run_block(function_.body());
    read_stores(0);
    return results;
  }
  /// Where programs are shared out: this one does all of them.
  void work_alone() { worker_ = 0; }
  /// What `value` was when it was last computed; no elements if it never was.
  const Contents& last(ir::Value value) const { return values_[value.index]; }

 private:
  using Op = ir::Operation;
  using Attribute = ir::AttributeName;

  Contents& value(ir::Value v) { return values_[v.index]; }
  const ir::Type& type(ir::Value v) const { return function_.type(v); }
  Contents& operand(const Op& op, std::size_t i) { return value(op.operands[i]); }
  Contents& result(const Op& op, std::size_t i = 0) { return value(op.results[i]); }
  const ir::Type& result_type(const Op& op) const { return type(op.results[0]); }
  std::size_t count(const Op& op) const { return static_cast<std::size_t>(result_type(op).elements()); }

  std::vector<Contents> contents(const std::vector<ir::Value>& list, std::size_t first = 0) {
    std::vector<Contents> copies;
    for (std::size_t i = first; i < list.size(); ++i) copies.push_back(value(list[i]));
    return copies;
  }
  void assign(const std::vector<ir::Value>& list, const std::vector<Contents>& from, std::size_t first = 0) {
    for (std::size_t i = 0; i + first < list.size(); ++i) value(list[i + first]) = from[i];
  }

  /// Runs a block with its arguments set; returns the operands of its terminator.
  std::vector<Contents> run_block(ir::BlockId block) {
    for (const ir::OperationId id : function_.block(block).operations) {
      const Op& op = function_.operation(id);
      if (ir::has(op.opcode, ir::terminator)) return contents(op.operands);
      run_operation(op);
    }
    throw std::runtime_error("interpreter: a block without a terminator");
  }
  std::vector<Contents> run_block(ir::BlockId block, const std::vector<Contents>& arguments) {
    assign(function_.block(block).arguments, arguments);
    return run_block(block);
  }

  /// Coordinates of element `index` of a row-major tile.
  static std::vector<std::int64_t> coordinates(const ir::Shape& shape, std::int64_t index) {
    std::vector<std::int64_t> result(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0; index /= shape[axis]) result[axis] = index % shape[axis];
    return result;
  }
  static std::int64_t index(const ir::Shape& shape, const std::vector<std::int64_t>& position) {
    std::int64_t result = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) result = result * shape[axis] + position[axis];
    return result;
  }

  /// The address of the view's element under tile element `i`, or 0 where it lies outside.
  std::uint64_t view_address(const Contents& view, ElementType element, const std::vector<std::int64_t>& offsets, const ir::Shape& shape, std::int64_t i) {
    const std::vector<std::int64_t> position = coordinates(shape, i);
    const std::size_t leading = offsets.size() - shape.size();
    std::int64_t distance = 0;
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      const std::int64_t at = offsets[axis] + (axis < leading ? 0 : position[axis - leading]);
      if (at < 0 || at >= view.sizes[axis]) return 0;
      distance += at * view.strides[axis];
    }
    return view.base + static_cast<std::uint64_t>(distance * byte_size(element));
  }
  std::vector<std::int64_t> integers(const Op& op, std::size_t first, std::size_t last) {
    std::vector<std::int64_t> list;
    for (std::size_t i = first; i < last; ++i) list.push_back(operand(op, i).elements[0].integer);
    return list;
  }
  bool masked_off(const Op& op, std::size_t mask, std::size_t i) { return op.operands.size() > mask && operand(op, mask).elements[i].integer == 0; }

  void run_operation(const Op& op);
  void run_shape(const Op& op);
  void run_memory(const Op& op);
  void run_view(const Op& op);
  void run_shared(const Op& op);
  void land_copies(std::size_t pending);
  void run_ring(const Op& op);
  void run_roles(const Op& op);
  template <class Condition> void await(Condition holds, const std::string& what);
  void run_dot(const Op& op);
  void run_reduce(const Op& op);
  void run_control(const Op& op);
  Number constant(const Op& op) const {
    const ElementType element = result_type(op).element;
    return is_float(element) ? rounded(element, {0, op.attributes.number(Attribute::value)}) : Number{op.attributes.integer(Attribute::value), 0};
  }

  /// An asynchronous copy that has not landed; `first` counts elements from the buffer's beginning.
  struct Copy {
    ir::Value buffer;
    std::int64_t first;
    std::vector<Number> elements;
  };
  static constexpr Number rubbish{0x5ead, std::numeric_limits<double>::quiet_NaN()};
  Copy start_copy(const Op& op, std::int64_t stage);
  void land(const Copy& copy);
  /// A store by the copy engine that has not read shared memory yet.
  struct Store {
    const Op* op;
    std::int64_t first;
    Contents view;
    std::vector<std::int64_t> offsets;
  };
  void read_stores(std::size_t pending);

  std::int64_t programs() const { return std::int64_t{program_.count[0]} * program_.count[1] * program_.count[2]; }
  std::int64_t linear_program() const { return (std::int64_t{program_.id[2]} * program_.count[1] + program_.id[1]) * program_.count[0] + program_.id[0]; }

  const ir::Function& function_;
  HostProgram program_;
  std::int64_t worker_ = -1;                // 0: the only one; -1: one of as many workers as there are programs
  std::vector<Contents> values_;
  std::vector<Copy> copies_;
  std::vector<Store> stores_;

  // ---- interpreter_rings.hpp
  enum class TurnState { copied, waited, released };
  /// A ring's turns, and the copies of it that have not landed.
  struct Ring {
    std::map<std::int64_t, TurnState> turns;
    std::map<std::int64_t, Copy> copies;
    std::map<std::int64_t, std::vector<Contents>> scalars;
    std::map<std::int64_t, int> waited_by, released_by;   // bits: 1 the producer, 2 the others
  };
  std::map<std::uint32_t, Ring> rings_;
  std::int64_t taken_ = 0;                            // programs
  /// A producer runs in a thread of its own, but only one of the two goes on at a time: until it waits for the other.
  struct Roles {
    std::mutex mutex;
    std::condition_variable changed;
    bool producer_runs = true, producer_done = false, consumer_done = false;
    long steps = 0;                                   // what rings went through
  };
  Roles* roles_ = nullptr;
  bool switch_role(bool to_producer);
  static bool& is_producer() {
    thread_local bool value = false;
    return value;
  }
};

inline void Interpreter::run_operation(const Op& op) {
  using ir::Opcode;
  if (ir::has(op.opcode, ir::elementwise) && op.opcode != Opcode::offset) {
    std::vector<Number> elements(count(op));
    const ElementType from = type(op.operands[0]).element, to = result_type(op).element;
    const ElementType compared = type(op.operands[0]).is_pointer() ? ElementType::u64 : from;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      auto x = [&](std::size_t k) { return operand(op, k).elements[i]; };
      elements[i] = op.opcode == Opcode::cast      ? converted(from, to, x(0))
                    : op.opcode == Opcode::bitcast ? reinterpreted(from, to, x(0))
                    : op.opcode == Opcode::fma     ? fused(to, x(0), x(1), x(2))
                    : op.opcode == Opcode::select  ? (x(0).integer ? x(1) : x(2))
                    : op.operands.size() == 1      ? unary(op.opcode, from, x(0))
                                                   : binary(op.opcode, compared, x(0), x(1));
    }
    result(op).elements = std::move(elements);
    return;
  }
  switch (op.opcode) {
    case Opcode::constant: result(op).elements.assign(count(op), constant(op)); return;
    case Opcode::arange:
      result(op).elements.resize(count(op));
      for (std::size_t i = 0; i < count(op); ++i) result(op).elements[i] = {op.attributes.integer(Attribute::start) + static_cast<std::int64_t>(i), 0};
      return;
    case Opcode::program_id: result(op).elements = {{program_.id[op.attributes.integer(Attribute::axis)], 0}}; return;
    case Opcode::take_program: result(op).elements = {{(worker_ >= 0 ? 1 : programs()) + taken_++, 0}}; return;
    case Opcode::worker_id: result(op).elements = {{worker_ >= 0 ? worker_ : linear_program(), 0}}; return;
    case Opcode::num_workers: result(op).elements = {{worker_ >= 0 ? 1 : programs(), 0}}; return;
    case Opcode::num_programs: result(op).elements = {{program_.count[op.attributes.integer(Attribute::axis)], 0}}; return;
    case Opcode::broadcast:
    case Opcode::expand_dims:
    case Opcode::reshape:
    case Opcode::convert_layout:
    case Opcode::transpose: return run_shape(op);
    case Opcode::offset:
    case Opcode::load:
    case Opcode::store:
    case Opcode::atomic:
    case Opcode::atomic_cas: return run_memory(op);
    case Opcode::view_load:
    case Opcode::view_store:
    case Opcode::gather:
    case Opcode::view_size:
    case Opcode::view_stride:
    case Opcode::view_base: return run_view(op);
    case Opcode::dot: return run_dot(op);
    case Opcode::reduce: return run_reduce(op);
    case Opcode::for_:
    case Opcode::while_:
    case Opcode::if_: return run_control(op);
    case Opcode::alloc_shared:
    case Opcode::shared_load:
    case Opcode::shared_store:
    case Opcode::async_copy: return run_shared(op);
    case Opcode::async_wait: return land_copies(static_cast<std::size_t>(op.attributes.integer(Attribute::pending)));
    case Opcode::matrix_store:
    case Opcode::bulk_store: return run_shared(op);
    case Opcode::bulk_wait: return read_stores(static_cast<std::size_t>(op.attributes.integer(Attribute::pending)));
    case Opcode::turn:
    case Opcode::proxy_fence:
    case Opcode::warpgroup_barrier:
    case Opcode::barrier: return;
    case Opcode::product_wait:
      if (!op.results.empty()) result(op) = operand(op, 0);
      return;
    case Opcode::bulk_copy:
    case Opcode::ring_start:
    case Opcode::ring_wait:
    case Opcode::ring_refill:
    case Opcode::ring_put:
    case Opcode::ring_get:
    case Opcode::ring_release: return run_ring(op);
    case Opcode::roles: return run_roles(op);
    default: throw std::runtime_error("interpreter: cannot run " + std::string(ir::name(op.opcode)));
  }
}

inline void Interpreter::run_shape(const Op& op) {
  using ir::Opcode;
  const Contents& from = operand(op, 0);
  if (op.opcode != Opcode::broadcast && op.opcode != Opcode::transpose) {        // row-major order stays
    std::vector<Number> same = from.elements;
    result(op).elements = std::move(same);
    return;
  }
  const ir::Shape source = type(op.operands[0]).shape(), shape = result_type(op).shape();
  const std::vector<std::int64_t>& permutation = op.attributes.list(Attribute::permutation);
  std::vector<Number> elements(count(op));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::vector<std::int64_t> position = coordinates(shape, static_cast<std::int64_t>(i));
    std::vector<std::int64_t> at(source.size());
    for (std::size_t axis = 0; axis < source.size(); ++axis) {
      if (op.opcode == Opcode::transpose) at[static_cast<std::size_t>(permutation[axis])] = position[axis];
      else at[axis] = source[axis] == 1 ? 0 : position[axis];
    }
    elements[i] = from.elements[static_cast<std::size_t>(index(source, at))];
  }
  result(op).elements = std::move(elements);
}

inline Number updated(std::string_view kind, ElementType element, Number old, Number with) {
  using ir::Opcode;
  if (kind == "exchange") return with;
  if (kind == "add" || kind == "sum") return binary(Opcode::add, element, old, with);
  if (kind == "prod") return binary(Opcode::mul, element, old, with);
  if (kind == "max") return binary(Opcode::max, element, old, with);
  if (kind == "min") return binary(Opcode::min, element, old, with);
  if (kind == "and") return binary(Opcode::bit_and, element, old, with);
  if (kind == "or") return binary(Opcode::bit_or, element, old, with);
  if (kind == "xor") return binary(Opcode::bit_xor, element, old, with);
  throw std::runtime_error("interpreter: no combination \"" + std::string(kind) + "\"");
}

inline void Interpreter::run_memory(const Op& op) {
  using ir::Opcode;
  const ElementType element = type(op.operands[0]).element;
  const std::vector<Number> addresses = operand(op, 0).elements;
  std::vector<Number> loaded(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto address = static_cast<std::uint64_t>(addresses[i].integer);
    switch (op.opcode) {
      case Opcode::offset: loaded[i] = {static_cast<std::int64_t>(address) + operand(op, 1).elements[i].integer * byte_size(element), 0}; break;
      case Opcode::load:
        if (!masked_off(op, 1, i)) loaded[i] = read_element(element, address);
        else if (op.operands.size() > 2) loaded[i] = operand(op, 2).elements[i];
        break;
      case Opcode::store:
        if (!masked_off(op, 2, i)) write_element(element, address, operand(op, 1).elements[i]);
        break;
      case Opcode::atomic:
        if (masked_off(op, 2, i)) break;
        loaded[i] = read_element(element, address);
        write_element(element, address, updated(op.attributes.string(Attribute::kind), element, loaded[i], operand(op, 1).elements[i]));
        break;
      default:   // atomic_cas
        loaded[i] = read_element(element, address);
        if (loaded[i].integer == operand(op, 1).elements[i].integer && loaded[i].real == operand(op, 1).elements[i].real) {
          write_element(element, address, operand(op, 2).elements[i]);
        }
    }
  }
  if (!op.results.empty()) result(op).elements = std::move(loaded);
}

inline void Interpreter::run_view(const Op& op) {
  using ir::Opcode;
  const Contents& view = operand(op, 0);
  const ElementType element = type(op.operands[0]).element;
  const auto axis = static_cast<std::size_t>(op.attributes.integer(Attribute::axis));
  const std::size_t rank = view.sizes.size();
  switch (op.opcode) {
    case Opcode::view_size: result(op).elements = {{view.sizes[axis], 0}}; return;
    case Opcode::view_stride: result(op).elements = {{view.strides[axis], 0}}; return;
    case Opcode::view_base: result(op).elements = {{static_cast<std::int64_t>(view.base), 0}}; return;
    case Opcode::view_load: {
      const std::vector<std::int64_t> offsets = integers(op, 1, 1 + rank);
      std::vector<Number> elements(count(op));
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::uint64_t address = view_address(view, element, offsets, result_type(op).shape(), static_cast<std::int64_t>(i));
        elements[i] = address ? read_element(element, address)
                      : is_float(element) ? rounded(element, {0, op.attributes.number(Attribute::other)})
                                          : rounded(element, {static_cast<std::int64_t>(op.attributes.number(Attribute::other)), 0});
      }
      result(op).elements = std::move(elements);
      return;
    }
    case Opcode::view_store: {
      const std::vector<std::int64_t> offsets = integers(op, 2, 2 + rank);
      const Contents& stored = operand(op, 1);
      for (std::size_t i = 0; i < stored.elements.size(); ++i) {
        const std::uint64_t address = view_address(view, element, offsets, type(op.operands[1]).shape(), static_cast<std::int64_t>(i));
        if (address) write_element(element, address, stored.elements[i]);
      }
      return;
    }
    default: {   // gather
      std::vector<Number> elements(count(op));
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (op.attributes.integer(Attribute::has_mask) && operand(op, op.operands.size() - 1).elements[i].integer == 0) continue;
        std::int64_t distance = 0;
        bool inside = true;
        for (std::size_t k = 0; k < rank; ++k) {
          const std::int64_t index = operand(op, 1 + k).elements[i].integer;
          inside = inside && index >= 0 && index < view.sizes[k];
          distance += index * view.strides[k];
        }
        if (inside) elements[i] = read_element(element, view.base + static_cast<std::uint64_t>(distance * byte_size(element)));
      }
      result(op).elements = std::move(elements);
    }
  }
}

inline void Interpreter::run_shared(const Op& op) {
  using ir::Opcode;
  if (op.opcode == Opcode::alloc_shared) {
    const ir::Type& buffer = result_type(op);
    const std::int64_t size = ir::Type::tile(buffer.element, buffer.shape()).elements() * buffer.stages;
    result(op).elements.assign(static_cast<std::size_t>(size), rubbish);
    rings_[op.results[0].index] = {};
    return;
  }
  if (op.opcode == Opcode::async_copy) return copies_.push_back(start_copy(op, operand(op, 1).elements[0].integer));
  Contents& buffer = operand(op, 0);
  const ir::Type& stage_type = type(op.operands[0]);
  const std::int64_t size = ir::Type::tile(stage_type.element, stage_type.shape()).elements();
  const std::int64_t first = operand(op, 1).elements[0].integer * size;
  if (const std::int64_t diagonals = op.attributes.integer(Attribute::diagonals); diagonals != 0) {
    const auto& extents = result_type(op).extents;
    const std::int64_t start = first + integers(op, 2, 3)[0] + (diagonals > 0 ? extents[1] : extents[0]) - 1;
    result(op).elements.clear();
    for (std::int64_t row = 0; row < extents[0]; ++row) {
      for (std::int64_t column = 0; column < extents[1]; ++column) result(op).elements.push_back(buffer.elements.at(static_cast<std::size_t>(start + diagonals * (row - column))));
    }
    return;
  }
  if (op.opcode == Opcode::shared_load) {   // perhaps fewer columns than there are
    const std::int64_t columns = result_type(op).shape().back(), pitch = stage_type.shape().back();
    result(op).elements.clear();
    for (std::int64_t row = 0; row < size / pitch; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) result(op).elements.push_back(buffer.elements.at(static_cast<std::size_t>(first + row * pitch + column)));
    }
    return;
  }
  if (op.opcode == Opcode::bulk_store) {
    const Contents& view = operand(op, 2);
    stores_.push_back({&op, first, view, integers(op, 3, 3 + view.sizes.size())});
    return;
  }
  if (op.opcode == Opcode::matrix_store) {
    const std::int64_t columns = stage_type.shape().back(), pitch = type(op.operands[2]).shape().back(), start = op.attributes.integer(Attribute::start);
    for (std::int64_t i = 0; i < size; ++i) buffer.elements.at(static_cast<std::size_t>(first + i)) = operand(op, 2).elements.at(static_cast<std::size_t>(i / columns * pitch + start + i % columns));
    return;
  }
  for (std::int64_t i = 0; i < size; ++i) buffer.elements.at(static_cast<std::size_t>(first + i)) = operand(op, 2).elements[static_cast<std::size_t>(i)];
}

/// The copy engine reads shared memory when a wait demands it, no earlier.
inline void Interpreter::read_stores(std::size_t pending) {
  for (; stores_.size() > pending; stores_.erase(stores_.begin())) {
    const Store& store = stores_.front();
    const ir::Type& buffer = type(store.op->operands[0]);
    const std::int64_t size = ir::Type::tile(buffer.element, buffer.shape()).elements();
    for (std::int64_t i = 0; i < size; ++i) {
      const std::uint64_t address = view_address(store.view, buffer.element, store.offsets, buffer.shape(), i);
      if (address) write_element(buffer.element, address, operand(*store.op, 0).elements.at(static_cast<std::size_t>(store.first + i)));
    }
  }
}

/// The stage holds rubbish from now until a wait lets the copy land.
inline Interpreter::Copy Interpreter::start_copy(const Op& op, std::int64_t stage) {
  const ir::Type& buffer = type(op.operands[0]);
  const std::int64_t size = ir::Type::tile(buffer.element, buffer.shape()).elements();
  const bool predicated = op.attributes.integer(Attribute::has_predicate) != 0;
  Copy copy{op.operands[0], stage * size, {}};
  if (!predicated || operand(op, op.operands.size() - 1).elements[0].integer != 0) {
    const Contents& view = operand(op, 2);
    const std::vector<std::int64_t> offsets = integers(op, 3, 3 + view.sizes.size());
    for (std::int64_t i = 0; i < size; ++i) {
      const std::uint64_t address = view_address(view, buffer.element, offsets, buffer.shape(), i);
      Number element = address ? read_element(buffer.element, address) : Number{};
      if (op.attributes.string(Attribute::precision) == "tf32") element.real = rounded_to_tf32(static_cast<float>(element.real));
      copy.elements.push_back(element);
      operand(op, 0).elements.at(static_cast<std::size_t>(copy.first + i)) = rubbish;
    }
  }
  return copy;
}

inline void Interpreter::land(const Copy& copy) {
  for (std::size_t i = 0; i < copy.elements.size(); ++i) value(copy.buffer).elements.at(static_cast<std::size_t>(copy.first) + i) = copy.elements[i];
}

inline void Interpreter::land_copies(std::size_t pending) {
  while (copies_.size() > pending) {
    land(copies_.front());
    copies_.erase(copies_.begin());
  }
}

inline void Interpreter::run_dot(const Op& op) {
  const ir::Type &a = type(op.operands[0]), &to = result_type(op);
  const std::int64_t rows = to.extents[0], columns = to.extents[1], inner = a.extents[1];
  std::vector<Number> elements = operand(op, 2).elements;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < columns; ++n) {
      Number& sum = elements[static_cast<std::size_t>(m * columns + n)];
      for (std::int64_t k = 0; k < inner; ++k) {
        const Number left = operand(op, 0).elements[static_cast<std::size_t>(m * inner + k)];
        const Number right = operand(op, 1).elements[static_cast<std::size_t>(k * columns + n)];
        sum.real += left.real * right.real;
        sum.integer += left.integer * right.integer;
      }
      sum = rounded(to.element, sum);
    }
  }
  result(op).elements = std::move(elements);
}

inline void Interpreter::run_reduce(const Op& op) {
  const ir::Shape shape = type(op.operands[0]).shape();
  const auto axis = static_cast<std::size_t>(op.attributes.integer(Attribute::axis));
  const std::string kind(op.attributes.string(Attribute::kind));
  ir::Shape rest = shape;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
  std::vector<Contents> results(op.results.size());
  const auto outer = static_cast<std::int64_t>(count(op));
  for (std::int64_t o = 0; o < outer; ++o) {
    std::vector<std::int64_t> position = coordinates(rest, o);
    position.insert(position.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    std::vector<Contents> left;
    for (position[axis] = 0; position[axis] < shape[axis]; ++position[axis]) {
      const auto at = static_cast<std::size_t>(index(shape, position));
      std::vector<Contents> right;
      for (std::size_t k = 0; k < op.operands.size(); ++k) right.push_back({{operand(op, k).elements[at]}, 0, {}, {}});
      if (position[axis] == 0) {
        left = right;
      } else if (kind == "custom") {
        std::vector<Contents> both = left;
        both.insert(both.end(), right.begin(), right.end());
        left = run_block(op.blocks[0], both);
      } else {
        left[0].elements[0] = updated(kind, type(op.operands[0]).element, left[0].elements[0], right[0].elements[0]);
      }
    }
    for (std::size_t k = 0; k < results.size(); ++k) results[k].elements.push_back(left[k].elements[0]);
  }
  assign(op.results, results);
}

inline void Interpreter::run_control(const Op& op) {
  using ir::Opcode;
  if (op.opcode == Opcode::if_) {
    assign(op.results, run_block(op.blocks[operand(op, 0).elements[0].integer ? 0 : 1]));
  } else if (op.opcode == Opcode::while_) {
    std::vector<Contents> carried = contents(op.operands);
    for (;;) {
      carried = run_block(op.blocks[0], carried);
      const bool again = carried[0].elements[0].integer != 0;
      carried.erase(carried.begin());
      if (!again) break;
      carried = run_block(op.blocks[1], carried);
    }
    assign(op.results, carried);
  } else {
    const std::int64_t upper = operand(op, 1).elements[0].integer, step = operand(op, 2).elements[0].integer;
    if (step == 0) throw std::runtime_error("interpreter: a loop with step 0");
    std::vector<Contents> carried = contents(op.operands, 3);
    for (std::int64_t i = operand(op, 0).elements[0].integer; step > 0 ? i < upper : i > upper; i += step) {
      value(function_.block(op.blocks[0]).arguments[0]).elements = {{i, 0}};
      assign(function_.block(op.blocks[0]).arguments, carried, 1);
      carried = run_block(op.blocks[0]);
    }
    assign(op.results, carried);
  }
}

inline std::vector<Contents> interpret(const ir::Function& function, std::vector<Contents> parameters, const HostProgram& program) {
  return Interpreter(function, program).run(std::move(parameters));
}

/// The parameters' contents from arguments as HostEntry takes them.
inline std::vector<Contents> contents_of(const ir::Function& function, void* const* arguments) {
  auto as = [&arguments]<class T>(T value) {
    std::memcpy(&value, *arguments++, sizeof value);
    return value;
  };
  std::vector<Contents> parameters;
  for (const ir::Parameter& parameter : function.parameters) {
    Contents contents;
    if (parameter.type.is_view()) {
      contents.base = as(std::uint64_t{});
      for (int axis = 0; axis < parameter.type.rank; ++axis) contents.sizes.push_back(as(std::int32_t{}));
      for (int axis = 0; axis < parameter.type.rank; ++axis) contents.strides.push_back(as(std::int64_t{}));
    } else if (parameter.type.is_pointer()) {
      contents.elements = {{static_cast<std::int64_t>(as(std::uint64_t{})), 0}};
    } else {
      contents.elements = {read_element(parameter.type.element, reinterpret_cast<std::uint64_t>(*arguments++))};
    }
    parameters.push_back(std::move(contents));
  }
  return parameters;
}

inline std::vector<Contents> interpret(const ir::Function& function, void* const* arguments, const HostProgram& program) {
  return interpret(function, contents_of(function, arguments), program);
}

/// All programs of a grid, one after the other. `alone`: where programs stay on the device, one worker does all of them.
inline void interpret_grid(const ir::Function& function, void* const* arguments, const std::array<std::int32_t, 3>& grid, bool alone = false) {
  bool resident = false;
  for (const ir::OperationId id : function.block(function.body()).operations) resident = resident || function.operation(id).opcode == ir::Opcode::roles;
  HostProgram program{{0, 0, 0}, {grid[0], grid[1], grid[2]}};
  if (resident && alone) {
    Interpreter interpreter(function, program);
    interpreter.work_alone();
    interpreter.run(contents_of(function, arguments));
    return;
  }
  for (program.id[2] = 0; program.id[2] < grid[2]; ++program.id[2])
    for (program.id[1] = 0; program.id[1] < grid[1]; ++program.id[1])
      for (program.id[0] = 0; program.id[0] < grid[0]; ++program.id[0]) interpret(function, arguments, program);
}

}  // namespace flextile::test

#pragma GCC diagnostic pop
