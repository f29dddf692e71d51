// Which operations run in one sweep. An operation joins the first open group of its shape that comes after everything
// it needs; what it needs from the same group it takes from the same element.
#include <algorithm>

#include "host/plan.hpp"

namespace flextile::backend::host {
namespace {

using ir::Function;
using ir::Opcode;
using ir::Operation;
using ir::OperationId;
using ir::Value;

constexpr int max_lazy_cost = 4;
constexpr std::size_t max_sweep_operations = 96;

bool is_integer_arithmetic(Opcode opcode) {
  return opcode == Opcode::add || opcode == Opcode::sub || opcode == Opcode::mul || ir::is_comparison(opcode) ||
         opcode == Opcode::bit_and || opcode == Opcode::bit_or || opcode == Opcode::bit_xor || opcode == Opcode::bit_not || opcode == Opcode::unlikely ||
         opcode == Opcode::min || opcode == Opcode::max || opcode == Opcode::cast || opcode == Opcode::offset;
}

/// Marks lazy values. Cost counts the instructions that a reader repeats.
class LazyMarker {
 public:
  LazyMarker(const Function& function, Plan& plan) : function_(function), plan_(plan), cost_(function.value_count(), -1) {}

  void run() {
    for (std::uint32_t block = 0; block < function_.block_count(); ++block) {
      for (OperationId id : function_.block({block}).operations) mark(function_.operation(id));
    }
    for (std::uint32_t block = 0; block < function_.block_count(); ++block) {
      for (OperationId id : function_.block({block}).operations) force(function_.operation(id));
    }
  }

 private:
  void mark(const Operation& operation) {
    if (operation.results.size() != 1 || !is_tile(function_.type(operation.results[0]))) return;
    const Value result = operation.results[0];
    const int cost = lazy_cost(operation);
    if (cost < 0 || cost > max_lazy_cost) return;
    plan_.lazy[result.index] = true;
    cost_[result.index] = cost;
  }

  int lazy_cost(const Operation& operation) const {
    const Opcode opcode = operation.opcode;
    if (opcode == Opcode::constant || opcode == Opcode::arange) return 0;
    if (opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::reshape || opcode == Opcode::transpose) {
      return std::max(0, cost_[operation.operands[0].index]);
    }
    if (!is_integer_arithmetic(operation.opcode)) return -1;
    if (is_float(function_.type(operation.results[0]).element) && !function_.type(operation.results[0]).is_pointer()) return -1;
    int cost = 1;
    for (Value operand : operation.operands) {
      if (function_.type(operand).is_number() && is_float(function_.type(operand).element)) return -1;
      if (!is_tile(function_.type(operand))) continue;
      if (!plan_.lazy[operand.index] || !rootless(operand)) return -1;
      cost += cost_[operand.index];
    }
    return cost;
  }

  /// Nothing below it is in memory: only aranges, constants and scalars.
  bool rootless(Value value) const {
    const Operation* operation = function_.defining(value);
    if (!operation || !plan_.lazy[value.index]) return false;
    return std::all_of(operation->operands.begin(), operation->operands.end(), [&](Value operand) {
      return !is_tile(function_.type(operand)) || rootless(operand);
    });
  }

  void materialise(Value value) {
    const Operation* operation = function_.defining(value);
    if (!operation || !plan_.lazy[value.index]) return;
    if (operation->opcode == Opcode::reshape && !function_.type(operation->operands[0]).is_scalar()) return materialise(operation->operands[0]);
    plan_.lazy[value.index] = false;
  }

  /// Operations that read memory, not elements, need their operands there.
  void force(const Operation& operation) {
    if (operation.opcode == Opcode::reshape && is_tile(function_.type(operation.results[0]))) {
      const ir::Type& from = function_.type(operation.operands[0]);
      if (!reshapes_ones_only(from.shape(), function_.type(operation.results[0]).shape())) materialise(operation.operands[0]);
    }
    if (operation.opcode == Opcode::dot) {
      for (int side = 0; side < 2; ++side) {
        Value value = operation.operands[static_cast<std::size_t>(side)];
        while (const Operation* defining = function_.defining(value)) {
          if (defining->opcode != Opcode::transpose) break;
          value = defining->operands[0];
        }
        materialise(value);
      }
    }
    if (operation.opcode == Opcode::reduce && operation.attributes.string(ir::AttributeName::kind) == "custom") {
      for (Value operand : operation.operands) materialise(operand);
    }
  }

