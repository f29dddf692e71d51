// The text of a PTX kernel as instructions with operands, for the emulator.
#pragma once
#include <cstdint>
#include <map>
#include <set>
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
    enum Kind { reg, immediate, label, memory, vector, special, parameter } kind = immediate;
    int slot = -1;
    std::uint64_t value = 0;      // bits of an immediate, offset of an address, which parameter's address
    std::string text;
    std::vector<Operand> items;   // of a vector, of a pair "a|b", or the coordinates behind an address
  };
  struct Instruction {
    std::string name;
    std::vector<std::string> parts;
    int predicate = -1;
    bool negated = false;
    bool joins_warp = false;      // all lanes that still run execute it together
    std::vector<Operand> operands;
    std::string line;
  };

  std::vector<Instruction> code_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::string, int> slots_, parameters_;
  std::set<int> tensor_maps_;     // parameters of 128 bytes
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
        const auto number = static_cast<int>(parameters_.size());
        if (const auto bracket = name.find('['); bracket != std::string::npos) {
          if (name.substr(bracket) != "[128]") throw std::runtime_error("a parameter by value that is no tensor map: " + line);
          name.resize(bracket);
          tensor_maps_.insert(number);
        }
        parameters_[name] = number;
      }
      if (line == "{") { ++depth; continue; }
      if (line == "}") { --depth; continue; }
      if (depth == 0 || line.empty() || line[0] == '.') continue;
      if (line.back() == ':') {
        if (!labels_.try_emplace(line.substr(0, line.size() - 1), code_.size()).second) throw std::runtime_error("a label twice: " + line);
        continue;
      }
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
    if (line.find(';') != std::string::npos) throw std::runtime_error("two instructions in a line: " + line);
    const auto space = line.find_first_of(" \t");
    std::istringstream words(line.substr(0, space));
    for (std::string part; std::getline(words, part, '.');) (result.name.empty() ? result.name : result.parts.emplace_back()) = part;
    result.joins_warp = joins_warp(result);
    if (space != std::string::npos)
      for (const std::string& text : split(trim(line.substr(space)))) result.operands.push_back(parse_operand(text));
    code_.push_back(std::move(result));
  }

  static bool joins_warp(const Instruction& i) {
    for (const char* name : {"shfl", "vote", "mma", "wgmma", "ldmatrix", "stmatrix", "elect", "setmaxnreg"})
      if (i.name == name) return true;
    return i.name == "bar" && i.parts.at(0) == "warp";
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
      const std::vector<std::string> places = split(text.substr(1, text.size() - 2));
      std::string inside = places.at(0);
      if (places.size() > 1) result.items = parse_operand(places[1]).items;
      if (const auto plus = inside.find('+'); plus != std::string::npos) {
        result.value = static_cast<std::uint64_t>(std::stoll(inside.substr(plus + 1)));
        inside = trim(inside.substr(0, plus));
      }
      result.text = inside;
      if (inside[0] == '%') result.slot = slot(inside);
    } else if (const auto bar = text.find('|'); bar != std::string::npos) {
      result.kind = Operand::vector;
      result.items = {parse_operand(text.substr(0, bar)), parse_operand(text.substr(bar + 1))};
    } else if (text[0] == '%') {
      bool special = false;
      for (const char* name : {"%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid"}) special = special || text.rfind(name, 0) == 0;
      result.kind = special ? Operand::special : Operand::reg;
      if (!special) result.slot = slot(text);
    } else if (text[0] == '$') {
      result.kind = Operand::label;
    } else if (text.rfind("0f", 0) == 0 || text.rfind("0d", 0) == 0) {
      result.value = std::stoull(text.substr(2), nullptr, 16);
    } else if (text == "shared_memory" || text == "_") {
      result.value = 0;
    } else if (const auto parameter = parameters_.find(text); parameter != parameters_.end()) {
      result.kind = Operand::parameter;
      result.value = static_cast<std::uint64_t>(parameter->second);
    } else {
      result.value = text[0] == '-' ? static_cast<std::uint64_t>(std::stoll(text)) : std::stoull(text, nullptr, 0);
    }
    return result;
  }
};

}  // namespace flextile::test
