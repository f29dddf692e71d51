// What is seen of a compile from outside: the IR after every pass, kept on request, written to files, replaced by edited files.
//
//   <dump folder>/<kernel>-<variant>/00.traced.tile  01.canonicalise.tile  ...  kernel.ll  kernel.ptx  resources.txt
//
// The variant is a hash of the kernel's IR, the target and the options that change code, so that variants of one
// kernel never overwrite each other. A file of the same path under the replace folder takes the place of that pass's
// result for the one variant; <replace folder>/<kernel>.<pass>.tile does so for every variant of the kernel.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <flextile/backend/compile.hpp>

namespace flextile::backend {

class Stages {
 public:
  /// Folders that the options leave empty come from FLEXTILE_DUMP and FLEXTILE_REPLACE.
  Stages(const ir::Function& traced, const Target& target, const CompileOptions& options);

  /// Forgets what it has taken: the passes start anew.
  void restart() { stages_.clear(), count_ = 0; }
  /// Takes the IR after a pass: verifies, keeps, writes and replaces it. Throws InternalError that names the pass and the
  /// file with the IR where a pass broke it, CompileError where an edited file is wrong.
  ir::Function after(std::string_view pass, ir::Function function);
  /// An InternalError from inside a pass or the lowering, with the pass's name and where the IR before it was written.
  [[noreturn]] void fail(std::string_view pass, const ir::Function& before, std::string_view sentence) const;
  /// Writes `text` as a file of the kernel's folder, when dumping.
  void write(std::string_view file, const std::string& text) const;

  std::vector<Stage> take() { return static_cast<std::vector<Stage>&&>(stages_); }

 private:
  bool read_replacement(std::string_view pass, const std::string& file, ir::Function& function) const;

  const CompileOptions& options_;
  std::string kernel_;            // the kernel's name as part of a file's name
  std::string variant_;           // <kernel>-<hash>
  std::string dump_folder_;       // "" : no files
  std::string replace_folder_;
  std::vector<ir::Parameter> parameters_;
  std::vector<Stage> stages_;
  int count_ = 0;
};

}  // namespace flextile::backend
