#include "passes/limit_tiles.hpp"

#include <algorithm>

#include <flextile/ir/error.hpp>

namespace flextile::backend {
namespace {

using ir::Opcode;

constexpr std::int64_t registers_of_a_thread = 255;
/// Tiles above a thread's registers spill and are slow; above this they also take minutes to compile and gigabytes of memory.
constexpr std::int64_t most_registers = 512;

/// 32-bit registers per thread that a tile takes when the threads share it evenly.
std::int64_t registers_per_thread(const ir::Type& type, std::int64_t threads) {
  const std::int64_t bytes = type.is_pointer() ? 8 : std::max(byte_size(type.element), 2);
  return (type.elements() * bytes / 4 + threads - 1) / threads;
}

/// Constants and shape operations hold no register of their own.
bool holds_registers(Opcode opcode) {
  return opcode != Opcode::constant && opcode != Opcode::broadcast && opcode != Opcode::expand_dims && opcode != Opcode::reshape &&
         opcode != Opcode::transpose;
}

/// What a multiprocessor holds at a time.
struct Room {
  int warps, programs;
};
Room room_of(const Target& target) {
  if (target.sm == 86 || target.sm == 87) return {48, 16};
  if (target.sm == 89 || target.sm >= 120) return {48, 24};
  return {64, 32};
}

}  // namespace

ir::Function limit_tiles(const ir::Function& function, const Target& target) {
  const Room room = room_of(target);
  if (function.occupancy > 1 && (function.occupancy * function.num_warps > room.warps || function.occupancy > room.programs)) {
    throw CompileError("flextile: compile error in kernel \"" + function.name + "\"\n  [kernel] occupancy is " + std::to_string(function.occupancy) + " with " +
                       std::to_string(function.num_warps) + " warps: a multiprocessor of " + target.name() + " holds at most " + std::to_string(room.warps) + " warps and " +
                       std::to_string(room.programs) + " programs");
  }
  const std::int64_t threads = std::int64_t{32} * function.num_warps;
  for (std::uint32_t block = 0; block < function.block_count(); ++block) {
    for (const ir::OperationId id : function.block(ir::BlockId{block}).operations) {
      const ir::Operation& operation = function.operation(id);
      for (const ir::Value result : operation.results) {
        const ir::Type& type = function.type(result);
        if (!type.has_shape() || !holds_registers(operation.opcode) || registers_per_thread(type, threads) <= most_registers) continue;
        std::string place = "flextile: compile error in kernel \"" + function.name + "\"";
        if (operation.location.line != 0 && operation.location.file < function.files.size()) {
          place += ", " + function.files[operation.location.file] + ":" + std::to_string(operation.location.line);
        }
        throw CompileError(place + "\n  [" + std::string(ir::name(operation.opcode)) + "] " + to_string(type) + " takes " +
                           std::to_string(registers_per_thread(type, threads)) + " registers of each of the program's " + std::to_string(threads) +
                           " threads, which have " + std::to_string(registers_of_a_thread) + ": take a smaller tile, or more warps than " +
                           std::to_string(function.num_warps));
      }
    }
  }
  return function;
}

}  // namespace flextile::backend
