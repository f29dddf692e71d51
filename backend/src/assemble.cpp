#include <flextile/backend/assemble.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <dlfcn.h>
#include <initializer_list>

#include <flextile/ir/environment.hpp>

namespace flextile {
namespace {

using Handle = void*;

/// nvJitLink's results and input kinds that we tell apart, as its header numbers them.
constexpr int success = 0;
constexpr int error_ptx_compile = 4;
constexpr int input_ptx = 2;

/// The functions of nvJitLink, found at run time. `create` is null when there is no usable library.
struct Linker {
  int (*create)(Handle*, unsigned count, const char** options) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add_data)(Handle, int kind, const void* data, std::size_t size, const char* name) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, std::size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*error_log_size)(Handle, std::size_t*) = nullptr;
  int (*error_log)(Handle, char*) = nullptr;
  int (*info_log_size)(Handle, std::size_t*) = nullptr;
  int (*info_log)(Handle, char*) = nullptr;
  int (*version)(unsigned* major, unsigned* minor) = nullptr;   // newer libraries only
  std::string description;
};

/// The plain name, else the one that carries the library's version.
template <class Signature> bool find(void* library, const std::string& name, Signature& function) {
  for (const char* suffix : {"", "_13_0", "_12_9", "_12_8", "_12_6", "_12_5", "_12_4", "_12_0"}) {
    const std::string symbol = *suffix ? "__nvJitLink" + name + suffix : "nvJitLink" + name;
    function = reinterpret_cast<Signature>(dlsym(library, symbol.c_str()));
    if (function) return true;
  }
  return false;
}

bool open(const std::string& path, Linker& linker, std::string& reasons) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    reasons += "\n  " + std::string(reason ? reason : path.c_str());
    return false;
  }
  Linker found;
  if (!find(library, "Destroy", found.destroy) || !find(library, "AddData", found.add_data) || !find(library, "Complete", found.complete) ||
      !find(library, "GetLinkedCubinSize", found.cubin_size) || !find(library, "GetLinkedCubin", found.cubin) ||
      !find(library, "GetErrorLogSize", found.error_log_size) || !find(library, "GetErrorLog", found.error_log) ||
      !find(library, "GetInfoLogSize", found.info_log_size) || !find(library, "GetInfoLog", found.info_log) ||
      !find(library, "Create", found.create)) {
    reasons += "\n  " + path + ": it is no nvJitLink: functions are missing";
    dlclose(library);
    return false;
  }
  unsigned major = 0, minor = 0;
  if (find(library, "Version", found.version) && found.version(&major, &minor) == success) {
    found.description = std::to_string(major) + "." + std::to_string(minor) + " ";
  }
  found.description += "(" + path + ")";
  linker = found;
  return true;
}

Linker find_linker() {
  Linker linker;
  std::string reasons;
  if (const std::string path = ir::environment("FLEXTILE_NVJITLINK"); !path.empty()) {
    if (path == "none")
      linker.description = "none, as FLEXTILE_NVJITLINK says";
    else if (!open(path, linker, reasons))
      linker.description = "none: FLEXTILE_NVJITLINK is \"" + path + "\" and must be an nvJitLink library, or none" + reasons;
    return linker;
  }
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/local/cuda-13.0/lib/"}) {
    for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12"}) {
      if (open(std::string(folder) + name, linker, reasons)) return linker;
    }
  }
  linker.description = "none" + reasons;
  return linker;
}

const Linker& linker() {
  static const Linker found = find_linker();
  return found;
}

/// One link; destroyed with its scope.
struct Link {
  const Linker& linker;
  Handle handle = nullptr;
  ~Link() {
    if (handle) linker.destroy(&handle);
  }
  std::string text(int (*size_of)(Handle, std::size_t*), int (*read)(Handle, char*)) const {
    std::size_t size = 0;
    if (size_of(handle, &size) != success || size == 0) return "";
    std::string result(size, '\0');
    if (read(handle, result.data()) != success) return "";
    result.resize(result.find('\0') == std::string::npos ? size : result.find('\0'));
    return result;
  }
  std::string log() const {
    return text(linker.info_log_size, linker.info_log) + text(linker.error_log_size, linker.error_log);
  }
};

/// The number that stands directly before `unit`, or -1.
int number_before(std::string_view text, std::string_view unit) {
  const std::size_t end = text.find(unit);
  if (end == std::string_view::npos) return -1;
  std::size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int value = -1;
  std::from_chars(text.data() + begin, text.data() + end, value);
  return value;
}

void keep_known(int& field, int value) {
  if (value >= 0) field = value;
}

/// Bytes that a thread spills; 0: none that we know of.
int spilled_bytes(const Resources& resources) {
  if (resources.spill_stores >= 0 || resources.spill_loads >= 0) return std::max({resources.spill_stores, resources.spill_loads, 0});
  return std::max(resources.stack, 0);   // a driver that does not say: registers that it spills are the only stack
}

/// Calls visit(line) for each line of a text.
template <class Visit> void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

/// The assembler's codes for: setmaxnreg ignored, wgmma serialised, registers that could not be allocated. Others, such as C7519 (a
/// fence put in), cost little.
constexpr std::string_view costly_codes[] = {"C7504", "C7508", "C7509", "C7510", "C7511", "C7512", "C7513", "C7514", "C7515", "C7600", "C7602"};

