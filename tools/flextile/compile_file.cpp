#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <flextile/ir/function.hpp>

#include "commands.hpp"
#include "emit.hpp"

namespace tool {

std::string compile_help() {
  return R"(usage: flextile compile FILE.tile [OPTIONS]

Reads a kernel as tile IR text, as --emit tile and FLEXTILE_DUMP print it, compiles it and shows a stage. `-` reads standard input.

options
)" + option_table(emit_options()) +
         R"(
examples
  flextile inspect flex_attention --mask causal --emit tile > kernel.tile      then edit kernel.tile, and
  flextile compile kernel.tile --target sm_80 --emit ptx
)";
}

int compile_file(const std::vector<std::string>& arguments) {
  const Options options("compile", emit_options(), arguments);
  if (options.positional().size() != 1)
    throw UsageError{"compile takes one file of tile IR, but got " + std::to_string(options.positional().size()) + "; flextile compile --help says more"};
  const std::string& path = options.positional()[0];
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  std::error_code unknown;
  if (!file || std::filesystem::is_directory(path, unknown)) throw UsageError{"compile: cannot read '" + path + "'"};
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const flextile::CompiledKernel kernel =
      flextile::compile(flextile::ir::parse(text), target_of(options), {.keep_stages = wants_stages(options), .binary = wants_binary(options)});
  const std::string shown = emitted(kernel, options);
  std::printf("%s%s", shown.c_str(), shown.ends_with("\n") ? "" : "\n");
  return 0;
}

}  // namespace tool
