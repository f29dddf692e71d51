#include "driver.hpp"

#include <dlfcn.h>

#include <flextile/ir/environment.hpp>

namespace flextile::runtime {
namespace {

struct OpenedDriver {
  Driver functions;
  bool usable = false;
  std::string absence;

  OpenedDriver() {
    const std::string chosen = ir::environment("FLEXTILE_LIBCUDA");
    const std::string file = chosen.empty() ? "libcuda.so.1" : chosen;
    if (file == "none") {
      absence = "FLEXTILE_LIBCUDA=none turns the CUDA driver off";
      return;
    }
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* reason = dlerror();
      absence = "the CUDA driver cannot be opened: " + std::string(reason ? reason : file.c_str());
      if (!chosen.empty()) absence += "; FLEXTILE_LIBCUDA is \"" + chosen + "\" and must be the file of a CUDA driver, or none";
      return;
    }
    const char* missing = nullptr;
#define OPTIONAL_DRIVER_FUNCTION(symbol, parameters) functions.symbol = reinterpret_cast<int(*) parameters>(dlsym(library, #symbol));
#define DRIVER_FUNCTION(symbol, parameters)     \
  OPTIONAL_DRIVER_FUNCTION(symbol, parameters)  \
  if (!functions.symbol && !missing) missing = #symbol;
#include "driver_functions.def"
    if (missing) {
      absence = file + " has no function " + missing + "; CUDA 11.4 or newer is needed";
      if (!chosen.empty()) absence += "; FLEXTILE_LIBCUDA is \"" + chosen + "\" and must be the file of a CUDA driver, or none";
      return;
    }
    usable = start(file);
  }

  bool start(const std::string& file) {
    int result = functions.cuInit(0);
    if (result != driver_success) {
      const char* name = nullptr;
      functions.cuGetErrorName(result, &name);
      absence = file + " is there, but cuInit returned " + (name ? name : std::to_string(result).c_str());
      return false;
    }
    functions.cuDriverGetVersion(&functions.version);
    result = functions.cuDeviceGetCount(&functions.device_count);
    if (result != driver_success || functions.device_count <= 0) {
      absence = file + " is there, but shows no CUDA device (is CUDA_VISIBLE_DEVICES empty?)";
      return false;
    }
    return true;
  }
};

const OpenedDriver& opened() {
  static const OpenedDriver* const driver = new OpenedDriver;  // never unloaded: other threads may still use it at exit
  return *driver;
}

}  // namespace

const Driver* driver() {
  static const Driver* const functions = opened().usable ? &opened().functions : nullptr;
  return functions;
}

const std::string& driver_absence() { return opened().absence; }

const Driver& require_driver() {
  if (!driver()) throw DriverError("flextile: driver error: no CUDA device can be used: " + driver_absence());
  return *driver();
}

std::string driver_error_name(int result) {
  const char *name = nullptr, *text = nullptr;
  if (const Driver* functions = driver()) {
    functions->cuGetErrorName(result, &name);
    functions->cuGetErrorString(result, &text);
  }
  std::string message = name ? name : "error " + std::to_string(result);
  if (text) message += " (" + std::string(text) + ")";
  return message;
}

void throw_driver_error(int result, const char* call, const std::string& detail) {
  std::string message = "flextile: driver error: " + std::string(call) + " returned " + driver_error_name(result);
  if (!detail.empty()) message += "\n  " + detail;
  throw DriverError(message);
}

}  // namespace flextile::runtime
