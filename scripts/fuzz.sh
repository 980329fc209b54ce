#!/usr/bin/env bash
# Runs every fuzz target of build/asan, FUZZ_SECONDS (600) divided among them, or FUZZ_RUNS runs of
# each; names on the command line pick targets. New inputs stay in build/fuzz, and so does an input
# that breaks something; the seeds in tests/fuzz/corpus are only read.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=/usr/lib/llvm-19/bin:$PATH  # the sanitizers look for llvm-symbolizer there

if (( $# )); then
  targets=("$@")
else
  mapfile -t targets < <(find tests/fuzz -maxdepth 1 -name '*.cpp' -printf '%f\n' | sort)
  targets=("${targets[@]%.cpp}")
fi
(( ${#targets[@]} )) || { echo "[fuzz] no targets in tests/fuzz" >&2; exit 1; }

limit=(-max_total_time=$(( ${FUZZ_SECONDS:-600} / ${#targets[@]} )))
[[ -z ${FUZZ_RUNS:-} ]] || limit=(-runs="$FUZZ_RUNS")

failed=0
for target in "${targets[@]}"; do
  work=build/fuzz/$target
  mkdir -p "$work/corpus"
  seeds=()
  [[ ! -d tests/fuzz/corpus/$target ]] || seeds=("tests/fuzz/corpus/$target")
  dictionary=()
  [[ ! -f tests/fuzz/$target.dict ]] || dictionary=(-dict="tests/fuzz/$target.dict")

  if "build/asan/tests/fuzz/$target" "${limit[@]}" "${dictionary[@]}" -artifact_prefix="$work/" \
      -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=1 \
      "$work/corpus" "${seeds[@]}" >"$work/log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    echo "[fuzz] $target: $runs runs, no finding"
  else
    tail -n 60 "$work/log"
    echo "[fuzz] $target: FAILED; the input is in $work"
    failed=1
  fi
done
exit $failed
