# Sourced by tools/demo and tools/test: what they need, and the build.
# Sets: root (the checkout). Functions: need, build.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

# need INSTALL PACKAGE:CHECK ... - packages whose check command fails are installed with apt-get
# (INSTALL yes) or only named (INSTALL no; then the answer is 1 if any is missing).
need() {
  local install=$1 missing=() pair
  shift
  for pair in "$@"; do
    eval "${pair#*:}" >/dev/null 2>&1 || missing+=("${pair%%:*}")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$install" = no ]; then
    echo "missing packages: ${missing[*]} (run without --no-install to install them)" >&2
    return 1
  fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "missing packages: ${missing[*]}; they can be installed by root on Debian, or by hand" >&2
    return 1
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || {
    echo "apt-get could not install: ${missing[*]}" >&2
    return 1
  }
}

has_header() { echo "#include <$1>" | "${CC:-gcc}" -E - ; }
has_library() { ls /usr/lib/*/"$1" /usr/lib/"$1" /usr/local/lib/"$1" 2>/dev/null | grep -q . ; }

build_packages=(
  "gcc:command -v gcc"
  "libc6-dev:has_header stdlib.h"
  "cmake:command -v cmake"
  "ninja-build:command -v ninja"
  "libopenblas0-openmp:has_library libopenblas.so.0"
  "graphviz:command -v dot"
)
test_packages=(
  "${build_packages[@]}"
  "libcriterion-dev:has_header criterion/criterion.h"
  "clang:command -v clang"
  "libomp-dev:ls /usr/lib/llvm-*/lib/libomp.so"
  "clang-format:command -v clang-format"
)

# build FOLDER OPTION ... - configures once and builds.
build() {
  local folder=$1
  shift
  cmake -S "$root" -B "$folder" -G Ninja "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; return 1; }
  ninja -C "$folder" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; return 1; }
  ! grep -n "warning:" "$folder.log" || { echo "warnings in $folder.log" >&2; return 1; }
}
