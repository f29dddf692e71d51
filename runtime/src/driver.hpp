// The CUDA driver, opened at run time. Nothing of CUDA's headers is needed to build.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <flextile/ir/error.hpp>

namespace flextile::runtime {

struct Driver {
#define DRIVER_FUNCTION(symbol, parameters) int(*symbol) parameters = nullptr;
#include "driver_functions.def"
  int version = 0;
  int device_count = 0;
};

/// CUlaunchAttribute.
struct LaunchAttribute {
  std::int32_t id = 0;
  std::int32_t padding = 0;
  std::int32_t value[16] = {};
};
inline constexpr std::int32_t launch_overlaps = 6;   // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

/// Null where there is no driver or no device; driver_absence() then says why. FLEXTILE_LIBCUDA names another library file
/// ("none": no driver).
const Driver* driver();
const std::string& driver_absence();

/// The driver, or DriverError with the reason.
const Driver& require_driver();

inline constexpr int driver_success = 0;
inline constexpr int driver_error_out_of_memory = 2;
inline constexpr int driver_error_not_ready = 600;

/// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string driver_error_name(int result);
[[noreturn]] void throw_driver_error(int result, const char* call, const std::string& detail);

/// Throws DriverError with the call's name and, on the second line, what `detail` says.
inline void check(int result, const char* call) {
  if (result != driver_success) throw_driver_error(result, call, "");
}
template <class Detail>
void check(int result, const char* call, const Detail& detail) {
  if (result != driver_success) throw_driver_error(result, call, detail());
}

/// Makes a context current for the scope, and puts another library's context back afterwards.
class CurrentContext {
 public:
  explicit CurrentContext(void* context) {
    void* current = nullptr;
    driver()->cuCtxGetCurrent(&current);
    if (current == context) return;
    check(driver()->cuCtxSetCurrent(context), "cuCtxSetCurrent");
    previous_ = current;
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    if (previous_) driver()->cuCtxSetCurrent(previous_);
  }

 private:
  void* previous_ = nullptr;
};

/// Lets the thread allocate and load modules while one of its streams is being captured.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver()->cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { driver()->cuThreadExchangeStreamCaptureMode(&mode_); }

 private:
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

}  // namespace flextile::runtime
