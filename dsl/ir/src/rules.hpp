// The typing rules by family. Each returns "" or the sentence that says what is wrong; rules.cpp says which operation
// has which rule. Arity, and that every operand exists, is checked before.
#pragma once
#include <flextile/ir/function.hpp>
#include <string>

#include "text.hpp"

namespace flextile::ir {

/// One operation under test.
struct Rule {
  const Function& function;
  const Operation& operation;

  std::size_t operands() const { return operation.operands.size(); }
  std::size_t results() const { return operation.results.size(); }
  const Type& operand(std::size_t i) const { return function.type(operation.operands[i]); }
  const Type& result(std::size_t i = 0) const { return function.type(operation.results[i]); }
  std::int64_t integer(AttributeName attribute, std::int64_t fallback) const { return operation.attributes.integer(attribute, fallback); }
  std::string_view string(AttributeName attribute) const { return operation.attributes.string(attribute); }

  template <class... Parts>
  std::string broken(const Parts&... parts) const {
    return join("[", name(operation.opcode), "] ", parts...);
  }
};

enum class ElementClass { numbers, floats, integers, bits, all };
bool contains(ElementClass set, ElementType element);
/// What 8-bit floats are not for.
inline constexpr std::string_view float8_sentence = "f8e4m3 and f8e5m2 are for memory, casts and dot; cast it to f16 or f32 to compute";
/// "f32", "integers or i1", ... for sentences.
std::string_view describe(ElementClass set);

bool is_scalar_of(const Type& type, ElementType element);

// rules_elementwise.cpp
std::string constant_rule(const Rule& rule);
std::string arange_rule(const Rule& rule);
std::string program_rule(const Rule& rule);
std::string unary_rule(const Rule& rule, ElementClass allowed);
std::string cast_rule(const Rule& rule);
std::string bitcast_rule(const Rule& rule);
std::string binary_rule(const Rule& rule, ElementClass allowed);
std::string comparison_rule(const Rule& rule);
std::string fma_rule(const Rule& rule);
std::string unlikely_rule(const Rule& rule);
std::string select_rule(const Rule& rule);

// rules_shape.cpp
std::string broadcast_rule(const Rule& rule);
std::string expand_dims_rule(const Rule& rule);
std::string reshape_rule(const Rule& rule);
std::string transpose_rule(const Rule& rule);
std::string dot_rule(const Rule& rule);
std::string reduce_rule(const Rule& rule);

// rules_memory.cpp
/// Writing through the operand: a sentence where its parameter is read-only.
std::string wrong_write(const Rule& rule, std::size_t operand);
std::string offset_rule(const Rule& rule);
std::string load_rule(const Rule& rule);
std::string store_rule(const Rule& rule);
std::string view_load_rule(const Rule& rule);
std::string view_store_rule(const Rule& rule);
std::string gather_rule(const Rule& rule);
std::string view_query_rule(const Rule& rule);
std::string atomic_rule(const Rule& rule);
std::string atomic_cas_rule(const Rule& rule);

// rules_control.cpp
std::string for_rule(const Rule& rule);
std::string while_rule(const Rule& rule);
std::string if_rule(const Rule& rule);
std::string yield_rule(const Rule& rule);
std::string condition_rule(const Rule& rule);

// rules_shared.cpp
std::string convert_layout_rule(const Rule& rule);
std::string alloc_shared_rule(const Rule& rule);
std::string shared_load_rule(const Rule& rule);
std::string shared_store_rule(const Rule& rule);
std::string async_copy_rule(const Rule& rule);
std::string async_wait_rule(const Rule& rule);
std::string product_wait_rule(const Rule& rule);
std::string turn_rule(const Rule& rule);
std::string bulk_copy_rule(const Rule& rule);
std::string matrix_store_rule(const Rule& rule);
std::string bulk_store_rule(const Rule& rule);
std::string bulk_wait_rule(const Rule& rule);
std::string ring_start_rule(const Rule& rule);
std::string ring_wait_rule(const Rule& rule);
std::string ring_release_rule(const Rule& rule);
std::string scalar_ring_rule(const Rule& rule);
std::string worker_rule(const Rule& rule);
std::string roles_rule(const Rule& rule);

/// "" or what is wrong with a type by itself: extents of 1 and more, at most max_tile_elements.
std::string type_violation(const Type& type);
/// "" or what is wrong with a layout for a tile of this type: 32 lanes, as many warps as there are, every element held.
std::string layout_violation(const Layout& layout, const Type& type, int num_warps);
/// The values that a block's terminator passes on, or null while the block has none.
const Operation* terminator_of(const Function& function, BlockId block);

}  // namespace flextile::ir
