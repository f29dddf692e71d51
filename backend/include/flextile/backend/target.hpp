// What code is compiled for. A value: printable, comparable, part of every cache key.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace flextile {

struct Target {
  enum class Kind : std::uint8_t { host, nvptx };

  Kind kind = Kind::host;
  int sm = 0;                       // nvptx: compute capability times ten, 80 and up
  bool arch_specific = false;       // nvptx: sm_90a rather than sm_90
  std::string cpu;                  // host: LLVM's CPU name, "" for this machine's own

  static Target host();
  static Target sm_80();
  static Target sm_90a();
  /// The newest known target that a device of compute capability sm / 10 runs. Throws ArgumentError below 8.0.
  static Target cuda(int sm, bool arch_specific = false);
  /// "host", "host:<cpu>", "sm_80", "sm_90a", ... Throws ArgumentError that lists what is known.
  static Target parse(std::string_view text);

  bool is_gpu() const { return kind == Kind::nvptx; }
  /// As parse() reads it.
  std::string name() const;
  bool operator==(const Target&) const = default;
};

}  // namespace flextile
