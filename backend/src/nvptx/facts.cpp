#include "nvptx/facts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#pragma GCC diagnostic ignored "-Wswitch-enum"   // of an operation that is not listed nothing is known: always right

namespace flextile::backend {
namespace {

using ir::Opcode;

constexpr std::int64_t most = std::int64_t{1} << 20;   // zero is a multiple of everything

std::int64_t power_of_two_in(std::int64_t value) { return value == 0 ? most : std::min(most, value & -value); }

std::int64_t last_extent(const ir::Type& type) { return type.has_shape() && type.rank > 0 ? type.extents[type.rank - 1] : 1; }

/// The divisor of every number rather than of the runs' first ones.
std::int64_t element_divisor(const IndexFacts& facts) { return facts.run > 1 ? 1 : facts.divisor; }
/// The divisor of the first number of runs cut down to `run`.
std::int64_t run_divisor(const IndexFacts& facts, std::int64_t run) {
  return facts.run > run ? std::gcd(facts.divisor, power_of_two_in(run)) : facts.divisor;
}

IndexFacts sum_facts(const IndexFacts& a, const IndexFacts& b, bool subtract) {
  IndexFacts result;
  const std::int64_t left = std::gcd(a.run, b.constancy);
  const std::int64_t right = subtract ? 1 : std::gcd(a.constancy, b.run);
  result.run = std::max({left, right, std::int64_t{1}});
  result.constancy = std::gcd(a.constancy, b.constancy);
  result.divisor = std::gcd(run_divisor(a, result.run), run_divisor(b, result.run));
  if (subtract && b.run > 1) result.divisor = 1;
  return result;
}

/// Integers that only get wider go on counting; where they may wrap (i1 and narrower types, unsigned ones that a
/// subtraction took below 0) they do not.
IndexFacts cast_facts(ElementType from, ElementType to, const IndexFacts& facts) {
  if (is_float(from) || is_float(to) || from == ElementType::i1 || to == ElementType::i1) return {1, facts.constancy, 1};
  const bool same = bit_width(to) == bit_width(from);
  if (same || (bit_width(to) > bit_width(from) && !is_unsigned(from))) return facts;
  return {1, facts.constancy, std::min(element_divisor(facts), std::int64_t{1} << std::min(bit_width(to) - 1, 20))};
}

/// What holds of a number that comes from one place or another.
IndexFacts either(const IndexFacts& a, const IndexFacts& b) {
  const std::int64_t run = std::gcd(a.run, b.run);
  return {run, std::gcd(a.constancy, b.constancy), std::gcd(run_divisor(a, run), run_divisor(b, run))};
}

/// Values that a loop carries, a branch yields or one warp hands to another start with what is known of their first source; each
/// round adds what the others say, until nothing changes any more.
class Analysis {
 public:
  explicit Analysis(const ir::Function& function) : function_(function), facts_(function.value_count()), sources_(function.value_count()) {}

  std::vector<IndexFacts> run() {
    const auto& arguments = function_.block(function_.body()).arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const ir::Parameter& parameter = function_.parameters[i];
      if (parameter.type.is_pointer() && parameter.aligned) facts_[arguments[i].index].divisor = 16 / byte_size(parameter.type.element);
    }
    for (int round = 0; round < most_rounds; ++round) {
      changed_ = false;
      visit(function_.body());
      if (!changed_) return std::move(facts_);
    }
    give_up_ = true;   // numbers that depend on each other in a long chain
    visit(function_.body());
    return std::move(facts_);
  }

 private:
  static constexpr int most_rounds = 24;

  const IndexFacts& of(ir::Value value) const { return facts_[value.index]; }

  /// `value` may be what `source` says.
  void comes_from(ir::Value value, const IndexFacts& source) {
    if (give_up_) {
      facts_[value.index] = {};
      return;
    }
    std::optional<IndexFacts>& known = sources_[value.index];
    const IndexFacts next = known ? either(*known, source) : source;
    if (known && next == *known) return;
    known = facts_[value.index] = next;
    changed_ = true;
  }

  void come_from(const std::vector<ir::Value>& values, const std::vector<ir::Value>& sources, std::size_t first_source) {
    for (std::size_t i = 0; i < values.size(); ++i) comes_from(values[i], of(sources[first_source + i]));
  }

  void put(const ir::Operation& operation) {
    std::vector<IndexFacts>& known = put_[operation.operands[0].index];
    known.resize(operation.operands.size() - 2, {1, 1, most});
    for (std::size_t i = 0; i < known.size(); ++i) {
      const IndexFacts next = either(known[i], of(operation.operands[2 + i]));
      changed_ = changed_ || next != known[i];
      known[i] = next;
    }
  }

  const std::vector<ir::Value>& last_operands(ir::BlockId block) const { return function_.operation(function_.block(block).operations.back()).operands; }

  void visit(ir::BlockId block) {
    for (ir::OperationId id : function_.block(block).operations) visit(function_.operation(id));
  }

