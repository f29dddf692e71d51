// The host back end's entry: tile IR → object code for this machine's CPU.
#pragma once
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>

namespace flextile::backend {

struct HostCode {
  std::string llvm_ir;                   // after optimisation
  std::string object;                    // relocatable object file; "" when CompileOptions::binary is false
  std::vector<std::string> explanation;
};

HostCode lower_host(const ir::Function& function, const Target& target, const CompileOptions& options);

}  // namespace flextile::backend
