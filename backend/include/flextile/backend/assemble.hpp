// PTX → cubin through nvJitLink, when its library is on the machine; and what the assembler's log says.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <flextile/backend/compile.hpp>

namespace flextile {

struct AssembledKernel {
  std::string cubin;        // "" when no linker was found or it refused: the driver assembles the PTX when it loads it
  std::string log;          // the linker's words: resources, warnings, errors
};

/// Looks for the library once: the path in FLEXTILE_NVJITLINK, the loader's own search, then CUDA's usual folders.
/// Throws InternalError when the linker says that the PTX is wrong.
AssembledKernel assemble(std::string_view kernel_name, const std::string& ptx, const Target& target, bool line_info);

/// Reads registers, spills and stack of `kernel_name` out of an assembler's log (nvJitLink's, ptxas's or the driver's)
/// into `resources`, and keeps the log. What the log does not say stays as it is.
void read_assembler_log(std::string_view log, std::string_view kernel_name, Resources& resources);

/// What a fast kernel must not have, one sentence each: spilled registers, serialised wgmma and other C75xx warnings. More than
/// performance_faults: also warnings that cost little.
std::vector<std::string> assembler_complaints(const Resources& resources);

/// "13.0 (/usr/local/cuda/lib64/libnvJitLink.so.13)", or "none" and where it was looked for.
std::string linker_version();

}  // namespace flextile
