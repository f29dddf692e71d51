// A host kernel loaded into this process, ready to be called.
#pragma once
#include <cstdint>

#include <flextile/backend/compile.hpp>

namespace flextile {

/// Where one program of a host kernel runs.
struct HostProgram {
  std::int32_t id[3];
  std::int32_t count[3];
};

/// Runs one program. `arguments[i]` points to the i-th flattened argument (see parameter_abi in docs/architecture.md):
/// a scalar or pointer is one; a view of rank r is 1 + r + r: base pointer, i32 sizes, i64 strides.
using HostEntry = void (*)(void* const* arguments, const HostProgram* program);

/// Owns the code of one kernel. Movable.
class HostModule {
 public:
  /// Links the object in `kernel.binary`. Throws InternalError where that fails.
  explicit HostModule(const CompiledKernel& kernel);
  HostModule(HostModule&& other) noexcept;
  HostModule& operator=(HostModule&& other) noexcept;
  ~HostModule();

  HostEntry entry() const { return entry_; }

 private:
  void* code_ = nullptr;
  HostEntry entry_ = nullptr;
};

}  // namespace flextile
