#!/usr/bin/env bash
# Sets the machine up, checks the format of the sources, builds Kiln and passes
# its tests: tests of logic under the sanitizers, then tests of the product
# (kernels' texts and emulated kernels among them) on the release build, which
# stays in build/release. GPU tests report themselves as skipped where there is
# no GPU; with one they run on the release build. The tests of unittests/Install
# check the layer list of docs/design.md and the tables of results. The
# time of each part is printed before the summary of the last tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

# Runs a command, and notes its time as $1.
timed() {
  local what=$1 start=$SECONDS
  shift
  "$@"
  note "$what" $((SECONDS - start))
}

note() {
  local line
  line=$(printf 'time line: %4d:%02d  %s' $(($2 / 60)) $(($2 % 60)) "$1")
  echo "$line" | tee -a "$lines"
}

# Passes ctest's output on. The time line so far and that of its tests, slowest
# first, go before the summary, with which the output has to end.
withTimeLine() {
  local line tests=()
  while IFS= read -r line; do
    if [[ $line =~ Test\ +#[0-9]+:\ ([^\ ]+)\ .*\ ([0-9.]+)\ sec ]]; then
      tests+=("$(printf '%9.1f s  %s' "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}")")
    elif [[ $line == *"% tests passed"* ]]; then
      cat "$lines"
      echo "time line: tests of $1"
      printf '%s\n' "${tests[@]}" | sort -rn
      echo
    fi
    printf '%s\n' "$line"
  done
}

runTests() {
  local preset=$1
  shift
  ctest --preset "$preset" -j "$(nproc)" "$@" 2>&1 | withTimeLine "$preset"
}

timed "set-up" scripts/setup.sh --with-tests
timed "format" scripts/format.sh --check
CUDA_HOME=$(scripts/setup.sh --cuda-home)
export CUDA_HOME

# Tests of logic run once: their GPU ones on a GPU if there is one.
gpuTests=()
releaseOptions=(-DKILN_LOGIC_TESTS=OFF -DKILN_BUILD_BENCH=OFF)
if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  gpuTests=(-LE gpu)
  releaseOptions=()
fi
timed "configure and build sanitizers" scripts/build.sh sanitizers
timed "tests of sanitizers" runTests sanitizers "${gpuTests[@]}"
timed "configure and build release" scripts/build.sh release \
  "${releaseOptions[@]}"
note "so far" "$SECONDS"
runTests release
