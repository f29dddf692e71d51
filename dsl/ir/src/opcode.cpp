#include <flextile/ir/opcode.hpp>

namespace flextile::ir {
namespace {

struct OpcodeInfo {
  std::string_view spelling;
  int operands;
  int results;
  std::uint8_t traits;
};

// "for_" is printed as "for".
constexpr std::string_view printed(std::string_view enumerator) {
  if (enumerator.back() == '_') enumerator.remove_suffix(1);
  return enumerator;
}

constexpr OpcodeInfo table[] = {
#define OPERATION(name, operands, results, traits) {printed(#name), operands, results, static_cast<std::uint8_t>(traits)},
#include <flextile/ir/operations.def>
#undef OPERATION
};

const OpcodeInfo& info(Opcode opcode) { return table[static_cast<int>(opcode)]; }

}  // namespace

std::string_view name(Opcode opcode) { return info(opcode).spelling; }
int operand_count(Opcode opcode) { return info(opcode).operands; }
int result_count(Opcode opcode) { return info(opcode).results; }
std::uint8_t traits(Opcode opcode) { return info(opcode).traits; }

bool parse_opcode(std::string_view text, Opcode& opcode) {
  for (int i = 0; i < opcode_count; ++i) {
    if (table[i].spelling == text) {
      opcode = static_cast<Opcode>(i);
      return true;
    }
  }
  return false;
}

}  // namespace flextile::ir
