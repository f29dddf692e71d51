// The folder of compiled kernels and results of tuning. Every failure of the file system only costs the file; what throws is a variable of the
// environment with a value that it may not have (ArgumentError).
#pragma once
#include <string>

#include <flextile/backend/compile.hpp>

namespace flextile::runtime {

enum class DiskAnswer { absent, damaged, found };

/// Reads <folder>/<key>.kernel.
DiskAnswer read_cached(const std::string& key, CompiledKernel& kernel);
/// Writes a temporary file beside it and renames it, so that other processes see all of it or nothing. Then removes what was
/// used longest ago where the folder holds more than FLEXTILE_CACHE_LIMIT.
void write_cached(const std::string& key, const CompiledKernel& kernel);

/// Reads <folder>/<key>.tuning; false where there is none.
bool read_kept_tuning(const std::string& key, std::string& text);
/// As write_cached.
void write_kept_tuning(const std::string& key, const std::string& text);

/// A line on stderr where FLEXTILE_VERBOSE=1.
void note_about_cache(const std::string& sentence);

}  // namespace flextile::runtime
