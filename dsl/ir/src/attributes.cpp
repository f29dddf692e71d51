#include <algorithm>
#include <flextile/ir/attributes.hpp>

namespace flextile::ir {
namespace {

constexpr std::string_view names[] = {
#define ATTRIBUTE(name) #name,
#include <flextile/ir/attributes.def>
#undef ATTRIBUTE
};

template <class Entries>
auto position(Entries& entries, AttributeName name) {
  return std::lower_bound(entries.begin(), entries.end(), name, [](const auto& entry, AttributeName key) { return entry.first < key; });
}

}  // namespace

std::string_view name(AttributeName attribute) { return names[static_cast<int>(attribute)]; }

bool parse_attribute_name(std::string_view text, AttributeName& attribute) {
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == text) {
      attribute = static_cast<AttributeName>(i);
      return true;
    }
  }
  return false;
}

Attributes::Attributes(std::initializer_list<std::pair<AttributeName, AttributeValue>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

void Attributes::set(AttributeName name, AttributeValue value) {
  auto place = position(entries_, name);
  if (place != entries_.end() && place->first == name) {
    place->second = std::move(value);
  } else {
    entries_.insert(place, {name, std::move(value)});
  }
}

void Attributes::erase(AttributeName name) {
  auto place = position(entries_, name);
  if (place != entries_.end() && place->first == name) entries_.erase(place);
}

const AttributeValue* Attributes::find(AttributeName name) const {
  auto place = position(entries_, name);
  return place != entries_.end() && place->first == name ? &place->second : nullptr;
}

std::int64_t Attributes::integer(AttributeName name, std::int64_t fallback) const {
  const AttributeValue* value = find(name);
  const std::int64_t* integer = value ? std::get_if<std::int64_t>(value) : nullptr;
  return integer ? *integer : fallback;
}

double Attributes::number(AttributeName name, double fallback) const {
  const AttributeValue* value = find(name);
  if (!value) return fallback;
  if (const double* number = std::get_if<double>(value)) return *number;
  const std::int64_t* integer = std::get_if<std::int64_t>(value);
  return integer ? static_cast<double>(*integer) : fallback;
}

std::string_view Attributes::string(AttributeName name) const {
  const AttributeValue* value = find(name);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

const std::vector<std::int64_t>& Attributes::list(AttributeName name) const {
  static const std::vector<std::int64_t> empty;
  const AttributeValue* value = find(name);
  const std::vector<std::int64_t>* list = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  return list ? *list : empty;
}

}  // namespace flextile::ir
