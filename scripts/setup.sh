#!/usr/bin/env bash
# Installs what building Kiln needs on Debian 12 or Ubuntu 24.04: the missing
# packages with apt-get, and, where there is no CUDA toolkit, NVIDIA's
# redistributable packages for NVRTC and the headers into build/cuda. Says
# nothing and changes nothing when all of it is there.
#
#   scripts/setup.sh                install what the library and the tool need
#   scripts/setup.sh --with-tests   install what scripts/test.sh needs as well
#   scripts/setup.sh --cuda-home    print the CUDA root that Kiln builds with
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# cuda.h of the oldest toolkit whose NVRTC Kiln supports, 12.8.
minimumCudaVersion=12080
packages=(cmake ninja-build g++ llvm-19-dev libfmt-dev libzstd-dev zlib1g-dev)
# nlohmann-json3-dev is for examples/llama, which a build without it skips, and
# libboost-dev for its command serve.
testPackages=(doctest-dev clang-format-14 ccache nlohmann-json3-dev
              libboost-dev)

fail() { echo "setup: $*" >&2; exit 1; }

# True when folder $1 is a CUDA root with both headers and NVRTC's library.
isCudaRoot() {
  local version
  [[ -r $1/include/cuda.h && -r $1/include/nvrtc.h ]] || return 1
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' \
                "$1/include/cuda.h")
  [[ ${version:-0} -ge $minimumCudaVersion ]] || return 1
  compgen -G "$1/lib*/libnvrtc.so.*" >/dev/null ||
    compgen -G "$1/targets/x86_64-linux/lib/libnvrtc.so.*" >/dev/null
}

# Prints the first usable CUDA root; fails when there is none.
cudaHome() {
  local root
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda \
              "$PWD/build/cuda"; do
    if [[ -n $root ]] && isCudaRoot "$root"; then
      echo "$root"
      return
    fi
  done
  return 1
}

# Runs a command and shows its output only if it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { echo "$output" >&2; fail "failed: $*"; }
}

# Installs those of the named packages that are missing.
installPackages() {
  local missing=() asRoot=() package
  command -v dpkg-query >/dev/null ||
    fail "not a Debian or Ubuntu system; install the equivalents of: $*"
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'ok installed' || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "neither root nor sudo; install these packages: ${missing[*]}"
    asRoot=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  quietly "${asRoot[@]}" apt-get update
  quietly "${asRoot[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends "${missing[@]}"
}

# Prints a Python interpreter that has pip; fails when there is none.
pythonWithPip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  return 1
}

# Lays NVIDIA's packages out as a CUDA root in build/cuda. Only what Kiln uses
# is kept, and the folder appears whole or not at all.
installCudaPackages() {
  local python partial=build/cuda.partial
  pythonWithPip >/dev/null || installPackages python3-pip
  python=$(pythonWithPip) || fail "no Python with pip"
  echo "setup: no CUDA toolkit found; fetching NVRTC into build/cuda"
  rm -rf build/cuda "$partial"
  mkdir -p "$partial/include" "$partial/lib"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary=:all: --require-hashes --dest "$partial/wheels" \
    --requirement scripts/cuda-requirements.txt
  local wheel
  for wheel in "$partial"/wheels/*.whl; do
    "$python" -m zipfile -e "$wheel" "$partial/unpacked"
  done
  local from=$partial/unpacked/nvidia/cu13
  mv "$from/include/cuda.h" "$from/include/nvrtc.h" "$partial/include/"
  mv "$from"/lib/libnvrtc{,.alt}.so.13 \
    "$from"/lib/libnvrtc-builtins{,.alt}.so.13.0 "$partial/lib/"
  # The licence travels with the library.
  mv "$partial"/unpacked/nvidia_cuda_nvrtc-*.dist-info "$partial/"
  ln -s libnvrtc.so.13 "$partial/lib/libnvrtc.so"
  ln -s lib "$partial/lib64"
  rm -rf "$partial/wheels" "$partial/unpacked"
  mv "$partial" build/cuda
}

case "${1:-}" in
""|--with-tests)
  [[ $(uname -m) == x86_64 ]] || fail "unsupported machine: $(uname -m)"
  [[ $# -eq 0 ]] || packages+=("${testPackages[@]}")
  installPackages "${packages[@]}"
  cudaHome >/dev/null || installCudaPackages
  ;;
--cuda-home) cudaHome || fail "no CUDA root; run scripts/setup.sh" ;;
*) fail "unknown argument: $1" ;;
esac
