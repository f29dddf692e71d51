// The IR's text. Values are numbered in the order of the text, so that equal functions print equal texts. An occupancy other than 1
// follows the warps: num_warps(8) occupancy(2).
//
//   file 1 "samples/softmax.cpp"
//   layout 0 = registers[4:1@0] lanes[32:4@0] warps[4:128@0]
//   func @softmax(%0 "x": view<2xf32> {aligned, unit_stride}, %1 "n": i32) num_warps(4) {
//     %2 = constant {value = 0.5} : tile<512xf32> #0 loc(1:12)
//     %3 = for %1, %1, %1, %2 {stages = 2} : tile<512xf32> loc(1:13) {
//     ^(%4: i32, %5: tile<512xf32>):
//       yield %5
//     }
//     return
//   }
#include <charconv>
#include <cmath>
#include <flextile/ir/function.hpp>

#include "text.hpp"

namespace flextile::ir {
namespace {

std::string quoted(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

bool is_plain_name(std::string_view text) {
  for (char c : text) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!plain) return false;
  }
  return !text.empty();
}

// The shortest text that reads back as the same double, and that is no integer.
std::string number(double value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string attribute(const AttributeValue& value) {
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const double* real = std::get_if<double>(&value)) return number(*real);
  if (const std::string* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string list = "[";
  for (std::int64_t entry : std::get<std::vector<std::int64_t>>(value)) list += join(list.size() > 1 ? ", " : "", entry);
  return list + "]";
}

class Printer {
 public:
  explicit Printer(const Function& function) : function_(function), numbers_(function.value_count(), none) {
    if (function.block_count() > 0) number_block(function.body());
  }

  std::string function_text() {
    for (std::size_t i = 1; i < function_.files.size(); ++i) text_ += join("file ", i, " ", quoted(function_.files[i]), "\n");
    for (std::size_t i = 0; i < function_.layouts.size(); ++i) text_ += join("layout ", i, " = ", to_string(function_.layouts[i]), "\n");
    text_ += join("func @", is_plain_name(function_.name) ? function_.name : quoted(function_.name), "(");
    for (std::size_t i = 0; i < function_.parameters.size(); ++i) print_parameter(i);
    text_ += join(") num_warps(", function_.num_warps, ")");
    if (function_.occupancy != 1) text_ += join(" occupancy(", function_.occupancy, ")");
    text_ += " {\n";
    if (function_.block_count() > 0) print_operations(function_.body(), 1);
    return std::move(text_) + "}\n";
  }

  std::string operation_text(OperationId id) {
    print_head(function_.operation(id));
    return std::move(text_);
  }

 private:
  void number_value(Value value) {
    if (value.index < numbers_.size() && numbers_[value.index] == none) numbers_[value.index] = next_++;
  }

  void number_block(BlockId id) {
    if (id.index >= function_.block_count() || depth_ > 1000) return;
    ++depth_;
    const Block& block = function_.block(id);
    for (Value argument : block.arguments) number_value(argument);
    for (OperationId operation : block.operations) {
      if (operation.index >= function_.operation_count()) continue;
      for (Value result : function_.operation(operation).results) number_value(result);
      for (BlockId inner : function_.operation(operation).blocks) number_block(inner);
    }
    --depth_;
  }

  std::string value(Value value) const {
    if (value.index >= numbers_.size()) return "%none";
    return numbers_[value.index] == none ? join("%unplaced", value.index) : join("%", numbers_[value.index]);
  }

  std::string typed(Value value) const {
    if (value.index >= function_.value_count()) return "none";
    int layout = function_.layout_of(value);
    return layout < 0 ? to_string(function_.type(value)) : join(function_.type(value), " #", layout);
  }

  void print_parameter(std::size_t i) {
    const Parameter& parameter = function_.parameters[i];
    const std::vector<Value>& arguments = function_.block(function_.body()).arguments;
    Value argument = i < arguments.size() ? arguments[i] : Value{};
    text_ += join(i ? ", " : "", value(argument));
    if (!parameter.name.empty()) text_ += " " + quoted(parameter.name);
    text_ += ": " + typed(argument);
    std::string facts;
    if (parameter.read_only) facts += "read_only";
    if (parameter.aligned) facts += facts.empty() ? "aligned" : ", aligned";
    if (parameter.unit_stride) facts += facts.empty() ? "unit_stride" : ", unit_stride";
    if (!facts.empty()) text_ += " {" + facts + "}";
  }

  void print_operations(BlockId id, int depth) {
    if (id.index >= function_.block_count() || depth > 1000) return;
    for (OperationId operation : function_.block(id).operations) {
      if (operation.index < function_.operation_count()) print_operation(function_.operation(operation), depth);
    }
  }

  void print_operation(const Operation& operation, int depth) {
    text_.append(2 * depth, ' ');
    print_head(operation);
    for (BlockId id : operation.blocks) {
      text_ += " {\n";
      if (id.index < function_.block_count() && !function_.block(id).arguments.empty()) {
        text_.append(2 * depth, ' ');
        text_ += "^(";
        bool first = true;
        for (Value argument : function_.block(id).arguments) {
          text_ += join(first ? "" : ", ", value(argument), ": ", typed(argument));
          first = false;
        }
        text_ += "):\n";
      }
      print_operations(id, depth + 1);
      text_.append(2 * depth, ' ');
      text_ += "}";
    }
    text_ += "\n";
  }

  void print_head(const Operation& operation) {
    for (std::size_t i = 0; i < operation.results.size(); ++i) text_ += join(i ? ", " : "", value(operation.results[i]));
    if (!operation.results.empty()) text_ += " = ";
    text_ += name(operation.opcode);
    for (std::size_t i = 0; i < operation.operands.size(); ++i) text_ += join(i ? ", " : " ", value(operation.operands[i]));
    if (!operation.attributes.empty()) {
      text_ += " {";
      bool first = true;
      for (const auto& [key, entry] : operation.attributes) {
        text_ += join(first ? "" : ", ", name(key), " = ", attribute(entry));
        first = false;
      }
      text_ += "}";
    }
    for (std::size_t i = 0; i < operation.results.size(); ++i) text_ += join(i ? ", " : " : ", typed(operation.results[i]));
    if (operation.location != Location{}) text_ += join(" loc(", operation.location.file, ":", operation.location.line, ")");
  }

  const Function& function_;
  std::vector<std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
  int depth_ = 0;
  std::string text_;
};

}  // namespace

std::string print(const Function& function) { return Printer(function).function_text(); }

std::string print(const Function& function, OperationId operation) {
  if (operation.index >= function.operation_count()) return "no operation";
  return Printer(function).operation_text(operation);
}

}  // namespace flextile::ir
