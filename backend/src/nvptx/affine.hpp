// What is known of a kernel's whole numbers while it is checked: sums of constants and multiples of unknowns.
//
//   %turn = sub %index, %lower      in a loop with step 2 whose counter is n (0, 1, 2, ...): %index is %lower + 2 n, %turn 2 n
//   %stage = div %turn, %two        n
//
// An unknown (an atom) is a value that nothing more is known of, the counter of a loop, how often a loop runs, or a quotient.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <flextile/ir/function.hpp>

namespace flextile::backend {

using Atom = std::uint32_t;

/// constant + the sum of coefficient * atom.
struct Affine {
  std::int64_t constant = 0;
  std::vector<std::pair<Atom, std::int64_t>> terms;   // sorted by atom; no coefficient is 0

  static Affine number(std::int64_t value) { return {value, {}}; }
  static Affine of(Atom atom) { return {0, {{atom, 1}}}; }
  bool is_number() const { return terms.empty(); }
  /// With `value` in the place of `atom`, but not inside of quotients (Numbers::replaced).
  Affine with(Atom atom, const Affine& value) const;
  bool operator==(const Affine&) const = default;
};
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, std::int64_t factor);
inline Affine operator+(Affine a, std::int64_t b) { return a.constant += b, a; }
inline Affine operator-(Affine a, std::int64_t b) { return a.constant -= b, a; }

/// Each of them is greater than 0.
using Facts = std::vector<Affine>;

/// The numbers of one function. Sums are taken as exact: what computes turns does not overflow.
class Numbers {
 public:
  explicit Numbers(const ir::Function& function);

  /// The integer as a sum, in which the counters of the loops around it may occur.
  const Affine& of(ir::Value value);
  /// How often the loop has been through its body.
  Atom counter(ir::OperationId loop);
  /// Where the loop's counter gives its index: the step, else 0.
  std::int64_t step(const ir::Operation& loop) const;
  /// How often the loop runs, whose bounds are `distance` apart, where the facts hold in front of it.
  Affine trips(ir::OperationId loop, const Affine& distance, const Facts& facts);
  /// What is known where the condition holds, or where it does not.
  Facts when(ir::Value condition, bool holds);

  /// Where the facts hold, the number is greater than 0: a sum of facts, and of what is known of its atoms. False: not known.
  bool proves(const Facts& facts, const Affine& positive) const;
  /// Likewise, one side of a choice after the other.
  bool proves_in_cases(const Facts& facts, const Affine& positive, int choices = 2);
  /// The number, simpler where the facts say which side of a choice it is.
  Affine under(const Facts& facts, const Affine& number);
  bool equal(const Facts& facts, const Affine& a, const Affine& b) { return a == b || under(facts, a - b) == Affine{}; }
  /// With `value` in the place of `atom`, everywhere.
  Affine replaced(const Affine& number, Atom atom, const Affine& value);
  /// How many steps there are in a distance: max(distance, 0) / step, rounded up.
  Affine steps(const Affine& distance, std::int64_t step);
  /// a and b never leave the same remainder.
  static bool differ(const Affine& a, const Affine& b, std::int64_t modulus);
  /// (a - b) % modulus where it is known, else -1.
  static std::int64_t distance(const Affine& a, const Affine& b, std::int64_t modulus);

  /// Whether the number is another one in each iteration, and the loop's counter does not say which.
  bool depends_on_body(const Affine& number, ir::OperationId loop) const;
  std::string text(const Affine& number) const;

 private:
  struct Unknown {
    enum Kind { counter, trips, quotient, clamp } kind;   // clamp: max(dividend, 0)
    ir::OperationId loop{};
    Affine dividend{};
    std::int64_t divisor = 1;
    bool operator==(const Unknown&) const = default;
  };

  Atom atom(Unknown unknown);
  Affine quotient(const Affine& dividend, std::int64_t divisor);
  Affine compute(ir::Value value);
  Atom counter_of(ir::OperationId loop) const;
  bool is_inside(ir::BlockId block, ir::OperationId loop) const;
  Affine clamped(const Affine& number);
  const Unknown* unknown(Atom atom) const { return atom < f_.value_count() ? nullptr : &unknowns_[atom - f_.value_count()]; }
  bool is_natural(const Affine& number) const;
  bool is_natural(Atom atom) const;
  void add_known(Atom atom, Facts& naturals, std::vector<Atom>& seen) const;
  bool follows(const Facts& naturals, const Affine& natural, int depth) const;

  const ir::Function& f_;
  std::vector<Affine> memo_;
  std::vector<bool> known_;
  std::vector<Unknown> unknowns_;
  std::vector<ir::OperationId> owner_;    // of each block: the operation that it belongs to
  std::vector<ir::BlockId> block_of_;     // of each operation
};

}  // namespace flextile::backend
