#include "stages.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <flextile/ir/environment.hpp>

namespace flextile::backend {
namespace {

namespace fs = std::filesystem;

/// A folder and where its name comes from, for sentences: an option, or else a variable of the environment.
struct NamedFolder {
  std::string path, source;
};
NamedFolder folder_or_environment(const std::string& folder, const char* option, const char* variable) {
  if (folder.empty()) return {ir::environment(variable), variable};
  return {folder, option};
}

/// Any name as part of a file's name: other characters become '_', and long names are cut.
std::string file_name(std::string_view name) {
  std::string safe;
  for (const char c : name.substr(0, 80)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    safe += plain ? c : '_';
  }
  return safe.empty() ? "kernel" : safe;
}

/// FNV-1a, 64 bits, as 16 hexadecimal digits.
std::string hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const unsigned char c : text) value = (value ^ c) * 0x100000001b3u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

void write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    throw ArgumentError("flextile: [dump] cannot make the folder " + path.parent_path().string() + ": " + error.message());
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw ArgumentError("flextile: [dump] cannot write " + path.string() + " (" + std::to_string(text.size()) + " bytes)");
}

bool read_file(const fs::path& path, std::string& text) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  if (!file) throw ArgumentError("flextile: [replace] cannot read " + path.string());
  text = contents.str();
  return true;
}

/// An error's message without its own "flextile: internal error" opening, so that openings do not pile up.
std::string_view without_opening(std::string_view sentence) {
  for (std::string_view opening : {"flextile: internal error: ", "flextile: internal error "}) {
    if (sentence.starts_with(opening)) return sentence.substr(opening.size());
  }
  return sentence;
}

}  // namespace

Stages::Stages(const ir::Function& traced, const Target& target, const CompileOptions& options)
    : options_(options),
      kernel_(file_name(traced.name)),
      parameters_(traced.parameters) {
  const NamedFolder dump = folder_or_environment(options.dump_folder, "dump_folder", "FLEXTILE_DUMP");
  const NamedFolder replace = folder_or_environment(options.replace_folder, "replace_folder", "FLEXTILE_REPLACE");
  dump_folder_ = dump.path, replace_folder_ = replace.path;
  if (dump_folder_.empty() && replace_folder_.empty()) return;
  std::error_code error;
  if (!dump_folder_.empty() && (fs::create_directories(dump_folder_, error), error || !fs::is_directory(dump_folder_, error))) {
    throw ArgumentError("flextile: [dump] " + dump.source + " is \"" + dump.path + "\" and must be a folder that can be made and written" +
                        (error ? ": " + error.message() : ""));
  }
  if (!replace_folder_.empty() && !fs::is_directory(replace_folder_, error)) {
    throw ArgumentError("flextile: [replace] " + replace.source + " is \"" + replace.path +
                        "\" and must be a folder of edited stages, laid out as FLEXTILE_DUMP writes them");
  }
  const std::string flags = std::string(options.line_info ? "l" : "-") + (options.bounds_checked ? "b" : "-");
  variant_ = kernel_ + "-" + hash(ir::print(traced) + target.name() + flags);
}

ir::Function Stages::after(std::string_view pass, ir::Function function) {
  try {
    ir::verify(function, "after pass " + std::string(pass));
  } catch (const InternalError& error) {
    fail(pass, function, error.what());
  }
  char number[16];
  std::snprintf(number, sizeof number, "%02d.", count_++);
  const std::string file = number + std::string(pass) + ".tile";
  if (!replace_folder_.empty()) read_replacement(pass, file, function);
  if (options_.keep_stages) stages_.push_back({std::string(pass), ir::print(function)});
  if (!dump_folder_.empty()) write(file, options_.keep_stages ? stages_.back().text : ir::print(function));
  return function;
}

bool Stages::read_replacement(std::string_view pass, const std::string& file, ir::Function& function) const {
  const fs::path folder(replace_folder_);
  fs::path path = folder / variant_ / file;
  std::string text;
  if (!read_file(path, text)) {
    path = folder / (kernel_ + "." + std::string(pass) + ".tile");
    if (!read_file(path, text)) return false;
  }
  try {
    function = ir::parse(text);
    ir::verify(function, path.string());
  } catch (const Error& error) {
    throw CompileError("flextile: [replace] " + path.string() + " cannot replace the result of pass " + std::string(pass) + ": " + error.what());
  }
  if (function.parameters != parameters_) {
    throw CompileError("flextile: [replace] " + path.string() + " changes the parameters of the kernel; they must stay as they were traced");
  }
  return true;
}

void Stages::fail(std::string_view pass, const ir::Function& before, std::string_view sentence) const {
  std::string where;
  try {
    const fs::path folder = dump_folder_.empty() ? fs::temp_directory_path() / "flextile" : fs::path(dump_folder_);
    const std::string text = ir::print(before);
    const fs::path path = folder / (kernel_ + "-" + hash(text) + "." + file_name(pass) + ".broken.tile");
    write_file(path, text);
    where = "IR written to " + path.string();
  } catch (const std::exception& error) {
    where = std::string("the IR could not be written: ") + error.what();
  }
  std::string message = "flextile: internal error ";
  const std::string_view rest = without_opening(sentence);
  if (!rest.starts_with("after ")) message += "in pass " + std::string(pass) + ": ";
  throw InternalError(message + std::string(rest) + "   (" + where + ")");
}

void Stages::write(std::string_view file, const std::string& text) const {
  if (!dump_folder_.empty()) write_file(fs::path(dump_folder_) / variant_ / file, text);
}

}  // namespace flextile::backend
