// Opcodes and their traits, from the one table in operations.def.
#pragma once
#include <cstdint>
#include <string_view>

namespace flextile::ir {

enum class Opcode : std::uint8_t {
#define OPERATION(name, operands, results, traits) name,
#include <flextile/ir/operations.def>
#undef OPERATION
};

inline constexpr int opcode_count = 0
#define OPERATION(name, operands, results, traits) +1
#include <flextile/ir/operations.def>
#undef OPERATION
    ;

enum Traits : std::uint8_t {
  pure = 1,
  elementwise = 2,
  reads = 4,
  writes = 8,
  regions = 16,
  terminator = 32,
  sync = 64,
};

/// As printed: "add"; names that C++ reserves lose their underscore: for_ prints as "for".
std::string_view name(Opcode opcode);
/// Number of operands, or -1 for any.
int operand_count(Opcode opcode);
/// Number of results, or -1 for any.
int result_count(Opcode opcode);
/// Or-ed Traits.
std::uint8_t traits(Opcode opcode);
inline bool has(Opcode opcode, Traits trait) { return (traits(opcode) & trait) != 0; }
/// The opcode that prints as `text`; false if there is none.
bool parse_opcode(std::string_view text, Opcode& opcode);

constexpr bool is_comparison(Opcode opcode) { return opcode >= Opcode::eq && opcode <= Opcode::ge; }

}  // namespace flextile::ir
