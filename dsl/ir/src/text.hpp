// Text pieces for sentences: join("got ", 3, " axes") == "got 3 axes".
#pragma once
#include <concepts>
#include <flextile/ir/type.hpp>
#include <string>
#include <string_view>

namespace flextile::ir {

inline void append_text(std::string& text, std::string_view part) { text += part; }
inline void append_text(std::string& text, const Type& type) { text += to_string(type); }
inline void append_text(std::string& text, const Shape& shape) { text += to_string(shape); }
inline void append_text(std::string& text, ElementType element) { text += name(element); }
template <std::integral Integer>
void append_text(std::string& text, Integer value) {
  text += std::to_string(value);
}

template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  (append_text(text, parts), ...);
  return text;
}

}  // namespace flextile::ir
