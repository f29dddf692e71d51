#include <flextile/ir/layout.hpp>

#include "text.hpp"

namespace flextile::ir {
namespace {

std::string digits(std::string_view name, const std::vector<Digit>& list) {
  std::string text = join(name, "[");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Digit& digit = list[i];
    text += join(i ? ", " : "", digit.size, ":");
    text += digit.axis < 0 ? std::string("*") : join(digit.stride, "@", digit.axis);
  }
  return text + "]";
}

}  // namespace

std::string to_string(const Layout& layout) {
  return digits("registers", layout.registers) + " " + digits("lanes", layout.lanes) + " " + digits("warps", layout.warps);
}

}  // namespace flextile::ir
