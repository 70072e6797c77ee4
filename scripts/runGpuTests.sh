#!/usr/bin/env bash
# Runs the gpu tests of a bundle made by the target gpu-bundle; arguments go to
# each test binary. Exit code 77: there is no GPU here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

failed=()
for test in bin/Kiln*Tests; do
  echo "== ${test#bin/}"
  "$test" --test-suite=gpu "$@"
  code=$?
  [[ $code -ne 77 ]] || exit 77
  [[ $code -eq 0 ]] || failed+=("${test#bin/}")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all gpu tests passed"
