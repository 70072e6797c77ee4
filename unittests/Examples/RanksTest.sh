#!/bin/sh
# kiln-llama on two ranks that the stand-ins serve. Usage: RanksTest.sh PROGRAM
# NCCL CASE, in a folder of its own. NCCL sums in the cases that say so.
set -u
exec=
program=$1 nccl=$2 case=$3

[ -d checkpoint ] || "$program" export --model tiny --out checkpoint || exit 1
serve() {
  $exec "$program" bench --model checkpoint --mode predict --tp 2 --devices 0,0 \
    --nccl "$nccl" --max-sequences 4 --token-budget 64 --pages 64 "$@"
}
# Waits for at most 5 s until the process $1 is gone.
is_gone() {
  for _ in $(seq 50); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}
# Starts a long run, and waits until both ranks serve.
serve_on() {
  (exec=exec && serve --sequences 100000 --prompt 20 --new 200 \
    >out.txt 2>err.txt) &
  first=$!
  for _ in $(seq 600); do
    second=$(sed -n 's/^rank 1: process \([0-9]*\).*/\1/p' err.txt)
    [ -n "$second" ] && grep -q capturing err.txt && break
    sleep 0.1
  done
  sleep 1
}

# Serves without an error. A loaded host makes calls wait, which is exit code 1.
serve_well() {
  serve "$@" >out.txt 2>err.txt || grep -q '"phase"' out.txt
}
# Starts 20 times with further options; sums are by $1.
start_often() {
  by=$1
  shift
  for start in $(seq 20); do
    serve_well --sequences 5 --prompt $((40 + start)) --new 9 "$@" &&
      grep -q "5 requests, $((5 * (40 + start))) prompt and 45 new tokens" \
        out.txt && grep -q "all-reduce: $by" out.txt ||
      { cat out.txt err.txt && exit 1; }
  done
  echo "20 starts agree"
}

case $case in
starts)
  nccl=/no/library
  start_often kiln ;;
starts-nccl)
  start_often nccl --allreduce nccl ;;
warmed)
  # Nothing is left to compile, whichever way the ranks sum.
  for by in kiln nccl; do
    rm -rf "$KILN_CACHE_DIR"
    "$(dirname "$program")/kiln" warmup --model checkpoint --tp 2 \
      --sums $by --device h200-sxm --max-tokens 64 --max-batch 4 \
      >out.txt 2>err.txt &&
      echo '{"do": "setup", "kind": "decode", "batch": 4, "context": 9,' \
        '"steps": 8}' |
      KILN_NVRTC=/no/library "$program" lockstep --model checkpoint \
        --mode predict --tp 2 --devices 0,0 --nccl "$nccl" --allreduce $by \
        --batch 4 --context 256 --tokens 64 --cache-tokens 1024 2>>err.txt ||
      { cat out.txt err.txt && exit 1; }
  done ;;
unshared)
  KILN_FAKE_NO_IPC=1
  export KILN_FAKE_NO_IPC
  serve --sequences 5 --prompt 41 --new 9 2>&1 ;;
absent)
  KILN_FAKE_MISSING_RANK=1
  export KILN_FAKE_MISSING_RANK
  serve_on
  is_gone "$first" || { echo "rank 0 goes on" && kill -KILL "$first"; }
  wait "$first"
  code=$?
  is_gone "$second" || { echo "rank 1 goes on" && kill -KILL "$second"; }
  echo "exit code $code: $(grep 'rank 1 did not come' err.txt)" ;;
killed)
  serve_on
  kill -KILL "$second"
  is_gone "$first" || { echo "rank 0 goes on" && kill -KILL "$first"; }
  wait "$first"
  echo "exit code $?: $(grep 'rank 1' err.txt)" ;;
ends)
  # One that is killed behind the last step. The other one does not hang.
  for rank in 0 1; do
    KILN_FAKE_NCCL_KILLS=$rank
    export KILN_FAKE_NCCL_KILLS
    serve --sequences 2 --prompt 8 --new 2 --allreduce nccl >out.txt 2>err.txt
    echo "exit code $?"
    second=$(sed -n 's/^rank 1: process \([0-9]*\).*/\1/p' err.txt)
    for _ in 1 2 3; do is_gone "$second" && break; done
    kill -KILL "$second" 2>/dev/null && echo "rank 1 goes on"
    grep 'another rank has ended' err.txt
  done ;;
left)
  serve_on
  kill -KILL "$first"
  is_gone "$second" || { echo "rank 1 goes on" && kill -KILL "$second"; }
  grep 'rank 0 has ended' err.txt ;;
differ)
  KILN_FAKE_DEVICES="NVIDIA H200,NVIDIA H100 80GB HBM3"
  export KILN_FAKE_DEVICES
  serve --devices 0,1 --no-strict --sequences 1 --prompt 8 --new 2 ;;
missing)
  KILN_FAKE_DEVICES="NVIDIA H200,NVIDIA H100 80GB HBM3"
  export KILN_FAKE_DEVICES
  serve --devices 0,1 --sequences 1 --prompt 8 --new 2 ;;
heads)
  serve --tp 4 --devices 0,0,0,0 --sequences 1 ;;
esac
