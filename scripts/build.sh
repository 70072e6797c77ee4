#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh <preset> [cmake option...]
# Warnings are errors where CI=true. Uses ccache where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?usage: scripts/build.sh <preset> [cmake option...]}
shift
options=()
[[ ${CI:-} != true ]] || options+=(-DKILN_WERROR=ON)
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
            -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # Precompiled headers are made anew in each build folder, of the same text.
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}
fi
cmake --preset "$preset" "${options[@]}" "$@"
cmake --build --preset "$preset"
