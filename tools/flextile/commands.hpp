// The commands of the program `flextile`. Each takes what follows its name and returns the exit code.
#pragma once
#include <string>
#include <vector>

namespace tool {

int inspect(const std::vector<std::string>& arguments);
int compile_file(const std::vector<std::string>& arguments);
int tune(const std::vector<std::string>& arguments);
int devices(const std::vector<std::string>& arguments);

/// What `flextile <command> --help` prints.
std::string inspect_help();
std::string compile_help();
std::string tune_help();
std::string devices_help();

}  // namespace tool