/// "ptxas info    : (C7512) Potential Performance Loss: wgmma ..." becomes "C7512: wgmma ..."; "" for a line without a costly code.
std::string costly_warning(std::string_view line) {
  for (const std::string_view code : costly_codes) {
    const std::size_t at = line.find(code);
    if (at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + code.size());
    constexpr std::string_view opening = "Potential Performance Loss: ";
    if (const std::size_t words = rest.find(opening); words != std::string_view::npos) rest.remove_prefix(words + opening.size());
    while (!rest.empty() && std::string_view(") :\t").find(rest.front()) != std::string_view::npos) rest.remove_prefix(1);
    return std::string(code) + ": " + std::string(rest);
  }
  return "";
}

}  // namespace

AssembledKernel assemble(std::string_view kernel_name, const std::string& ptx, const Target& target, bool line_info) {
  const Linker& found = linker();
  if (!found.create) return {};
  const std::string architecture = "-arch=" + target.name();
  std::array<const char*, 3> options{architecture.c_str(), "-verbose", "-lineinfo"};
  Link link{found};
  const std::string name = std::string(kernel_name) + ".ptx";
  if (int result = found.create(&link.handle, line_info ? 3 : 2, options.data()); result != success) {
    link.handle = nullptr;
    return {.cubin = "", .log = "nvJitLink refuses " + architecture + " (result " + std::to_string(result) + "); the driver assembles the PTX"};
  }
  int result = found.add_data(link.handle, input_ptx, ptx.c_str(), ptx.size() + 1, name.c_str());
  if (result == success) result = found.complete(link.handle);
  AssembledKernel assembled{.cubin = "", .log = link.log()};
  if (result == error_ptx_compile && assembled.log.find("Unsupported .version") == std::string::npos) {
    if (assembled.log.find("C7602") != std::string::npos) {
      throw CompileError("flextile: compile error in kernel \"" + std::string(kernel_name) + "\"\n  [registers] a thread has too few of them on " + target.name() +
                         " for one of its matrix instructions: take smaller tiles, more warps, or a lower occupancy where the kernel asks for one; the assembler says:\n" +
                         assembled.log);
    }
    throw InternalError("flextile: internal error: the assembler refuses the PTX of kernel \"" + std::string(kernel_name) + "\" for " +
                        target.name() + ":\n" + assembled.log);
  }
  std::size_t size = 0;
  if (result == success && found.cubin_size(link.handle, &size) == success) {
    assembled.cubin.resize(size);
    if (found.cubin(link.handle, assembled.cubin.data()) != success) assembled.cubin.clear();
  } else {
    assembled.log += "nvJitLink gives result " + std::to_string(result) + "; the driver assembles the PTX\n";
  }
  return assembled;
}

void read_assembler_log(std::string_view log, std::string_view kernel_name, Resources& resources) {
  resources.log = log;
  const std::string entry = "Compiling entry function '" + std::string(kernel_name) + "'";
  std::string_view own = log;
  if (const std::size_t begin = log.find(entry); begin != std::string_view::npos) {
    own = log.substr(begin + entry.size());
    own = own.substr(0, own.find("Compiling entry function"));
  }
  keep_known(resources.registers, number_before(own, " registers"));
  keep_known(resources.stack, number_before(own, " stack"));               // the linker's own summary, often the only one
  keep_known(resources.stack, number_before(own, " bytes stack frame"));
  keep_known(resources.spill_stores, number_before(own, " bytes spill stores"));
  keep_known(resources.spill_loads, number_before(own, " bytes spill loads"));
  // Spilled registers live in the stack: without one there are none.
  if (resources.stack == 0 && resources.spill_stores < 0) resources.spill_stores = resources.spill_loads = 0;
}

std::vector<std::string> assembler_complaints(const Resources& resources) {
  std::vector<std::string> complaints;
  if (resources.spill_stores > 0 || resources.spill_loads > 0) {
    complaints.push_back("assembler: registers do not suffice: " + std::to_string(resources.spill_stores) + " bytes are spilled and " +
                         std::to_string(resources.spill_loads) + " bytes reloaded per thread");
  } else if (const int bytes = spilled_bytes(resources); bytes > 0) {
    complaints.push_back("assembler: registers do not suffice: " + std::to_string(bytes) + " bytes of stack per thread");
  }
  for_each_line(resources.log, [&](std::string_view line) {
    if (line.find("C75") != std::string_view::npos || line.find("warning") != std::string_view::npos) complaints.push_back("assembler: " + std::string(line));
  });
  return complaints;
}

std::vector<std::string> performance_faults(const Resources& resources) {
  std::vector<std::string> faults;
  if (const int bytes = spilled_bytes(resources); bytes > 0) faults.push_back("spills " + std::to_string(bytes) + " bytes a thread");
  for_each_line(resources.log, [&](std::string_view line) {
    std::string fault = costly_warning(line);
    if (!fault.empty() && std::find(faults.begin(), faults.end(), fault) == faults.end()) faults.push_back(std::move(fault));
  });
  return faults;
}

std::string linker_version() { return linker().description; }

}  // namespace flextile
