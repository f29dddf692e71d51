#include "tuning_file.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/environment.hpp>
#include <flextile/runtime/launch.hpp>

#include "disk_cache.hpp"
#include "kernel_file.hpp"

namespace flextile {
namespace runtime {
namespace {

std::string digits(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

/// One line: line breaks and backslashes are escaped.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : std::string(1, c);
  return line;
}

std::string as_it_was(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) text += line[i];
    else ++i, text += line[i] == 'n' ? '\n' : line[i] == 'r' ? '\r' : line[i];
  }
  return text;
}

std::string device_line(const Device& device) {
  const DeviceProperties& properties = device.properties();
  return one_line(properties.name) + ", " + device.target().name() + ", " +
         (device.is_host() ? std::to_string(host_threads()) + " threads" : std::to_string(properties.multiprocessors) + " multiprocessors");
}

std::string candidate_text(const Candidate& candidate) {
  return one_line(candidate.identity.empty() ? "-" : candidate.identity) + " " + one_line(candidate.name);
}

/// The lines that say for whom the times are.
std::string heading(const Device& device, std::string_view problem) {
  return "flextile tuning 1\ndevice " + device_line(device) + "\ndriver " + std::to_string(device.properties().driver_version) + "\nlibrary " +
         one_line(compiler_version()) + "\nproblem " + one_line(problem) + "\n";
}

std::string key_of(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem) {
  std::string text = device_line(device) + "\n" + one_line(problem) + "\n";
  for (const Candidate& candidate : candidates) text += candidate_text(candidate) + "\n";
  return digits(hash_bytes(text, 3)) + digits(hash_bytes(text, 4));
}

std::string checksum_line(std::string_view text) { return "checksum " + digits(hash_bytes(text, 5)) + "\n"; }

/// Takes `start` off the front; false where it is not there.
bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool take_number(std::string_view& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// One candidate's line, without its end.
bool read_line(std::string_view line, const Candidate& candidate, CandidateTime& time) {
  if (!take(line, "> ") && !take(line, "- ")) return false;
  time = {candidate.name, -1, ""};
  if (!take(line, "failed ") && !(take_number(line, time.milliseconds) && take(line, " ms "))) return false;
  if (!take(line, candidate_text(candidate))) return false;
  if (take(line, ": ")) time.failure = as_it_was(line), line = "";
  return line.empty() && (!time.failed() || !time.failure.empty());
}

bool read_text(std::string_view text, const std::vector<Candidate>& candidates, const std::string& expected_heading, std::vector<CandidateTime>& times) {
  const std::size_t last = text.rfind("checksum ");
  if (last == std::string_view::npos || text.substr(last) != checksum_line(text.substr(0, last))) return false;
  text = text.substr(0, last);
  if (!take(text, expected_heading)) return false;
  bool ran = false;
  for (const Candidate& candidate : candidates) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || !read_line(text.substr(0, end), candidate, times.emplace_back())) return false;
    ran = ran || !times.back().failed();
    text.remove_prefix(end + 1);
  }
  return ran && text.empty();
}

}  // namespace

std::vector<CandidateTime> read_tuning(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem) {
  if (ir::environment_switch("FLEXTILE_RETUNE", false, "results that are kept on disk are taken", "candidates are timed again")) return {};
  const std::string key = key_of(candidates, device, problem);
  std::string text;
  if (!read_kept_tuning(key, text)) return {};
  std::vector<CandidateTime> times;
  if (read_text(text, candidates, heading(device, problem), times)) return times;
  note_about_cache(key + ".tuning is damaged, or of another version of the library or the driver; its candidates are timed again");
  return {};
}

void write_tuning(const std::vector<Candidate>& candidates, const Device& device, std::string_view problem, const std::vector<CandidateTime>& times,
                  std::size_t best) {
  std::string text = heading(device, problem);
  for (std::size_t i = 0; i < times.size(); ++i) {
    char number[40];   // as it is read: with a point in every locale
    const auto end = std::to_chars(number, number + sizeof number, times[i].milliseconds, std::chars_format::fixed, 6).ptr;
    text += (i == best ? "> " : "- ") + (times[i].failed() ? "failed " : std::string(number, end) + " ms ") + candidate_text(candidates[i]);
    text += (times[i].failure.empty() ? "" : ": " + one_line(times[i].failure)) + "\n";
  }
  write_kept_tuning(key_of(candidates, device, problem), text + checksum_line(text));
}

}  // namespace runtime

std::string identity_of(const KernelReference& kernel) {
  std::string text;
  try {
    text = ir::print(kernel.trace(kernel.object, *kernel.signature));
  } catch (const CompileError& error) {
    text = error.what();
  }
  const CompileOptions options = kernel.options ? *kernel.options : CompileOptions{};
  text += "\nline_info " + std::to_string(options.line_info) + " bounds_checked " + std::to_string(options.bounds_checked);
  return runtime::digits(runtime::hash_bytes(text, 6));
}

}  // namespace flextile
