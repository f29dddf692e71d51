// A compiled kernel as bytes, for the disk cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <flextile/backend/compile.hpp>

namespace flextile::runtime {

/// 64 bits of every byte; for keys and checksums, not against an adversary.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed);

/// Header with format, length and checksum, then the fields.
std::string write_kernel_file(const CompiledKernel& kernel);
/// False where the bytes are no such file: truncated, damaged or of another format.
bool read_kernel_file(std::string_view bytes, CompiledKernel& kernel);

}  // namespace flextile::runtime
