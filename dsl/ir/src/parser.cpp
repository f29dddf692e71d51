// The inverse of printer.cpp. A function that parses also verifies: the first fault is reported with its place.
#include <flextile/ir/function.hpp>
#include <limits>
#include <unordered_map>
#include <utility>

#include "scanner.hpp"
#include "structure.hpp"
#include "text.hpp"
#include "type_text.hpp"

namespace flextile::ir {
namespace {

constexpr std::int64_t max_int32 = std::numeric_limits<std::int32_t>::max();
constexpr int max_depth = 200;

class Parser {
 public:
  explicit Parser(std::string_view text) : scanner_(text) {}

  Function run() {
    std::vector<std::string> files{""};
    std::vector<Layout> layouts;
    for (;;) {
      if (scanner_.take("file")) {
        scanner_.integer("the next file number,", static_cast<std::int64_t>(files.size()), static_cast<std::int64_t>(files.size()));
        files.push_back(scanner_.quoted("a path in quotes"));
      } else if (scanner_.take("layout")) {
        scanner_.integer("the next layout number,", static_cast<std::int64_t>(layouts.size()), static_cast<std::int64_t>(layouts.size()));
        scanner_.expect("=");
        layouts.push_back(read_layout(scanner_));
      } else {
        break;
      }
    }
    TextPosition start = scanner_.position();
    if (!scanner_.take("func")) scanner_.fail("\"file\", \"layout\" or \"func\"");
    parse_header(std::move(files), std::move(layouts));
    parse_block(function_.body(), 0);
    if (!scanner_.at_end()) scanner_.fail("the end of the text");
    Fault fault = find_fault(function_);
    if (!fault.sentence.empty()) Scanner::fail_at(fault.operation ? positions_[fault.operation.index] : start, fault.sentence);
    return std::move(function_);
  }

 private:
  void parse_value_layout(Value value) {
    if (!scanner_.take("#")) return;
    std::int64_t last = static_cast<std::int64_t>(function_.layouts.size()) - 1;
    if (last < 0) scanner_.fail("no layout: the text has no table of layouts");
    function_.set_layout(value, Layout(function_.layouts[scanner_.integer("a layout", 0, last)]));
  }

  // The number of "%12".
  std::uint32_t value_name() {
    scanner_.expect("%");
    return static_cast<std::uint32_t>(scanner_.integer("a value's number", 0, max_int32));
  }

  Value use() {
    TextPosition position = scanner_.position();
    std::uint32_t number = value_name();
    auto place = values_.find(number);
    if (place == values_.end()) Scanner::fail_at(position, join("%", number, " is not defined before it, or not visible here"));
    return place->second;
  }

  void define(std::uint32_t number, Value value, TextPosition position) {
    if (!values_.emplace(number, value).second) Scanner::fail_at(position, join("%", number, " is defined a second time"));
    scope_.push_back(number);
  }

  void parse_header(std::vector<std::string> files, std::vector<Layout> layouts) {
    struct Named {
      std::uint32_t number;
      TextPosition position;
    };
    std::vector<Named> names;
    std::vector<Parameter> parameters;
    std::vector<std::int64_t> parameter_layouts;
    scanner_.expect("@");
    std::string function_name = scanner_.sees("\"") ? scanner_.quoted("a name") : std::string(scanner_.word("the function's name"));
    scanner_.expect("(");
    while (!scanner_.sees(")")) {
      if (!parameters.empty()) scanner_.expect(",");
      TextPosition position = scanner_.position();
      names.push_back({value_name(), position});
      Parameter parameter;
      if (scanner_.sees("\"")) parameter.name = scanner_.quoted("a name");
      scanner_.expect(":");
      parameter.type = read_type(scanner_);
      parameter_layouts.push_back(scanner_.take("#") ? scanner_.integer("a layout", 0, static_cast<std::int64_t>(layouts.size()) - 1) : -1);
      if (scanner_.take("{")) parse_facts(parameter);
      parameters.push_back(std::move(parameter));
    }
    scanner_.expect(")");
    function_ = Function(std::move(function_name), std::move(parameters));
    function_.files = std::move(files);
    function_.layouts = std::move(layouts);
    for (std::size_t i = 0; i < names.size(); ++i) {
      define(names[i].number, function_.parameter(i), names[i].position);
      if (parameter_layouts[i] >= 0) function_.set_layout(function_.parameter(i), Layout(function_.layouts[parameter_layouts[i]]));
    }
    scanner_.expect("num_warps");
    scanner_.expect("(");
    function_.num_warps = static_cast<int>(scanner_.integer("a number of warps", 1, 32));
    scanner_.expect(")");
    if (scanner_.take("occupancy")) {
      scanner_.expect("(");
      function_.occupancy = static_cast<int>(scanner_.integer("a number of programs", 1, 32));
      scanner_.expect(")");
    }
    scanner_.expect("{");
  }

  void parse_facts(Parameter& parameter) {
    do {
      if (scanner_.take("read_only"))
        parameter.read_only = true;
      else if (scanner_.take("aligned"))
        parameter.aligned = true;
      else if (scanner_.take("unit_stride"))
        parameter.unit_stride = true;
      else
        scanner_.fail("read_only, aligned or unit_stride");
    } while (scanner_.take(","));
    scanner_.expect("}");
  }

