// Attributes: the compile-time parameters of an operation, by name.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace flextile::ir {

enum class AttributeName : std::uint8_t {
#define ATTRIBUTE(name) name,
#include <flextile/ir/attributes.def>
#undef ATTRIBUTE
};

std::string_view name(AttributeName attribute);
bool parse_attribute_name(std::string_view text, AttributeName& attribute);

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Sorted by name, so that equal sets compare equal.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<AttributeName, AttributeValue>> entries);

  void set(AttributeName name, AttributeValue value);
  void erase(AttributeName name);
  const AttributeValue* find(AttributeName name) const;
  bool has(AttributeName name) const { return find(name) != nullptr; }
  /// The integer, or `fallback` where the attribute is absent or no integer.
  std::int64_t integer(AttributeName name, std::int64_t fallback = 0) const;
  /// The number; an integer attribute converts.
  double number(AttributeName name, double fallback = 0) const;
  /// The string, or "".
  std::string_view string(AttributeName name) const;
  /// The list, or an empty one.
  const std::vector<std::int64_t>& list(AttributeName name) const;

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<AttributeName, AttributeValue>> entries_;
};

}  // namespace flextile::ir
