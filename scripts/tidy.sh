#!/usr/bin/env bash
# Runs clang-tidy with the compile commands of the debug preset on sources of
# lib/ and tools/. A header is checked with the source that bears its name.
#
#   scripts/tidy.sh                 what differs from the merge base with main
#   scripts/tidy.sh --base COMMIT   what differs from COMMIT
#   scripts/tidy.sh --all           everything
#   scripts/tidy.sh FILE...         the files named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "tidy: $2" >&2; exit "$1"; }

# Prints the sources to check for what differs from commit $1.
changedSources() {
  local file
  { git diff --name-only --diff-filter=d "$1" -- cmake lib tools
    git ls-files --others --exclude-standard -- cmake lib tools; } |
    while read -r file; do
      case $file in
      *.h) file=${file%.h}.cpp ;;
      *.cpp) ;;
      *) continue ;;
      esac
      [[ ! -f $file ]] || echo "$file"
    done | sort -u
}

files=()
case "${1:-}" in
--all) mapfile -t files < <(find cmake lib tools -name '*.cpp' | sort) ;;
""|--base)
  if [[ $# -eq 0 ]]; then
    main=$(git rev-parse --verify -q origin/main || git rev-parse main)
    base=$(git merge-base HEAD "$main")
  else
    base=$(git rev-parse --verify "${2:?usage: scripts/tidy.sh --base COMMIT}")
  fi
  mapfile -t files < <(changedSources "$base")
  echo "tidy: ${#files[@]} sources differ from $(git rev-parse --short "$base")"
  ;;
-*) fail 2 "unknown argument: $1" ;;
*) files=("$@") ;;
esac
[[ ${#files[@]} -gt 0 ]] || exit 0

tidy=$(command -v clang-tidy-19 || command -v clang-tidy) ||
  fail 3 "clang-tidy is not installed"
[[ -f build/debug/compile_commands.json ]] ||
  fail 2 "configure first: cmake --preset debug"
printf '%s\0' "${files[@]}" |
  xargs -0 -n 4 -P "$(nproc)" "$tidy" -p build/debug --quiet
