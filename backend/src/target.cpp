#include <array>

#include <flextile/backend/target.hpp>
#include <flextile/ir/error.hpp>

namespace flextile {
namespace {

struct KnownTarget {
  std::string_view name;
  int sm;
  bool arch_specific;
};

constexpr std::array known_targets{
    KnownTarget{"sm_80", 80, false}, KnownTarget{"sm_86", 86, false}, KnownTarget{"sm_89", 89, false},   KnownTarget{"sm_90", 90, false},
    KnownTarget{"sm_90a", 90, true}, KnownTarget{"sm_100", 100, false}, KnownTarget{"sm_120", 120, false},
};

constexpr std::string_view host_prefix = "host:";

std::string known_names() {
  std::string names = "host, host:<cpu>";
  for (const KnownTarget& known : known_targets) names += ", " + std::string(known.name);
  return names;
}

}  // namespace

Target Target::host() { return {}; }
Target Target::sm_80() { return cuda(80); }
Target Target::sm_90a() { return cuda(90, true); }

Target Target::cuda(int sm, bool arch_specific) {
  Target target{.kind = Kind::nvptx, .sm = 0, .arch_specific = false, .cpu = ""};
  for (const KnownTarget& known : known_targets) {
    if (known.arch_specific ? known.sm == sm && arch_specific : known.sm <= sm) {
      target.sm = known.sm;
      target.arch_specific = known.arch_specific;
    }
  }
  if (target.sm == 0) {
    throw ArgumentError("flextile: [target] compute capability " + std::to_string(sm / 10) + "." + std::to_string(sm % 10) +
                        " is too old: flextile compiles for 8.0 and newer");
  }
  if (arch_specific && !target.arch_specific) {
    throw ArgumentError("flextile: [target] sm_" + std::to_string(sm) + "a is not known; known are " + known_names());
  }
  return target;
}

Target Target::parse(std::string_view text) {
  if (text == "host") return host();
  if (text.starts_with(host_prefix) && text.size() > host_prefix.size()) {
    Target target;
    target.cpu = text.substr(host_prefix.size());
    return target;
  }
  for (const KnownTarget& known : known_targets) {
    if (known.name == text) return {.kind = Kind::nvptx, .sm = known.sm, .arch_specific = known.arch_specific, .cpu = ""};
  }
  throw ArgumentError("flextile: [target] \"" + std::string(text) + "\" is not a target; known are " + known_names());
}

std::string Target::name() const {
  if (kind == Kind::host) return cpu.empty() ? "host" : std::string(host_prefix) + cpu;
  return "sm_" + std::to_string(sm) + (arch_specific ? "a" : "");
}

}  // namespace flextile
