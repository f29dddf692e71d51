// Options of one command: read from the command line, refused with a sentence that names the nearest one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// The command line is wrong. what() is a sentence; the program ends with code 2.
struct UsageError {
  std::string sentence;
};

struct Option {
  std::string name;            // "--mask"
  std::string placeholder;     // "NAME"; "": a switch
  std::string fallback;        // value where it is not given
  std::string meaning;         // for --help
};

class Options {
 public:
  /// Accepts "--name value" and "--name=value". Throws UsageError for an unknown or repeated option or a missing value.
  Options(std::string command, std::vector<Option> known, const std::vector<std::string>& arguments);

  /// What is not an option, in order.
  const std::vector<std::string>& positional() const { return positional_; }
  const std::string& text(std::string_view name) const;
  bool given(std::string_view name) const;
  /// Throws UsageError unless it is a whole number of at least `least`.
  int number(std::string_view name, int least) const;
  /// Throws UsageError unless it is one of `allowed`.
  const std::string& choice(std::string_view name, const std::vector<std::string>& allowed) const;

 private:
  std::size_t find(std::string_view name) const;
  std::string command_;
  std::vector<Option> known_;
  std::vector<std::string> values_;
  std::vector<bool> given_;
  std::vector<std::string> positional_;
};

/// The name that `word` was probably meant to be, or "".
std::string nearest(std::string_view word, const std::vector<std::string>& names);
/// "a, b or c".
std::string join(const std::vector<std::string>& names);
/// One line per option, aligned.
std::string option_table(const std::vector<Option>& options);

}  // namespace tool
