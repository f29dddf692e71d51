// Turns a *.golden.cpp file into a program that prints one stage of one kernel. The file defines golden(), the kernel as
// an ir::Function, and holds RUN lines with the program's options and FileCheck lines:
//
//   // RUN: --emit=tile --check-prefix=TILE
//   // RUN: --target=sm_80 --emit=tile_after:choose_layouts --check-prefix=LAYOUT
//   #include "support/golden_main.hpp"
//   flextile::ir::Function golden() { return kernel("copy", [](...) { ... }).trace(); }
//   // TILE-LABEL: func @copy
//
// --emit: tile (as traced), tile_after:<pass>, llvm, ptx, resources, explain, or error: the sentence of the Error that
// tracing or compiling throws. --target: host (the default), sm_80, sm_90a, ...
#pragma once
#include <cstdio>
#include <string>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>
#include <flextile/ir/function.hpp>

flextile::ir::Function golden();

namespace flextile::golden_test {

inline std::string emit(const std::string& stage, const Target& target) {
  const ir::Function function = ::golden();
  if (stage == "tile") return print(function);
  const CompiledKernel compiled = compile(function, target, {.keep_stages = true, .binary = stage == "resources"});
  if (stage == "llvm") return compiled.llvm_ir();
  if (stage == "ptx") return compiled.ptx();
  if (stage == "resources") return compiled.resources();
  if (stage == "explain") return compiled.explain();
  if (stage.starts_with("tile_after:")) {
    std::string passes;
    for (const Stage& done : compiled.stages) {
      if (done.pass == stage.substr(11)) return done.text;
      passes += " " + done.pass;
    }
    throw ArgumentError("--emit=" + stage + ": no such pass; the passes that ran are:" + passes);
  }
  throw ArgumentError("--emit=" + stage + " is not known: tile, tile_after:<pass>, llvm, ptx, resources, explain or error");
}

}  // namespace flextile::golden_test

int main(int count, char** values) {
  std::string stage = "tile", target = "host";
  for (int i = 1; i < count; ++i) {
    const std::string option = values[i];
    if (option.starts_with("--emit=")) stage = option.substr(7);
    else if (option.starts_with("--target=")) target = option.substr(9);
    else return std::fprintf(stderr, "unknown option %s\n", values[i]), 2;
  }
  try {
    std::fputs(flextile::golden_test::emit(stage == "error" ? "llvm" : stage, flextile::Target::parse(target)).c_str(), stdout);
  } catch (const flextile::Error& error) {
    std::fprintf(stage == "error" ? stdout : stderr, "%s\n", error.what());
    return stage == "error" ? 0 : 1;
  }
  if (stage == "error") std::fprintf(stderr, "an Error was expected, but the kernel compiles\n");
  return stage == "error" ? 1 : 0;
}
