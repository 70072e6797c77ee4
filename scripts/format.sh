#!/usr/bin/env bash
# Formats the sources in place. With --check it only reports the differences,
# and the phrases that scripts/words.py replaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
case "${1:-}" in
"") ;;
--check) mode=(--dry-run --Werror) ;;
*) echo "format: unknown argument: $1" >&2; exit 2 ;;
esac
# Releases disagree on details, so the one that wrote the tree decides.
command -v clang-format-14 >/dev/null ||
  { echo "format: clang-format-14 is not installed" >&2; exit 3; }
if [[ "${1:-}" == --check ]]; then
  python3 -B scripts/words.py --check
fi
# No list of git's: a release's sources are no repository.
find benchmarks cmake examples include kernel_src lib tools unittests -type f \
    \( -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.hpp' \
       -o -name '*.cuh' -o -path 'benchmarks/*.cu' \) -print0 |
  xargs -0 -r -n 32 -P "$(nproc)" clang-format-14 "${mode[@]}"
