#include <cstdio>

#include <flextile/runtime/device.hpp>

#include "commands.hpp"
#include "options.hpp"

namespace tool {

std::string devices_help() {
  return R"(usage: flextile devices

Lists the host and every GPU that the driver shows, with the target that kernels are compiled for. Where no GPU can be used
it says why. FLEXTILE_DEVICE=host (cuda, cuda:1) picks the device that programs take by default.
)";
}

int devices(const std::vector<std::string>& arguments) {
  const Options options("devices", {}, arguments);
  if (!options.positional().empty()) throw UsageError{"devices takes no arguments, but got '" + options.positional()[0] + "'"};
  std::fputs(flextile::describe_devices().c_str(), stdout);
  return 0;
}

}  // namespace tool
