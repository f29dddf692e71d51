// Files that several processes read and replace at once.
#pragma once
#include <string>
#include <string_view>

namespace flextile::runtime {

/// All bytes of a regular file; false where there is none that can be read.
bool read_file(const std::string& path, std::string& bytes);

/// Writes folder/name by way of a temporary file, so that other processes see all of it or nothing. Makes the folder. False where
/// the file system refuses; nothing is left then.
bool replace_file(const std::string& folder, const std::string& name, std::string_view bytes);

/// Sets the file's time to now; where that is not allowed, it counts as older than it is.
void mark_used(const std::string& path);

}  // namespace flextile::runtime