  const Function& function_;
  Plan& plan_;
  std::vector<int> cost_;
};

/// What an operation does to memory: tensors by parameter, with the key of the address so that x = x + 1 stays one sweep.
struct Access {
  int group;
  bool write;
  bool atomic;
  int root;                                     // parameter, or -1: any
  std::vector<Value> address;
};

class BlockGrouper {
 public:
  BlockGrouper(const Function& function, Plan& plan, ir::BlockId block) : function_(function), plan_(plan), block_(block) {}

  void run() {
    std::vector<Group>& groups = plan_.blocks[block_.index];
    for (OperationId id : function_.block(block_).operations) {
      const Operation& operation = function_.operation(id);
      if (operation.results.size() == 1 && plan_.lazy[operation.results[0].index]) continue;
      const Group::Kind kind = kind_of(operation);
      const ir::Shape shape = kind == Group::Kind::sweep ? sweep_shape(operation) : ir::Shape{};
      const int earliest = std::max(after_operands(operation, kind, shape), after_memory(id, operation, kind));
      int chosen = -1;
      if (kind != Group::Kind::single) {
        for (int i = std::max(earliest, 0); i < static_cast<int>(groups.size()) && chosen < 0; ++i) {
          const Group& group = groups[static_cast<std::size_t>(i)];
          if (group.kind == kind && group.shape == shape && (kind == Group::Kind::scalars || group.operations.size() < max_sweep_operations)) chosen = i;
        }
      }
      if (chosen < 0) {
        chosen = static_cast<int>(groups.size());
        groups.push_back({.kind = kind, .shape = shape, .operations = {}});
      }
      groups[static_cast<std::size_t>(chosen)].operations.push_back(id);
      for (Value result : operation.results) home_.push_back({result, chosen});
      remember(id, operation, chosen);
    }
  }

 private:
  struct Home {
    Value value;
    int group;
  };

  Group::Kind kind_of(const Operation& operation) const {
    if (!operation.blocks.empty() && operation.opcode != Opcode::reduce) return Group::Kind::single;
    if (operation.opcode == Opcode::dot || ir::has(operation.opcode, ir::terminator)) return Group::Kind::single;
    if (operation.opcode == Opcode::reduce) {
      return operation.attributes.string(ir::AttributeName::kind) == "custom" ? Group::Kind::single : Group::Kind::sweep;
    }
    return sweep_shape(operation).empty() ? Group::Kind::scalars : Group::Kind::sweep;
  }

  /// The shape of what the operation computes for each element; {} for scalars.
  ir::Shape sweep_shape(const Operation& operation) const {
    if (operation.opcode == Opcode::reduce) return function_.type(operation.operands[0]).shape();
    if (operation.opcode == Opcode::store) return function_.type(operation.operands[0]).shape();
    if (operation.opcode == Opcode::view_store) return function_.type(operation.operands[1]).shape();
    if (operation.results.empty() || !function_.type(operation.results[0]).has_shape()) return {};
    return function_.type(operation.results[0]).shape();
  }

  int home_of(Value value) const {
    for (auto it = home_.rbegin(); it != home_.rend(); ++it) {
      if (it->value == value) return it->group;
    }
    return -1;
  }

  int after(Value value, Group::Kind kind, const ir::Shape& shape) const {
    const std::vector<Group>& groups = plan_.blocks[block_.index];
    const int direct = home_of(value);
    if (direct >= 0) {
      const Group& group = groups[static_cast<std::size_t>(direct)];
      if (kind == Group::Kind::scalars && group.kind == kind) return direct;
      const Operation* defining = function_.defining(value);
      const bool same_element = kind == Group::Kind::sweep && group.kind == kind && group.shape == shape && defining &&
                                defining->opcode != Opcode::reduce && function_.type(value).shape() == shape;
      return same_element ? direct : direct + 1;
    }
    const Operation* defining = function_.defining(value);
    if (!defining || !plan_.lazy[value.index]) return 0;
    int earliest = 0;
    for (Value operand : defining->operands) {
      const int home = home_of(operand);
      earliest = std::max(earliest, home >= 0 ? home + 1 : after(operand, Group::Kind::single, {}));
    }
    return earliest;
  }

