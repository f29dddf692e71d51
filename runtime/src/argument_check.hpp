// Arguments against parameters: the check, the facts that hold, and the flat list that a kernel receives.
#pragma once
#include <string_view>
#include <vector>

#include <flextile/ir/function.hpp>
#include <flextile/runtime/argument.hpp>

namespace flextile::runtime {

/// Two bits a parameter, `aligned` then `unit_stride`, set where the fact holds. 64 parameters fit.
using AlignmentClass = unsigned __int128;
inline constexpr std::size_t most_parameters = 64;
inline constexpr std::size_t most_tensor_maps = 8;
inline constexpr std::size_t resident_values = 4;          // the grid's extents and the counter, where launched programs share programs out
inline constexpr std::size_t most_parameter_bytes = 4096;  // that a launch packs into one block; a kernel with more hands over pointers

/// A kernel's arguments as both back ends take them: values[i] is what pointers[i] points to.
/// A scalar or pointer is one value; a view of rank r is 1 + 2r: base pointer, r i32 sizes, r i64 strides. Behind them is room for
/// the grid's extents and a counter, where launched programs share them out, and for pointers to the kernel's tensor maps.
struct PackedArguments {
  static constexpr std::size_t most_values = most_parameters * (1 + 2 * ir::max_view_rank);
  std::size_t count = 0;
  AlignmentClass facts = 0;
  std::uint64_t values[most_values + resident_values];
  void* pointers[most_values + resident_values + most_tensor_maps];

  PackedArguments() {}
  PackedArguments(const PackedArguments&) = delete;
  PackedArguments& operator=(const PackedArguments&) = delete;
};

/// Throws ArgumentError that names the first argument that does not fit, what it is and what it must be.
void pack_arguments(std::string_view kernel, int device, const std::vector<ir::Parameter>& parameters, const Argument* arguments,
                    std::size_t count, PackedArguments& packed);

/// The facts that the parameters assume.
AlignmentClass required_facts(const std::vector<ir::Parameter>& parameters);
/// The parameters with the facts of `facts`.
std::vector<ir::Parameter> with_facts(std::vector<ir::Parameter> parameters, AlignmentClass facts);
/// Throws ArgumentError where `packed` lacks a fact that the kernel assumes.
void require_facts(std::string_view kernel, const std::vector<ir::Parameter>& parameters, AlignmentClass required, AlignmentClass facts,
                   const Argument* arguments);

}  // namespace flextile::runtime
