// Tensor maps: what the copy engine (TMA) knows of a view. The launch makes them; they are the kernel's last parameters.
#pragma once
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>

#include "nvptx/lowering.hpp"

namespace flextile::backend {

/// That a launch has room for (runtime/src/argument_check.hpp).
inline constexpr std::size_t most_tensor_maps = 8;
/// Of a view that the copy engine knows.
inline constexpr int most_tensor_map_axes = 5;

/// What the launch must hand over for the bulk copies and bulk stores of the function, in the order of the parameters.
std::vector<TensorMap> tensor_maps(const ir::Function& function);
/// The parameter that holds the map of a bulk_copy or bulk_store.
llvm::Value* tensor_map(Lowering& l, const ir::Operation& operation);
/// At the start of the program: they are far away until they are first used.
void prefetch_tensor_maps(Lowering& l);
/// Where in the view a box of the stage begins, innermost axis first: "$3, $4", whose values come to `arguments`. `rows` (null: 0) are those
/// of the stage in front of the box.
std::string box_corner(Lowering& l, const ir::Operation& operation, int box, llvm::Value* rows, Registers& arguments, std::string& constraints);

}  // namespace flextile::backend
