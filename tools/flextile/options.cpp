#include "options.hpp"

#include <algorithm>
#include <charconv>

namespace tool {

// Levenshtein's distance: insertions, deletions and replacements that turn one word into the other.
static std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool begins = word.size() >= 3 && name.starts_with(word);
    const std::size_t away = begins ? 1 : distance(word, name);
    if (away < least) least = away, best = name;
  }
  return best;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string option_table(const std::vector<Option>& options) {
  std::size_t width = 0;
  for (const Option& option : options) width = std::max(width, option.name.size() + option.placeholder.size() + 1);
  std::string text;
  for (const Option& option : options) {
    std::string left = option.name + (option.placeholder.empty() ? "" : " " + option.placeholder);
    left.resize(width, ' ');
    text += "  " + left + "   " + option.meaning + (option.fallback.empty() ? "" : " (default: " + option.fallback + ")") + "\n";
  }
  return text;
}

Options::Options(std::string command, std::vector<Option> known, const std::vector<std::string>& arguments)
    : command_(std::move(command)), known_(std::move(known)), given_(known_.size()) {
  std::vector<std::string> names;
  for (const Option& option : known_) values_.push_back(option.fallback), names.push_back(option.name);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("-") || argument == "-") {
      positional_.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::size_t at = std::find(names.begin(), names.end(), name) - names.begin();
    if (at == names.size()) {
      const std::string meant = nearest(name, names);
      throw UsageError{command_ + ": unknown option '" + name + "'; " +
                       (meant.empty() ? "it knows " + join(names) : "did you mean " + meant + "?")};
    }
    if (given_[at]) throw UsageError{command_ + ": " + name + " is given twice"};
    given_[at] = true;
    if (known_[at].placeholder.empty()) {
      if (equals != std::string::npos) throw UsageError{command_ + ": " + name + " takes no value, but '" + argument + "' gives one"};
    } else if (equals != std::string::npos) {
      values_[at] = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      values_[at] = arguments[++i];
    } else {
      throw UsageError{command_ + ": " + name + " needs a value: " + name + " " + known_[at].placeholder};
    }
  }
}

std::size_t Options::find(std::string_view name) const {
  for (std::size_t i = 0; i < known_.size(); ++i)
    if (known_[i].name == name) return i;
  throw UsageError{command_ + " has no option " + std::string(name)};
}

const std::string& Options::text(std::string_view name) const { return values_[find(name)]; }
bool Options::given(std::string_view name) const { return given_[find(name)]; }

int Options::number(std::string_view name, int least) const {
  const std::string& value = text(name);
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least)
    throw UsageError{command_ + ": " + std::string(name) + " is '" + value + "', but must be a whole number of at least " + std::to_string(least)};
  return number;
}

const std::string& Options::choice(std::string_view name, const std::vector<std::string>& allowed) const {
  const std::string& value = text(name);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  const std::string meant = nearest(value, allowed);
  throw UsageError{command_ + ": " + std::string(name) + " is '" + value + "', but must be " + join(allowed) +
                   (meant.empty() ? "" : "; did you mean " + meant + "?")};
}

}  // namespace tool