  void visit(const ir::Operation& operation) {
    auto visit_blocks = [&] {
      for (ir::BlockId inner : operation.blocks) visit(inner);
    };
    switch (operation.opcode) {
      case Opcode::for_: {
        const std::vector<ir::Value>& inside = function_.block(operation.blocks[0]).arguments;
        facts_[inside[0].index].divisor = std::gcd(of(operation.operands[0]).divisor, of(operation.operands[2]).divisor);
        const std::vector<ir::Value> carried(inside.begin() + 1, inside.end());
        come_from(carried, operation.operands, 3);
        visit_blocks();
        come_from(carried, last_operands(operation.blocks[0]), 0);
        for (std::size_t i = 0; i < carried.size(); ++i) comes_from(operation.results[i], of(carried[i]));
        return;
      }
      case Opcode::while_: {
        const ir::BlockId test = operation.blocks[0], body = operation.blocks[1];
        const std::vector<ir::Value>& tested = function_.block(test).arguments;
        come_from(tested, operation.operands, 0);
        visit(test);
        come_from(function_.block(body).arguments, last_operands(test), 1);
        come_from(operation.results, last_operands(test), 1);
        visit(body);
        come_from(tested, last_operands(body), 0);
        return;
      }
      case Opcode::if_:
        visit_blocks();
        for (ir::BlockId inner : operation.blocks) come_from(operation.results, last_operands(inner), 0);
        return;
      case Opcode::ring_put:
        put(operation);
        return;
      case Opcode::ring_get: {
        const auto put = put_.find(operation.operands[0].index);
        for (std::size_t i = 0; put != put_.end() && i < operation.results.size(); ++i) comes_from(operation.results[i], put->second[i]);
        return;
      }
      default:
        visit_blocks();
        if (operation.results.size() == 1 && operation.blocks.empty()) facts_[operation.results[0].index] = result_facts(operation);
    }
  }

  IndexFacts result_facts(const ir::Operation& operation) const {
    const ir::Type& type = function_.type(operation.results[0]);
    const std::int64_t extent = last_extent(type);
    auto operand = [&](int i) -> const IndexFacts& { return of(operation.operands[i]); };
    auto operand_type = [&](int i) -> const ir::Type& { return function_.type(operation.operands[i]); };
    IndexFacts result;
    switch (operation.opcode) {
      case Opcode::constant: {
        const auto* value = operation.attributes.find(ir::AttributeName::value);
        result.constancy = extent;
        if (value && std::holds_alternative<std::int64_t>(*value)) result.divisor = power_of_two_in(std::get<std::int64_t>(*value));
        return result;
      }
      case Opcode::arange: return {extent, 1, power_of_two_in(operation.attributes.integer(ir::AttributeName::start))};
      case Opcode::broadcast:
        if (operand_type(0).rank == 0 || last_extent(operand_type(0)) == 1) return {1, extent, element_divisor(operand(0))};
        return operand(0);
      case Opcode::expand_dims:
        if (operation.attributes.integer(ir::AttributeName::axis) == type.rank - 1) return {1, 1, element_divisor(operand(0))};
        return operand(0);
      case Opcode::convert_layout: return operand(0);
      case Opcode::cast:
        return cast_facts(operand_type(0).element, type.element, operand(0));
      case Opcode::add:
      case Opcode::offset: return sum_facts(operand(0), operand(1), false);
      case Opcode::sub: return sum_facts(operand(0), operand(1), true);
      case Opcode::mul:
        result.constancy = std::gcd(operand(0).constancy, operand(1).constancy);
        result.divisor = std::min(most, element_divisor(operand(0)) * element_divisor(operand(1)));
        return result;
      case Opcode::lt:
      case Opcode::le:
      case Opcode::gt:
      case Opcode::ge:
      case Opcode::eq:
      case Opcode::ne:
      case Opcode::bit_and:
      case Opcode::bit_or:
      case Opcode::min:
      case Opcode::max:
        result.constancy = std::gcd(operand(0).constancy, operand(1).constancy);
        if (operation.opcode == Opcode::lt || operation.opcode == Opcode::ge) {   // i < n with n a multiple: equal within a run
          const std::int64_t group = std::gcd(std::gcd(operand(0).run, operand(1).constancy),
                                              std::gcd(run_divisor(operand(0), operand(0).run), operand(1).divisor));
          result.constancy = std::max(result.constancy, group);
        }
        if (operation.opcode == Opcode::min || operation.opcode == Opcode::max) {
          result.divisor = std::gcd(element_divisor(operand(0)), element_divisor(operand(1)));
        }
        return result;
      case Opcode::select: {
        result.constancy = std::gcd(std::gcd(operand(0).constancy, operand(1).constancy), operand(2).constancy);
        result.divisor = std::gcd(element_divisor(operand(1)), element_divisor(operand(2)));
        return result;
      }
      default:
        if (ir::has(operation.opcode, ir::elementwise)) {
          result.constancy = extent;
          for (std::size_t i = 0; i < operation.operands.size(); ++i) result.constancy = std::gcd(result.constancy, operand(i).constancy);
        }
        return result;
    }
  }

  const ir::Function& function_;
  std::vector<IndexFacts> facts_;
  std::vector<std::optional<IndexFacts>> sources_;             // of values with several
  std::map<std::uint32_t, std::vector<IndexFacts>> put_;       // into rings of scalars
  bool changed_ = false, give_up_ = false;
};

}  // namespace

std::vector<IndexFacts> index_facts(const ir::Function& function) { return Analysis(function).run(); }

}  // namespace flextile::backend