  int after_operands(const Operation& operation, Group::Kind kind, const ir::Shape& shape) const {
    int earliest = 0;
    if (ir::has(operation.opcode, ir::terminator)) earliest = static_cast<int>(plan_.blocks[block_.index].size());
    for (Value operand : operation.operands) earliest = std::max(earliest, after(operand, kind, shape));
    for (ir::BlockId nested : operation.blocks) earliest = std::max(earliest, after_nested(nested));
    return earliest;
  }

  int after_nested(ir::BlockId block) const {
    int earliest = 0;
    for (OperationId id : function_.block(block).operations) {
      const Operation& operation = function_.operation(id);
      for (Value operand : operation.operands) earliest = std::max(earliest, after(operand, Group::Kind::single, {}));
      for (ir::BlockId nested : operation.blocks) earliest = std::max(earliest, after_nested(nested));
    }
    return earliest;
  }

  /// The parameter that a pointer or view comes from.
  int root_of(Value value) const {
    const ir::Block& body = function_.block(function_.body());
    for (std::size_t i = 0; i < body.arguments.size(); ++i) {
      if (body.arguments[i] == value) return static_cast<int>(i);
    }
    const Operation* operation = function_.defining(value);
    if (!operation) return -1;
    const Opcode opcode = operation->opcode;
    const bool passes_on = opcode == Opcode::offset || opcode == Opcode::broadcast || opcode == Opcode::expand_dims || opcode == Opcode::reshape ||
                           opcode == Opcode::transpose || opcode == Opcode::view_base;
    return passes_on ? root_of(operation->operands[0]) : -1;
  }

  void collect(OperationId id, int group, std::vector<Access>& accesses) const {
    const Operation& operation = function_.operation(id);
    const bool reads = ir::has(operation.opcode, ir::reads), writes = ir::has(operation.opcode, ir::writes);
    if (reads || writes) {
      Access access{.group = group, .write = writes, .atomic = reads && writes, .root = root_of(operation.operands[0]), .address = {operation.operands[0]}};
      if (operation.opcode == Opcode::view_load) access.address = operation.operands;
      if (operation.opcode == Opcode::view_store) {
        access.address = operation.operands;
        access.address.erase(access.address.begin() + 1);
      }
      accesses.push_back(std::move(access));
    }
    for (ir::BlockId nested : operation.blocks) {
      for (OperationId inner : function_.block(nested).operations) collect(inner, group, accesses);
    }
  }

  int after_memory(OperationId id, const Operation&, Group::Kind kind) const {
    std::vector<Access> mine;
    collect(id, 0, mine);
    int earliest = 0;
    for (const Access& access : mine) {
      for (const Access& before : accesses_) {
        if (!access.write && !before.write) continue;
        const bool may_meet = access.root < 0 || before.root < 0 || access.root == before.root;
        const bool same_address = access.address == before.address;
        bool together = false;
        if (kind == Group::Kind::scalars) together = true;   // scalars run in order
        if (kind == Group::Kind::sweep && !access.atomic && !before.atomic) {
          if (access.write) together = same_address || !may_meet;          // x[i] = f(x[i]); two results of one sweep
        }
        if (together && kind == Group::Kind::scalars && plan_.blocks[block_.index][static_cast<std::size_t>(before.group)].kind != kind) together = false;
        earliest = std::max(earliest, together ? before.group : before.group + 1);
      }
    }
    return earliest;
  }

  void remember(OperationId id, const Operation&, int group) { collect(id, group, accesses_); }

  const Function& function_;
  Plan& plan_;
  ir::BlockId block_;
  std::vector<Home> home_;
  std::vector<Access> accesses_;
};

}  // namespace

bool is_tile(const ir::Type& type) { return type.has_shape() && type.rank > 0; }

bool reshapes_ones_only(const ir::Shape& from, const ir::Shape& to) {
  const auto significant = [](const ir::Shape& shape) {
    ir::Shape result;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(result), [](std::int32_t extent) { return extent != 1; });
    return result;
  };
  return significant(from) == significant(to);
}

void form_groups(const Function& function, Plan& plan) {
  plan.blocks.resize(function.block_count());
  plan.lazy.assign(function.value_count(), false);
  LazyMarker(function, plan).run();
  for (std::uint32_t block = 0; block < function.block_count(); ++block) BlockGrouper(function, plan, {block}).run();
}

}  // namespace flextile::backend::host
