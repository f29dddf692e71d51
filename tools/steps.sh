# Sourced by the commands of this folder: steps that say what they do, do nothing when nothing is left to do, and say what
# to do when they fail.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

packages="cmake ninja-build g++ ccache llvm-22-dev llvm-22-tools libboost1.81-dev doctest-dev zlib1g-dev libzstd-dev"

step() { printf '\n== %s\n' "$*"; }

# stop WHAT HINT...: the step failed; the hints are what a person can try.
stop() {
  printf '\nFAILED: %s\n' "$1" >&2
  shift
  for hint in "$@"; do printf '  try: %s\n' "$hint" >&2; done
  exit 1
}

install_packages() {
  step "Packages"
  if ! command -v dpkg-query >/dev/null; then
    echo "this is no Debian; taking what is there (needed: CMake 3.25, Ninja, g++ 12 or later, LLVM 22, Boost 1.81, doctest)"
    return
  fi
  local missing=""
  for package in $packages; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
  done
  if [ -z "$missing" ]; then
    echo "all there"
    return
  fi
  echo "installing:$missing"
  local as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || stop "installing packages needs root" "as root: apt-get update && apt-get install$missing"
    as_root=sudo
  fi
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -q && apt-get install -q -y --no-install-recommends $missing" >/tmp/flextile-apt.log 2>&1 ||
    stop "apt-get did not install$missing; the end of its log:
$(tail -5 /tmp/flextile-apt.log)" "read /tmp/flextile-apt.log" "is the network there, and does /etc/apt list bookworm and bookworm-security (for LLVM 22)?" "apt-get update && apt-get install$missing"
}

# build PRESET [TARGETS...]: configure once, then build in build/PRESET.
build() {
  local preset=$1
  shift
  step "Configuring build/$preset"
  if [ -f "build/$preset/build.ninja" ]; then
    echo "done before"
  else
    cmake --preset "$preset" >"/tmp/flextile-configure-$preset.log" 2>&1 || {
      tail -15 "/tmp/flextile-configure-$preset.log"
      rm -f "build/$preset/CMakeCache.txt"
      stop "CMake could not configure" "read /tmp/flextile-configure-$preset.log" "rm -r build/$preset, then again"
    }
    echo "ok"
  fi
  step "Building in build/$preset"
  # shellcheck disable=SC2086
  cmake --build "build/$preset" -j "$(nproc)" ${*:+--target "$@"} ||
    stop "the build failed" "read the first error above" "with little memory: cmake --build build/$preset -j 1" "after changing branches: rm -r build/$preset, then again"
}
