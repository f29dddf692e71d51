// compile(function, target) → CompiledKernel: the compiler's one entry. The passes are listed in src/pipeline.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <flextile/backend/target.hpp>
#include <flextile/ir/function.hpp>

namespace flextile {

struct CompileOptions {
  bool line_info = true;            // .loc lines in PTX, debug info in host code
  bool bounds_checked = false;      // host: a load or store outside its tensor throws, naming tensor, index and line
  bool keep_stages = false;         // CompiledKernel::stages holds the IR after every pass
  bool binary = true;               // nvptx: assemble to a cubin when nvJitLink is found; host: make the object
  std::string note{};              // the first line of explain(): what the caller chose; does not change the code
  std::string dump_folder{};        // also write every stage to files there (FLEXTILE_DUMP)
  std::string replace_folder{};      // read <kernel>.<pass>.tile from there instead of a pass's result (FLEXTILE_REPLACE)
};

/// What the target's assembler says about a kernel. -1: unknown (not assembled).
struct Resources {
  int registers = -1;               // per thread
  int spill_stores = -1;            // bytes
  int spill_loads = -1;
  int shared_memory = 0;            // bytes per program
  int threads = 0;                  // per program
  int stack = -1;                   // bytes per thread
  std::string log;                  // the assembler's own text
};
std::string to_string(const Resources& resources);

/// Why a kernel with these resources cannot be as fast as its code: "spills 64 bytes a thread", "C7512: wgmma.mma_async instructions
/// are serialized due to ...", one entry per fault; empty where none is known. Stack that no count of spills explains counts as
/// spilled: kernels have no other use for it. Tuners pass over such a kernel.
std::vector<std::string> performance_faults(const Resources& resources);

/// The IR after one pass.
struct Stage {
  std::string pass;
  std::string text;
};

/// What the copy engine needs to fetch or store boxes of a tensor: the launch makes it from a view argument and passes it by value (128
/// bytes, aligned to 64) behind all other parameters, in this order.
struct TensorMap {
  std::uint32_t parameter = 0;        // which one: a view that is aligned and has unit stride
  std::vector<std::int32_t> box;      // extents of a box, one per axis of the view, each at most 256
  std::int32_t swizzle = 128;         // of the box in shared memory: bytes; the box's rows are as long
  bool writes = false;                // boxes are stored, not fetched
  bool tf32 = false;                  // the copy engine rounds f32 elements to tf32: 10 bits of mantissa, to nearest even
  bool operator==(const TensorMap&) const = default;
};

/// A compiled kernel: texts, machine code and what a launch needs to know. A value; nothing is loaded yet.
class CompiledKernel {
 public:
  std::string kernel_name;
  Target target;
  std::vector<ir::Parameter> parameters;
  std::string tile_ir_text;
  std::string llvm_ir_text;
  std::string ptx_text;                 // nvptx
  std::string binary;                   // cubin, or a host object file; "" if not assembled
  Resources resource_usage;
  std::vector<TensorMap> tensor_maps;
  bool resident = false;                // as many programs are launched as the device holds, and share out those of the grid; the grid's
                                        // three extents (i32) and a pointer to a counter that is 0 (u32) follow the parameters, in front
                                        // of the tensor maps
  bool overlaps = false;                // may be launched while the launch before it on the stream still runs: waits before it touches memory
  std::vector<std::string> explanation; // which schedule was chosen, why not the next better one, what the kernel is up against
  std::vector<Stage> stages;

  const std::string& tile_ir() const { return tile_ir_text; }
  const std::string& llvm_ir() const { return llvm_ir_text; }
  const std::string& ptx() const { return ptx_text; }
  std::string resources() const { return to_string(resource_usage); }
  /// The explanation, and on a GPU a line of resources: those of the loaded function where it comes from LoadedKernel::compiled().
  std::string explain() const;
};

/// Throws CompileError for what the user can mend, InternalError for our faults. Thread-safe.
CompiledKernel compile(const ir::Function& function, const Target& target, const CompileOptions& options = {});

/// Versions of LLVM, the linker and this library, for cache keys.
std::string compiler_version();

}  // namespace flextile
