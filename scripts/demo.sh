#!/usr/bin/env bash
# Sets the machine up, builds Kiln and runs its main job on the LLM suite:
# tune and measure on a GPU, or, without one, compile for an H200 into the
# cache. The second run finds everything in the cache. Tests, examples and
# kiln-bench are not built; scripts/build.sh release adds them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
CUDA_HOME=$(scripts/setup.sh --cuda-home)
export CUDA_HOME
scripts/build.sh release -DKILN_BUILD_TESTS=OFF -DKILN_BUILD_EXAMPLES=OFF \
  -DKILN_BUILD_BENCH=OFF

kiln=build/release/bin/kiln
suite=benchmarks/suites/gemm_llm_bf16.json
if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  "$kiln" tune --suite "$suite" --budget 120s
  # 3: there is no cuBLASLt here to compare with.
  "$kiln" bench --suite "$suite" || [[ $? -eq 3 ]]
else
  "$kiln" warmup --suite "$suite" --device h200-sxm --top 1
fi