  AttributeValue parse_attribute() {
    if (scanner_.sees("\"")) return scanner_.quoted("text");
    if (scanner_.take("[")) {
      std::vector<std::int64_t> list;
      if (scanner_.take("]")) return list;
      do list.push_back(scanner_.integer("an integer", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
      while (scanner_.take(","));
      scanner_.expect("]");
      return list;
    }
    std::int64_t integer = 0;
    double real = 0;
    if (scanner_.number(integer, real)) return integer;
    return real;
  }

  Attributes parse_attributes() {
    Attributes attributes;
    do {
      TextPosition position = scanner_.position();
      AttributeName attribute{};
      std::string_view text = scanner_.word("an attribute's name");
      if (!parse_attribute_name(text, attribute)) Scanner::fail_at(position, join("expected an attribute's name, found \"", text, "\""));
      if (attributes.has(attribute)) Scanner::fail_at(position, join("attribute ", text, " is given twice"));
      scanner_.expect("=");
      attributes.set(attribute, parse_attribute());
    } while (scanner_.take(","));
    scanner_.expect("}");
    return attributes;
  }

  // Operations up to the closing brace; what they define is forgotten there.
  void parse_block(BlockId block, int depth) {
    if (depth > max_depth) scanner_.fail(join("at most ", max_depth, " nested blocks"));
    std::size_t outer = scope_.size();
    if (depth > 0 && scanner_.take("^")) parse_arguments(block);
    while (!scanner_.take("}")) parse_operation(block, depth);
    for (std::size_t i = depth > 0 ? outer : 0; i < scope_.size(); ++i) values_.erase(scope_[i]);
    scope_.resize(depth > 0 ? outer : 0);
  }

  void parse_arguments(BlockId block) {
    scanner_.expect("(");
    do {
      TextPosition position = scanner_.position();
      std::uint32_t number = value_name();
      scanner_.expect(":");
      Value value = function_.add_argument(block, read_type(scanner_));
      parse_value_layout(value);
      define(number, value, position);
    } while (scanner_.take(","));
    scanner_.expect(")");
    scanner_.expect(":");
  }

  void parse_operation(BlockId block, int depth) {
    TextPosition position = scanner_.position();
    std::vector<std::uint32_t> results;
    if (scanner_.sees("%")) {
      do results.push_back(value_name());
      while (scanner_.take(","));
      scanner_.expect("=");
    }
    Operation operation;
    TextPosition opcode_position = scanner_.position();
    std::string_view text = scanner_.word("an operation or \"}\"");
    if (!parse_opcode(text, operation.opcode)) Scanner::fail_at(opcode_position, join("expected an operation, found \"", text, "\""));
    // Operands stand on the operation's line: a value on the next line is the next operation's result.
    if (scanner_.position().line == opcode_position.line && scanner_.sees("%")) {
      do operation.operands.push_back(use());
      while (scanner_.take(","));
    }
    // Attributes and blocks both open with a brace: attributes come before the types, and no attribute is an operation.
    if (!has(operation.opcode, regions) || attributes_follow()) {
      if (scanner_.take("{")) operation.attributes = parse_attributes();
    }
    OperationId id = finish_head(block, std::move(operation), results, position);
    if (!has(function_.operation(id).opcode, regions)) return define_results(id, results, position);
    while (scanner_.take("{")) {
      BlockId inner = function_.add_block();
      function_.operation(id).blocks.push_back(inner);
      parse_block(inner, depth + 1);
    }
    define_results(id, results, position);
  }

  // True if what the next brace opens reads "name =".
  bool attributes_follow() const {
    Scanner ahead = scanner_;
    if (!ahead.take("{") || ahead.at_end() || ahead.sees("%") || ahead.sees("^") || ahead.sees("}")) return false;
    AttributeName attribute{};
    return parse_attribute_name(ahead.word("a name"), attribute) && ahead.sees("=");
  }

  // Types, layouts and location, after which the operation is put into its block.
  OperationId finish_head(BlockId block, Operation operation, const std::vector<std::uint32_t>& results, TextPosition position) {
    std::vector<Type> types;
    std::vector<std::int64_t> layouts;
    for (std::size_t i = 0; i < results.size(); ++i) {
      scanner_.expect(i ? "," : ":");
      types.push_back(read_type(scanner_));
      layouts.push_back(scanner_.take("#") ? scanner_.integer("a layout", 0, static_cast<std::int64_t>(function_.layouts.size()) - 1) : -1);
    }
    if (scanner_.take("loc")) {
      scanner_.expect("(");
      operation.location.file =
          static_cast<std::uint32_t>(scanner_.integer("a file", 0, static_cast<std::int64_t>(function_.files.size()) - 1));
      scanner_.expect(":");
      operation.location.line = static_cast<std::uint32_t>(scanner_.integer("a line", 0, std::numeric_limits<std::uint32_t>::max()));
      scanner_.expect(")");
    }
    OperationId id = function_.append(block, std::move(operation), types);
    positions_.resize(function_.operation_count());
    positions_[id.index] = position;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if (layouts[i] >= 0) function_.set_layout(function_.operation(id).results[i], Layout(function_.layouts[layouts[i]]));
    }
    return id;
  }

  void define_results(OperationId id, const std::vector<std::uint32_t>& results, TextPosition position) {
    for (std::size_t i = 0; i < results.size(); ++i) define(results[i], function_.operation(id).results[i], position);
  }

  Scanner scanner_;
  Function function_;
  std::unordered_map<std::uint32_t, Value> values_;
  std::vector<std::uint32_t> scope_;
  std::vector<TextPosition> positions_;
};

}  // namespace

Function parse(std::string_view text) { return Parser(text).run(); }

}  // namespace flextile::ir
