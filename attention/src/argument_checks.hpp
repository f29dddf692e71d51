// Sentences about arguments: what an argument is and what it must be.
#pragma once
#include <cstdint>
#include <string>

#include <flextile/ir/tensor_handle.hpp>

namespace flextile::attention {

/// The most positions of a query or key: the indices of a tile that reaches past the end are i32 too.
inline constexpr std::int64_t longest = 0x7fffffff - 511;

/// "a bf16 tensor of 2x8x1024x64 on the host", "an f32 scalar on CUDA device 0"
std::string describe(const ir::TensorHandle& tensor);
/// "the host", "CUDA device 0"
std::string describe_device(std::int32_t device);

/// Throws ArgumentError "flextile: [caller] sentence".
[[noreturn]] void refuse(const std::string& caller, const std::string& sentence);

inline std::string text(std::int64_t number) { return std::to_string(number); }

}  // namespace flextile::attention
