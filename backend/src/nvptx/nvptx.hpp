// The GPU back end's entries: the passes that turn a tile program into a scheduled one, and the lowering to PTX.
#pragma once
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>

namespace flextile::backend {

/// The tiles in flight leave too little shared memory for the rest of the kernel: fewer stages may do.
class OutOfSharedMemory : public CompileError { using CompileError::CompileError; };

ir::Function tile_gathers(const ir::Function& function, const Target& target);
ir::Function select_matmul(const ir::Function& function, const Target& target);
ir::Function bulk_loads(const ir::Function& function, const Target& target);
ir::Function pipeline_loads(const ir::Function& function, const Target& target);
ir::Function select_wgmma(const ir::Function& function, const Target& target);
ir::Function choose_layouts(const ir::Function& function, const Target& target);
ir::Function overlap_products(const ir::Function& function, const Target& target);
ir::Function bulk_stores(const ir::Function& function, const Target& target);
ir::Function allocate_shared(const ir::Function& function, const Target& target);
ir::Function insert_barriers(const ir::Function& function, const Target& target);

struct NvptxCode {
  std::string llvm_ir;                   // after optimisation
  std::string ptx;
  int shared_memory = 0;                 // bytes per program
  int threads = 0;                       // per program
  std::vector<TensorMap> tensor_maps;
  bool resident = false;
  bool overlaps = false;
  std::vector<std::string> explanation;
};

NvptxCode lower_nvptx(const ir::Function& function, const Target& target, const CompileOptions& options);

}  // namespace flextile::backend
