#include "scanner.hpp"

#include <algorithm>
#include <charconv>
#include <flextile/ir/error.hpp>
#include <limits>

#include "text.hpp"

namespace flextile::ir {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

TextPosition Scanner::position() const { return {line_, static_cast<std::uint32_t>(1 + place_ - line_start_)}; }

void Scanner::skip_space() {
  while (place_ < text_.size()) {
    char c = text_[place_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++place_;
      if (c == '\n') ++line_, line_start_ = place_;
    } else if (rest().starts_with("//")) {
      place_ = std::min(text_.find('\n', place_), text_.size());
    } else {
      return;
    }
  }
}

bool Scanner::sees(std::string_view piece) const {
  if (!rest().starts_with(piece)) return false;
  std::size_t end = place_ + piece.size();
  return !is_word(piece.back()) || end >= text_.size() || !is_word(text_[end]);
}

bool Scanner::take(std::string_view piece) {
  if (!sees(piece)) return false;
  place_ += piece.size();
  skip_space();
  return true;
}

void Scanner::expect(std::string_view piece) {
  if (!take(piece)) fail(join("\"", piece, "\""));
}

std::string_view Scanner::word(std::string_view what) {
  std::size_t end = place_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  if (end == place_) fail(what);
  std::string_view result = text_.substr(place_, end - place_);
  place_ = end;
  skip_space();
  return result;
}

std::int64_t Scanner::integer(std::string_view what, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + place_, text_.data() + text_.size(), value);
  if (error != std::errc() || value < low || value > high) fail(join(what, " from ", low, " to ", high));
  place_ = end - text_.data();
  skip_space();
  return value;
}

std::string Scanner::quoted(std::string_view what) {
  if (at_end() || text_[place_] != '"') fail(what);
  std::string result;
  for (std::size_t i = place_ + 1; i < text_.size(); ++i) {
    char c = text_[i];
    if (c == '"') {
      place_ = i + 1;
      skip_space();
      return result;
    }
    if (c == '\n') break;
    if (c == '\\' && i + 1 < text_.size()) {
      c = text_[++i];
      if (c == 'x') {
        int high = i + 2 < text_.size() ? hex(text_[i + 1]) : -1, low = i + 2 < text_.size() ? hex(text_[i + 2]) : -1;
        if (high < 0 || low < 0) break;
        c = static_cast<char>(16 * high + low);
        i += 2;
      }
    }
    result += c;
  }
  fail("text in quotes on one line, with \\\", \\\\ and \\xHH");
}

bool Scanner::number(std::int64_t& integer, double& real) {
  const char *first = text_.data() + place_, *last = text_.data() + text_.size();
  bool negative = first != last && *first == '-';
  for (std::string_view name : {"inf", "nan"}) {
    if (!rest().substr(negative).starts_with(name)) continue;
    place_ += negative + name.size();
    skip_space();
    real = name == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (negative) real = -real;
    return false;
  }
  auto [integer_end, integer_error] = std::from_chars(first, last, integer);
  auto [real_end, real_error] = std::from_chars(first, last, real);
  bool is_integer = integer_error == std::errc() && integer_end >= real_end;
  if (!is_integer && real_error != std::errc()) fail("a number");
  place_ = (is_integer ? integer_end : real_end) - text_.data();
  if (place_ < text_.size() && is_word(text_[place_])) fail("the end of the number");
  skip_space();
  return is_integer;
}

void Scanner::fail(std::string_view expected) const {
  std::string found = "the end of the text";
  if (!at_end()) {
    std::size_t end = place_;
    while (end < text_.size() && end < place_ + 32 && is_word(text_[end])) ++end;
    found = join("\"", text_.substr(place_, std::max<std::size_t>(end - place_, 1)), "\"");
  }
  fail_at(position(), join("expected ", expected, ", found ", found));
}

void Scanner::fail_at(TextPosition position, std::string_view sentence) {
  throw CompileError(join("flextile: compile error in tile IR text, line ", position.line, ", column ", position.column, "\n  ", sentence));
}

}  // namespace flextile::ir
