#include <flextile/attention/catalogue.hpp>

#include <charconv>

#include <flextile/runtime/tensor.hpp>


namespace flextile {
namespace {

struct Entry {
  const char* name;
  int number;               // the default of what follows ':'; 0: nothing follows
  ir::Mod (*make)(int);
};

ir::Mod document_mask(int) {
  static const Tensor<i32> ids = zeros<i32>(Device::host(), {1});
  return erase_mask(masks::document(ids));
}

constexpr Entry mask_entries[] = {
    {"causal", 0, [](int) { return erase_mask(masks::causal); }},
    {"sliding_window", 1024, [](int n) { return erase_mask(masks::sliding_window(n)); }},
    {"dilated_sliding_window", 1024, [](int n) { return erase_mask(masks::dilated_sliding_window(n, 4)); }},
    {"prefix_lm", 512, [](int n) { return erase_mask(masks::prefix_lm(n)); }},
    {"chunked", 1024, [](int n) { return erase_mask(masks::chunked(n)); }},
    {"document", 0, document_mask},
    {"neighbourhood", 64, [](int n) { return erase_mask(masks::neighbourhood(n, n, 7, 7)); }},
};

ir::Mod distance_mod(int length) {
  static const Tensor<bf16> table = zeros<bf16>(Device::host(), {1, 64});
  return erase_score(scores::distance_bias(table, length));
}

constexpr Entry score_entries[] = {
    {"alibi", 16, [](int n) { return erase_score(scores::alibi(n)); }},
    {"softcap", 20, [](int n) { return erase_score(scores::softcap(static_cast<float>(n))); }},
    {"relative", 0, [](int) { return erase_score(scores::relative); }},
    {"head_bias", 0, [](int) { return erase_score(scores::head_bias); }},
    {"distance_bias", 1024, distance_mod},
};

std::string shown(const Entry& entry) { return entry.name + (entry.number ? ":" + std::to_string(entry.number) : std::string()); }

template <std::size_t Count> ir::Mod find(const Entry (&entries)[Count], const char* kind, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    int number = entry.number;
    if (colon != std::string_view::npos) {
      const std::string_view digits = text.substr(colon + 1);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (!entry.number) throw ArgumentError("flextile: " + std::string(kind) + " \"" + entry.name + "\" takes no number, \"" + std::string(text) + "\" gives one");
      if (error != std::errc() || end != digits.data() + digits.size() || number < 1)
        throw ArgumentError("flextile: " + std::string(kind) + " \"" + std::string(text) + "\": what follows ':' must be a whole number of at least 1");
    }
    return entry.make(number);
  }
  std::string known;
  for (const Entry& entry : entries) known += (known.empty() ? "" : ", ") + shown(entry);
  throw ArgumentError("flextile: no " + std::string(kind) + " is called \"" + std::string(text) + "\": there are " + known);
}

template <std::size_t Count> std::vector<std::string> names(const Entry (&entries)[Count]) {
  std::vector<std::string> result;
  for (const Entry& entry : entries) result.push_back(shown(entry));
  return result;
}

}  // namespace

ir::Mod named_mask(std::string_view name) { return find(mask_entries, "mask", name); }
ir::Mod named_score(std::string_view name) { return find(score_entries, "score mod", name); }
std::vector<std::string> mask_names() { return names(mask_entries); }
std::vector<std::string> score_names() { return names(score_entries); }

}  // namespace flextile
