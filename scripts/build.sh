#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh <preset> [cmake option...]
# Uses ccache where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:?usage: scripts/build.sh <preset> [cmake option...]}
shift
options=()
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
            -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # By default ccache keeps nothing that uses a precompiled header, and takes a
  # header that is younger than the build for one that may still change.
  sloppiness=pch_defines,time_macros,include_file_mtime,include_file_ctime
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-$sloppiness}
  # Objects of one clone serve another.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
fi
cmake --preset "$preset" "${options[@]}" "$@"
cmake --build --preset "$preset"
