// flextile: looks at compiled kernels and at devices, from the shell.
#include <cstdio>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>

#include "commands.hpp"
#include "options.hpp"

namespace {

struct Command {
  const char* name;
  int (*run)(const std::vector<std::string>&);
  std::string (*help)();
  const char* meaning;
};

const Command commands[] = {
    {"inspect", tool::inspect, tool::inspect_help, "compile a kernel of the library for any target and show what it becomes"},
    {"compile", tool::compile_file, tool::compile_help, "the same for a kernel in a file of tile IR, for example an edited dump"},
    {"tune", tool::tune, tool::tune_help, "time configurations of attention on a device, and keep the fastest for all programs"},
    {"devices", tool::devices, tool::devices_help, "the devices that are here, and why there is no GPU where there is none"},
};

std::string help() {
  std::string text = "flextile - tile programs and flexible attention\n\nusage: flextile COMMAND [OPTIONS]\n\n";
  for (const Command& command : commands) text += std::string("  ") + command.name + "   " + command.meaning + "\n";
  return text + R"(
examples
  flextile inspect flex_attention --mask causal --dim 128 --target sm_80 --emit ptx
  flextile inspect flex_attention --mask sliding_window:1024 --score softcap:20 --emit tile
  flextile inspect --help                          all options, and what can be shown
  flextile devices
  FLEXTILE_DUMP=out/ ./app                         writes all stages of every kernel that a program compiles

exit code: 0; 1 where compiling or a device failed; 2 where the command line is wrong
)";
}

int usage_error(const std::string& sentence) {
  std::fprintf(stderr, "flextile: %s\n", sentence.c_str());
  return 2;
}

int run(const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--help" || first == "-h" || first == "help" || first == "--version") {
    std::fputs(first == "--version" ? (flextile::compiler_version() + "\n").c_str() : help().c_str(), stdout);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    names.push_back(command.name);
    if (first != command.name) continue;
    const std::vector<std::string> arguments(words.begin() + 1, words.end());
    for (const std::string& argument : arguments)
      if (argument == "--help" || argument == "-h") return std::fputs(command.help().c_str(), stdout), 0;
    return command.run(arguments);
  }
  if (first.empty()) return usage_error("no command is given; it knows " + tool::join(names) + "; flextile --help says more");
  const std::string meant = tool::nearest(first, names);
  return usage_error("unknown command '" + first + "'; " + (meant.empty() ? "it knows " + tool::join(names) : "did you mean " + meant + "?"));
}

}  // namespace

int main(int count, char** values) {
  try {
    const int code = run({values + 1, values + count});
    if (std::fflush(stdout) == 0) return code;
    std::fputs("flextile: the output could not be written\n", stderr);
    return 1;
  } catch (const tool::UsageError& error) {
    return usage_error(error.sentence);
  } catch (const flextile::ArgumentError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const flextile::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
