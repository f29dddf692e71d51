#include "report.hpp"

#include <cstdio>

namespace bench {

static std::string column(double value, const char* format) {
  char text[32] = "";
  if (value > 0) std::snprintf(text, sizeof text, format, value);
  return text;
}

void Report::add(const Row& row) {
  if (!titled_) std::printf("%-44s %10s %9s %9s %9s  %s\n", "name", "ms", "TFLOP/s", "GB/s", "% limit", "note");
  titled_ = true;
  const double rate = row.tflops > 0 ? row.tflops : row.gbps;
  const double share = row.limit > 0 ? 100 * rate / row.limit : 0;
  std::printf("%-44s %10s %9s %9s %9s  %s\n", row.name.c_str(), column(row.ms, "%.4f").c_str(), column(row.tflops, row.tflops < 10 ? "%.3f" : "%.1f").c_str(),
              column(row.gbps, "%.1f").c_str(), column(share, "%.1f").c_str(), row.note.c_str());
  std::fflush(stdout);
  rows_.push_back(row);
}

void Report::failed(const std::string& name, const std::string& reason) {
  std::printf("%-44s FAILED: %s\n", name.c_str(), reason.c_str());
  std::fflush(stdout);
  failures_.emplace_back(name, reason);
}

bool Report::any_failed() const {
  for (const auto& [name, reason] : failures_)
    if (name.find("/cublas") == std::string::npos) return true;
  return false;
}

static std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
    else out += ' ';
  }
  return out + "\"";
}

void Report::write_json(const std::string& path, const std::string& device) const {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw "cannot write '" + path + "'";
  std::fprintf(file, "{\"device\": %s, \"rows\": [", quoted(device).c_str());
  const char* comma = "\n";
  for (const Row& row : rows_) {
    std::fprintf(file, "%s{\"name\": %s, \"ms\": %.6g", comma, quoted(row.name).c_str(), row.ms);
    if (row.tflops > 0) std::fprintf(file, ", \"tflops\": %.5g", row.tflops);
    if (row.gbps > 0) std::fprintf(file, ", \"GBps\": %.5g", row.gbps);
    if (row.limit > 0) std::fprintf(file, ", \"share_of_limit\": %.4g", (row.tflops > 0 ? row.tflops : row.gbps) / row.limit);
    if (row.goal > 0) std::fprintf(file, ", \"goal\": %.4g", row.goal);
    if (!row.note.empty()) std::fprintf(file, ", \"note\": %s", quoted(row.note).c_str());
    std::fprintf(file, "}");
    comma = ",\n";
  }
  for (const auto& [name, reason] : failures_) {
    std::fprintf(file, "%s{\"name\": %s, \"failed\": %s}", comma, quoted(name).c_str(), quoted(reason).c_str());
    comma = ",\n";
  }
  std::fprintf(file, "\n]}\n");
  std::fclose(file);
}

}  // namespace bench
