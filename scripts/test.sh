#!/usr/bin/env bash
# Sets the machine up, checks the format of the sources, builds Kiln and passes
# its tests: first the cpu tests under the sanitizers, except those of kernels'
# texts and emulated kernels, then everything on the release build, which stays
# in build/release. GPU tests report themselves as skipped where there is no
# GPU. The tests of unittests/Install check the layer list of docs/design.md and
# the tables of results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh --with-tests
scripts/format.sh --check
CUDA_HOME=$(scripts/setup.sh --cuda-home)
export CUDA_HOME
for preset in sanitizers release; do
  scripts/build.sh "$preset"
  ctest --preset "$preset" -j "$(nproc)"
done
