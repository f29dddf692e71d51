// A compiled kernel as bytes, for the disk cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <flextile/backend/compile.hpp>

namespace flextile::runtime {

/// 64 bits of every byte; for keys and checksums, not against an adversary.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed);

/// Header with format, length and a checksum of key and fields, then the fields.
std::string write_kernel_file(const CompiledKernel& kernel, std::string_view key);
/// False where the bytes are no such file: truncated, damaged, of another format or kept under another key.
bool read_kernel_file(std::string_view bytes, std::string_view key, CompiledKernel& kernel);

}  // namespace flextile::runtime
