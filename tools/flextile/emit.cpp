#include "emit.hpp"

namespace tool {

using flextile::CompiledKernel;

static const std::vector<std::string> kinds = {"tile", "llvm", "ptx", "resources", "explain", "passes", "tile_after:PASS"};

std::vector<Option> emit_options() {
  return {
      {"--target", "TARGET", "sm_80", "host, sm_80, sm_90a, ...; no device is needed"},
      {"--emit", "WHAT", "tile", "tile, llvm, ptx, resources, explain, passes (their names) or tile_after:PASS"},
  };
}

flextile::Target target_of(const Options& options) { return flextile::Target::parse(options.text("--target")); }

bool wants_stages(const Options& options) {
  const std::string& what = options.text("--emit");
  return what == "passes" || what.starts_with("tile_after:");
}

bool wants_binary(const Options& options) { return options.text("--emit") == "resources" || options.text("--emit") == "explain"; }

std::string emitted(const CompiledKernel& kernel, const Options& options) {
  const std::string& what = options.text("--emit");
  if (what.starts_with("tile_after:")) {
    const std::string pass = what.substr(11);
    std::vector<std::string> names;
    for (const flextile::Stage& stage : kernel.stages) {
      if (stage.pass == pass) return stage.text;
      names.push_back(stage.pass);
    }
    const std::string meant = nearest(pass, names);
    throw UsageError{"--emit is '" + what + "', but no pass of that name ran; " +
                     (meant.empty() ? "these did: " + join(names) : "did you mean tile_after:" + meant + "?")};
  }
  options.choice("--emit", kinds);
  if (what == "tile") return kernel.tile_ir();
  if (what == "llvm") return kernel.llvm_ir();
  if (what == "resources") return kernel.resources();
  if (what == "explain") return kernel.explain();
  if (what == "ptx") {
    if (!kernel.target.is_gpu()) throw UsageError{"--emit is 'ptx', but the target is host; name a GPU: --target sm_80"};
    return kernel.ptx();
  }
  std::string names;
  for (const flextile::Stage& stage : kernel.stages) names += stage.pass + "\n";
  return names;
}

}  // namespace tool
