#include "type_text.hpp"

#include <limits>

#include "text.hpp"

namespace flextile::ir {
namespace {

constexpr std::int64_t max_int32 = std::numeric_limits<std::int32_t>::max();

Digit read_digit(Scanner& scanner) {
  Digit digit;
  digit.size = static_cast<std::int32_t>(scanner.integer("a digit's size", 1, max_int32));
  scanner.expect(":");
  if (scanner.take("*")) return digit;
  digit.stride = static_cast<std::int32_t>(scanner.integer("a stride", 0, max_int32));
  scanner.expect("@");
  digit.axis = static_cast<std::int32_t>(scanner.integer("an axis", 0, max_tile_rank - 1));
  return digit;
}

std::vector<Digit> read_digits(Scanner& scanner, std::string_view name) {
  std::vector<Digit> digits;
  scanner.expect(name);
  scanner.expect("[");
  if (scanner.take("]")) return digits;
  do digits.push_back(read_digit(scanner));
  while (scanner.take(","));
  scanner.expect("]");
  return digits;
}

bool parse_element(std::string_view text, ElementType& element) {
  for (int i = 0; i < element_type_count; ++i) {
    if (name(static_cast<ElementType>(i)) != text) continue;
    element = static_cast<ElementType>(i);
    return true;
  }
  return false;
}

ElementType read_element(Scanner& scanner) {
  ElementType element{};
  TextPosition position = scanner.position();
  std::string_view text = scanner.word("an element type");
  if (!parse_element(text, element))
    Scanner::fail_at(position, join("expected an element type (i1, i32, bf16, f32, ...), found \"", text, "\""));
  return element;
}

// "128x64xbf16" or "128x64xptr": extents, then a word. The scanner sees it as one word.
Shape parse_extents(std::string_view& text, TextPosition position) {
  Shape shape;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    std::int64_t extent = 0;
    std::size_t used = 0;
    for (; used < text.size() && text[used] >= '0' && text[used] <= '9'; ++used) {
      extent = 10 * extent + (text[used] - '0');
      if (extent > max_int32) Scanner::fail_at(position, join("expected an extent from 1 to ", max_int32));
    }
    if (used == text.size() || text[used] != 'x') Scanner::fail_at(position, "expected \"x\" after an extent, as in tile<128x64xbf16>");
    shape.push_back(static_cast<std::int32_t>(extent));
    text.remove_prefix(used + 1);
  }
  return shape;
}

void check_rank(const Shape& shape, std::size_t most, TextPosition position) {
  if (shape.size() > most) Scanner::fail_at(position, join("expected at most ", most, " axes, found ", shape.size()));
}

ElementType read_pointee(Scanner& scanner) {
  scanner.expect("<");
  ElementType element = read_element(scanner);
  scanner.expect(">");
  return element;
}

}  // namespace

Layout read_layout(Scanner& scanner) {
  Layout layout;
  layout.registers = read_digits(scanner, "registers");
  layout.lanes = read_digits(scanner, "lanes");
  layout.warps = read_digits(scanner, "warps");
  return layout;
}

Type read_type(Scanner& scanner) {
  TextPosition position = scanner.position();
  std::string_view text = scanner.word("a type");
  ElementType element{};
  if (parse_element(text, element)) return Type::scalar(element);
  if (text == "token") return Type::token();
  if (text == "ptr") return Type::pointer(read_pointee(scanner));
  if (text != "tile" && text != "view" && text != "shared") {
    Scanner::fail_at(position,
                     join("expected a type (f32, tile<64xf32>, ptr<f32>, view<2xf32>, shared<2x64xf32> or token), found \"", text, "\""));
  }
  scanner.expect("<");
  TextPosition inside = scanner.position();
  std::string_view rest = scanner.word("extents and an element type");
  Shape shape = parse_extents(rest, inside);
  if (text == "tile" && rest == "ptr") {
    check_rank(shape, max_tile_rank, inside);
    Type type = Type::pointer(read_pointee(scanner), shape);
    scanner.expect(">");
    if (shape.empty()) Scanner::fail_at(inside, "expected extents, as in tile<64xptr<f32>>");
    return type;
  }
  if (!parse_element(rest, element)) Scanner::fail_at(inside, join("expected an element type after the extents, found \"", rest, "\""));
  scanner.expect(">");
  if (text == "tile") {
    check_rank(shape, max_tile_rank, inside);
    if (shape.empty()) Scanner::fail_at(inside, "expected extents, as in tile<64xf32>");
    return Type::tile(element, shape);
  }
  if (text == "view") {
    if (shape.size() != 1 || shape[0] > max_view_rank)
      Scanner::fail_at(inside, join("expected the number of axes, from 0 to ", max_view_rank, ", as in view<2xf32>"));
    return Type::view(element, shape[0]);
  }
  if (shape.empty()) Scanner::fail_at(inside, "expected the number of stages, as in shared<3x64x64xf32>");
  check_rank(shape, max_tile_rank + 1, inside);
  int stages = shape[0];
  shape.erase(shape.begin());
  return Type::shared(element, shape, stages);
}

}  // namespace flextile::ir
