#!/usr/bin/env bash
# Runs clang-tidy on the sources of lib/ and tools/, or on the files named,
# with the compile commands of the release preset.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tidy=$(command -v clang-tidy-19 || command -v clang-tidy) ||
  { echo "tidy: clang-tidy is not installed" >&2; exit 3; }
[[ -f build/release/compile_commands.json ]] ||
  { echo "tidy: configure first: cmake --preset release" >&2; exit 2; }
if [[ $# -gt 0 ]]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files 'lib/*.cpp' 'tools/*.cpp')
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "$(nproc)" "$tidy" -p build/release --quiet
