// The text of a PTX kernel as instructions with operands, for the emulator.
#pragma once
#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace flextile::test {

class PtxProgram {
 public:
  explicit PtxProgram(const std::string& ptx) { parse(ptx); }

 protected:
  struct Operand {
    enum Kind { reg, immediate, label, memory, vector, special } kind = immediate;
    int slot = -1;
    std::uint64_t value = 0;      // bits of an immediate, offset of an address
    std::string text;
    std::vector<Operand> items;
  };
  struct Instruction {
    std::string name;
    std::vector<std::string> parts;
    int predicate = -1;
    bool negated = false;
    std::vector<Operand> operands;
    std::string line;
  };

  std::vector<Instruction> code_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::string, int> slots_, parameters_;
  int threads_ = 32;

 private:
  static std::string trim(const std::string& s) {
    const auto a = s.find_first_not_of(" \t\r"), b = s.find_last_not_of(" \t\r");
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
  }

  void parse(const std::string& ptx) {
    std::istringstream in(ptx);
    std::string line;
    int depth = 0;
    while (std::getline(in, line)) {
      if (const auto comment = line.find("//"); comment != std::string::npos) line.resize(comment);
      line = trim(line);
      if (line.rfind(".reqntid", 0) == 0) threads_ = std::stoi(line.substr(9));
      if (line.rfind(".param", 0) == 0) {
        std::string name = line.substr(line.find_last_of(" \t") + 1);
        if (name.back() == ',') name.pop_back();
        parameters_[name] = static_cast<int>(parameters_.size());
      }
      if (line == "{") { ++depth; continue; }
      if (line == "}") { --depth; continue; }
      if (depth == 0 || line.empty() || line[0] == '.') continue;
      if (line.back() == ':') { labels_[line.substr(0, line.size() - 1)] = code_.size(); continue; }
      parse_instruction(line);
    }
    for (Instruction& instruction : code_)
      for (Operand& operand : instruction.operands)
        if (operand.kind == Operand::label) operand.value = labels_.at(operand.text);
  }

  void parse_instruction(std::string line) {
    Instruction result;
    result.line = line;
    if (line[0] == '@') {
      result.negated = line[1] == '!';
      const auto end = line.find_first_of(" \t");
      result.predicate = slot(line.substr(result.negated ? 2 : 1, end - (result.negated ? 2 : 1)));
      line = trim(line.substr(end));
    }
    if (line.back() == ';') line.pop_back();
    const auto space = line.find_first_of(" \t");
    std::istringstream words(line.substr(0, space));
    for (std::string part; std::getline(words, part, '.');) (result.name.empty() ? result.name : result.parts.emplace_back()) = part;
    if (space != std::string::npos)
      for (const std::string& text : split(trim(line.substr(space)))) result.operands.push_back(parse_operand(text));
    code_.push_back(std::move(result));
  }

  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> result;
    int depth = 0;
    std::string now;
    for (char c : text) {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == ',' && depth == 0) { result.push_back(trim(now)); now.clear(); }
      else now += c;
    }
    if (!trim(now).empty()) result.push_back(trim(now));
    return result;
  }

  int slot(const std::string& name) { return slots_.try_emplace(name, static_cast<int>(slots_.size())).first->second; }

  Operand parse_operand(const std::string& text) {
    Operand result;
    result.text = text;
    if (text[0] == '{') {
      result.kind = Operand::vector;
      for (const std::string& item : split(text.substr(1, text.size() - 2))) result.items.push_back(parse_operand(item));
    } else if (text[0] == '[') {
      result.kind = Operand::memory;
      std::string inside = trim(text.substr(1, text.size() - 2));
      if (const auto plus = inside.find('+'); plus != std::string::npos) {
        result.value = static_cast<std::uint64_t>(std::stoll(inside.substr(plus + 1)));
        inside.resize(plus);
      }
      result.text = inside;
      if (inside[0] == '%') result.slot = slot(inside);
    } else if (text[0] == '%') {
      const bool special = text.rfind("%tid", 0) == 0 || text.rfind("%ctaid", 0) == 0 || text.rfind("%nctaid", 0) == 0;
      result.kind = special ? Operand::special : Operand::reg;
      if (!special) result.slot = slot(text);
    } else if (text[0] == '$') {
      result.kind = Operand::label;
    } else if (text.rfind("0f", 0) == 0 || text.rfind("0d", 0) == 0) {
      result.value = std::stoull(text.substr(2), nullptr, 16);
    } else if (text == "shared_memory" || text == "_") {
      result.value = 0;
    } else {
      result.value = text[0] == '-' ? static_cast<std::uint64_t>(std::stoll(text)) : std::stoull(text, nullptr, 0);
    }
    return result;
  }
};

}  // namespace flextile::test
