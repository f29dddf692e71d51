// What `flextile inspect` and `flextile compile` print of a compiled kernel.
#pragma once
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>

#include "options.hpp"

namespace tool {

/// --target and --emit, which both commands have.
std::vector<Option> emit_options();
/// The target that --target names; "best" and "" are the host.
flextile::Target target_of(const Options& options);
/// True where --emit shows passes, so that stages must be kept.
bool wants_stages(const Options& options);
/// True where --emit shows what the assembler says, so that it must run.
bool wants_binary(const Options& options);
/// The text that --emit asks for. Throws UsageError that lists what there is.
std::string emitted(const flextile::CompiledKernel& kernel, const Options& options);

}  // namespace tool
