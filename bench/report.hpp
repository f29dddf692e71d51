// The table that flextile-bench prints, and its JSON file.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Row {
  std::string name;               // as in bench/anchors
  double ms = 0;                  // median
  double tflops = 0;              // 0: not counted
  double gbps = 0;                // read and written; 0: not counted
  double limit = 0;               // what `tflops` (or `gbps`) could be at most, measured in this run; 0: not known
  double goal = 0;                // share of the limit, or milliseconds, that the project aims at; 0: none
  std::string note{};
};

class Report {
 public:
  explicit Report(std::string filter) : filter_(std::move(filter)) {}

  /// True where the row is asked for: its name holds the filter's text.
  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  /// Prints the row at once.
  void add(const Row& row);
  /// A row that could not be measured, and why.
  void failed(const std::string& name, const std::string& reason);
  /// Throws std::string where the file cannot be written.
  void write_json(const std::string& path, const std::string& device) const;
  const std::vector<Row>& rows() const { return rows_; }
  /// A row that should have been measured was not. A missing cuBLAS is no failure of ours.
  bool any_failed() const;

 private:
  std::string filter_;
  bool titled_ = false;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> failures_;
};

}  // namespace bench
