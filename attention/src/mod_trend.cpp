#include "mod_trend.hpp"

#include <algorithm>

#include "mod_arguments.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"   // of operations that are not listed nothing is known

namespace flextile::attention {
namespace {

using ir::Opcode;

/// On which side of zero a value stays.
enum class Side { unknown, above, below };   // or at zero

struct Course {
  Trend trend = Trend::unknown;
  Side side = Side::unknown;
};

Trend opposite(Trend trend) { return trend == Trend::rises ? Trend::falls : trend == Trend::falls ? Trend::rises : trend; }
Side opposite(Side side) { return side == Side::above ? Side::below : side == Side::below ? Side::above : side; }
Course negated(Course x) { return {opposite(x.trend), opposite(x.side)}; }

/// Of a value that grows with both. Two that go one way each may go against each other.
Trend both(Trend a, Trend b) { return a == Trend::same ? b : b == Trend::same || (a == b && a != Trend::one_way) ? a : Trend::unknown; }

Course sum(Course a, Course b) { return {both(a.trend, b.trend), a.side == b.side ? a.side : Side::unknown}; }

Course scaled(Course x, Side factor) {
  if (x.trend == Trend::same) return x;
  const Trend either = x.trend == Trend::unknown ? Trend::unknown : Trend::one_way;
  return {factor == Side::above ? x.trend : factor == Side::below ? opposite(x.trend) : either, Side::unknown};
}

Course product(Course a, Course b) {
  Course result;
  if (b.trend == Trend::same) result = scaled(a, b.side);
  else if (a.trend == Trend::same) result = scaled(b, a.side);
  result.side = a.side == Side::unknown || b.side == Side::unknown ? Side::unknown : a.side == b.side ? Side::above : Side::below;
  return result;
}

/// Parameters from `first_index` on, before `indices`, are positions, of which number `moving` grows and the others stay.
struct Direction {
  std::size_t first_index, indices, moving;
};

constexpr Direction along_keys_of_score = {1, score_indices, kv_of_score}, directions_of_mask[] = {{0, mask_indices, q_of_mask}, {0, mask_indices, kv_of_mask}};

class Survey {
 public:
  Survey(const ir::Function& mod, const Direction& direction) : mod_(mod), courses_(mod.value_count()) {
    const std::vector<ir::Value>& parameters = mod.block(mod.body()).arguments;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // Scores differ from key to key, but on average they do not rise or fall: the mod is what decides.
      const bool is_index = i >= direction.first_index && i < direction.indices;
      courses_[parameters[i].index] = {i == direction.moving ? Trend::rises : Trend::same, is_index ? Side::above : Side::unknown};
    }
    for (ir::OperationId id : mod.block(mod.body()).operations) {
      const ir::Operation& operation = mod.operation(id);
      if (operation.results.size() == 1) courses_[operation.results[0].index] = of(operation);
    }
  }

  Trend result() const {
    const ir::Operation& end = mod_.operation(mod_.block(mod_.body()).operations.back());
    return courses_[end.operands[0].index].trend;
  }

 private:
  Course of(const ir::Operation& operation) const {
    auto in = [&](std::size_t i) { return courses_[operation.operands[i].index]; };
    switch (operation.opcode) {
      case Opcode::constant: return of_constant(operation);
      case Opcode::neg: return negated(in(0));
      case Opcode::add: return sum(in(0), in(1));
      case Opcode::sub: return sum(in(0), negated(in(1)));
      case Opcode::mul: return product(in(0), in(1));
      case Opcode::fma: return sum(product(in(0), in(1)), in(2));
      case Opcode::div: return in(1).trend == Trend::same ? product(in(0), in(1)) : Course{};
      case Opcode::shr: return in(1).trend == Trend::same ? in(0) : Course{};
      case Opcode::min:
      case Opcode::max: return sum(in(0), in(1));
      case Opcode::exp:
      case Opcode::exp2: return {in(0).trend, Side::above};
      case Opcode::sqrt:
      case Opcode::ceil:
      case Opcode::floor:
      case Opcode::round:
      case Opcode::trunc:
      case Opcode::tanh:
      case Opcode::erf: return in(0);
      case Opcode::log:
      case Opcode::log2: return {in(0).trend, Side::unknown};
      case Opcode::cast: return of_cast(operation);
      case Opcode::abs: return {in(0).side == Side::above ? in(0).trend : in(0).side == Side::below ? opposite(in(0).trend) : same_or_unknown(operation), Side::above};
      case Opcode::lt:
      case Opcode::le: return {sum(in(1), negated(in(0))).trend, Side::above};
      case Opcode::gt:
      case Opcode::ge: return {sum(in(0), negated(in(1))).trend, Side::above};
      case Opcode::bit_and:
      case Opcode::bit_or: return is_truth(operation) ? sum(in(0), in(1)) : Course{same_or_unknown(operation), Side::unknown};
      case Opcode::bit_not: return is_truth(operation) ? Course{opposite(in(0).trend), Side::above} : Course{same_or_unknown(operation), Side::unknown};
      case Opcode::select: return in(0).trend == Trend::same ? sum(in(1), in(2)) : Course{};
      default: return {operation.blocks.empty() ? same_or_unknown(operation) : Trend::unknown, Side::unknown};
    }
  }

  bool is_truth(const ir::Operation& operation) const { return mod_.type(operation.results[0]).element == ElementType::i1; }

  Course of_constant(const ir::Operation& operation) const {
    const bool real = is_float(mod_.type(operation.results[0]).element);
    const double value = real ? operation.attributes.number(ir::AttributeName::value) : static_cast<double>(operation.attributes.integer(ir::AttributeName::value));
    return {Trend::same, value >= 0 ? Side::above : value <= 0 ? Side::below : Side::unknown};
  }

  /// Conversions between numbers keep the order; those to narrow and to unsigned integers wrap.
  Course of_cast(const ir::Operation& operation) const {
    const ElementType to = mod_.type(operation.results[0]).element;
    const bool keeps_order = is_float(to) || to == ElementType::i32 || to == ElementType::i64;
    return keeps_order ? courses_[operation.operands[0].index] : Course{same_or_unknown(operation), Side::unknown};
  }

  Trend same_or_unknown(const ir::Operation& operation) const {
    const bool same = std::all_of(operation.operands.begin(), operation.operands.end(), [&](ir::Value x) { return courses_[x.index].trend == Trend::same; });
    return same ? Trend::same : Trend::unknown;
  }

  const ir::Function& mod_;
  std::vector<Course> courses_;   // of each value
};

}  // namespace

Trend trend_along_keys(const ir::Function& score_mod) { return Survey(score_mod, along_keys_of_score).result(); }

bool sees_one_side(const ir::Function& mask_mod) {
  return std::all_of(std::begin(directions_of_mask), std::end(directions_of_mask), [&](const Direction& direction) {
    const Trend trend = Survey(mask_mod, direction).result();
    return trend == Trend::rises || trend == Trend::falls;
  });
}

}  // namespace flextile::attention
