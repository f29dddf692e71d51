// Tiles of i1 as bits of words. A thread has some 64 scores of a tile and 7 predicates: what a mask shows of them is kept in a word for
// each of its rows, which can be computed before the scores are there, and a select tests a bit.
#pragma once
#include <vector>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// Where a register of the tile has its bit.
struct BitPlace {
  int word = 0;
  int bit = 0;
};

/// By register: a word for up to 32 neighbouring columns of each of a thread's rows, in ascending order. Empty for what is not kept in
/// bits: other than tiles of two axes, and few registers.
std::vector<BitPlace> bit_places(Lowering& l, ir::Value value);

/// Comparisons of numbers that count up along the columns with others that do not, whose words are a shift each; and, or, not and xor
/// of tiles with bits. False where this is none, or no tile with bits.
bool lower_to_bits(Lowering& l, const ir::Operation& operation);

/// Puts the predicates that `operation` has computed into words, where it is to keep bits ({bits}).
void keep_bits(Lowering& l, const ir::Operation& operation);

/// The words of a broadcast's operand are those of each row.
void broadcast_bits(Lowering& l, const ir::Operation& operation, const std::vector<int>& sources);

/// Or all ones, or zeros, where a scalar is broadcast.
void fill_bits(Lowering& l, const ir::Operation& operation);

/// Predicates of a tile's registers, from its words where it has some.
Registers predicates(Lowering& l, ir::Value value);

}  // namespace flextile::backend
