// Reads the IR's text piece by piece and knows where it is.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace flextile::ir {

/// A place in the text, from 1.
struct TextPosition {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// Spaces, newlines and // comments separate pieces and mean nothing else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) { skip_space(); }

  TextPosition position() const;
  bool at_end() const { return place_ == text_.size(); }
  /// True if the next characters are `piece`; a piece of letters must be the whole word.
  bool sees(std::string_view piece) const;
  /// Takes `piece` if it is next.
  bool take(std::string_view piece);
  /// Takes `piece` or fails.
  void expect(std::string_view piece);
  /// Letters, digits, '_' and '.'; `what` says what it should have been.
  std::string_view word(std::string_view what);
  std::int64_t integer(std::string_view what, std::int64_t low, std::int64_t high);
  /// "..." with \", \\ and \xHH.
  std::string quoted(std::string_view what);
  /// An integer, or a double: 3, 3.0, 1e-30, inf, -inf, nan.
  bool number(std::int64_t& integer, double& real);
  /// Throws CompileError: where, what was expected, what is there.
  [[noreturn]] void fail(std::string_view expected) const;
  /// Throws CompileError with a sentence about `position`.
  [[noreturn]] static void fail_at(TextPosition position, std::string_view sentence);

 private:
  void skip_space();
  std::string_view rest() const { return text_.substr(place_); }

  std::string_view text_;
  std::size_t place_ = 0;
  std::uint32_t line_ = 1;  // newlines are only ever skipped as space
  std::size_t line_start_ = 0;
};

}  // namespace flextile::ir
