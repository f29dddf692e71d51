#include <cstdio>

#include <flextile/ir/error.hpp>
#include <flextile/runtime/device.hpp>

#include "commands.hpp"
#include "options.hpp"

namespace tool {
namespace {

std::vector<Option> known_options() { return {{"--json", "", "", "one line of JSON: the host, the GPUs, and why there is none"}}; }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8] = "";
    if (static_cast<unsigned char>(c) < 0x20) std::snprintf(code, sizeof code, "\\u%04x", c);
    if (c == '"' || c == '\\') out += '\\';
    out += *code ? code : std::string(1, c);
  }
  return out + "\"";
}

std::string field(const char* name, const std::string& value) { return quoted(name) + ": " + value; }
std::string field(const char* name, std::int64_t value) { return field(name, std::to_string(value)); }

std::string gpu(int index) {
  std::string text = "{" + field("device", quoted("cuda:" + std::to_string(index)));
  try {
    const flextile::Device device = flextile::Device::cuda(index);
    const flextile::DeviceProperties& properties = device.properties();
    text += ", " + field("name", quoted(properties.name)) + ", " + field("target", quoted(device.target().name())) + ", " +
            field("memory", properties.memory) + ", " + field("free_memory", device.memory().free) + ", " +
            field("multiprocessors", properties.multiprocessors) + ", " + field("shared_memory_per_program", properties.shared_memory_per_program) +
            ", " + field("driver_version", properties.driver_version);
  } catch (const flextile::Error& error) {
    text += ", " + field("unusable_because", quoted(error.what()));
  }
  return text + "}";
}

/// {"host": {...}, "gpus": [...]}, with "no_gpu_because" where the list is empty. Memory is in bytes.
std::string json() {
  const flextile::DeviceProperties& host = flextile::Device::host().properties();
  std::string text = "{" + field("host", "{" + field("name", quoted(host.name)) + ", " + field("threads", flextile::host_threads()) + ", " +
                                             field("memory", host.memory) + "}") + ", ";
  std::string list;
  for (int i = 0; i < flextile::Device::count(); ++i) list += (i ? ", " : "") + gpu(i);
  text += field("gpus", "[" + list + "]");
  if (list.empty()) text += ", " + field("no_gpu_because", quoted(flextile::Device::absence_reason()));
  return text + "}\n";
}

}  // namespace

std::string devices_help() {
  return R"(usage: flextile devices [--json]

Lists the host and every GPU that the driver shows, with the target that kernels are compiled for. Where no GPU can be used
it says why. FLEXTILE_DEVICE=host (cuda, cuda:1) picks the device that programs take by default.

)" + option_table(known_options());
}

int devices(const std::vector<std::string>& arguments) {
  const Options options("devices", known_options(), arguments);
  if (!options.positional().empty()) throw UsageError{"devices takes no arguments, but got '" + options.positional()[0] + "'"};
  std::fputs(options.given("--json") ? json().c_str() : flextile::describe_devices().c_str(), stdout);
  return 0;
}

}  // namespace tool
