#!/usr/bin/env bash
# All tests of a finished build (`make test`): C++, Python, the torch-free part under ASan and UBSan,
# a minute of fuzzing, the linters. All parts run, then it says how many passed.
#
# Many tests wait for each other's processes. What only compiles and reads, the sanitized build and
# the linters, runs beside them and takes what they leave of the processor.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=/usr/lib/llvm-19/bin:$PATH  # the sanitizers look for llvm-symbolizer there

reports=$PWD/build/reports
rm -rf "$reports"
mkdir -p "$reports"
status=0

# part <name> <command...>: runs it, remembers whether it failed.
part() {
  local name=$1 start=$SECONDS result=passed
  shift
  printf '\n\033[1m== %s\033[0m\n' "$name"
  if ! "$@"; then
    result=FAILED
    status=1
  fi
  printf '%-10s %4d s  %s\n' "$result" $(( SECONDS - start )) "$name" >>"$reports/summary"
}

run_ctest() {
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$(nproc)" \
    --output-junit "$reports/ctest-$1.xml"
}

# beside <name> <command...>: the same with a log, in a session of its own, since the kernel shares
# the processor out by sessions first and by niceness within them.
beside() {
  local name=$1
  shift
  setsid nice -n 19 bash -c 'echo 19 2>/dev/null >/proc/self/autogroup; "$@"' beside "$@" \
    >"$reports/$name.log" 2>&1 </dev/null &
  besides[$name]=$!
}

finish() {
  local result=0
  wait "${besides[$1]}" || result=1
  unset "besides[$1]"
  cat "$reports/$1.log"
  return $result
}

declare -A besides
end_besides() { for group in "${besides[@]}"; do kill -- "-$group" 2>/dev/null; done; }
trap end_besides EXIT
trap 'exit 130' INT TERM

beside lint bash -c 'make sanitized && scripts/lint.sh'

part "C++" run_ctest release
part "Python" .venv/bin/python -m pytest -q --junit-xml="$reports/pytest.xml"
part "lint" finish lint
part "C++ with ASan and UBSan" run_ctest asan
part "fuzzing" env FUZZ_SECONDS=60 scripts/fuzz.sh

echo
cat "$reports/summary"
.venv/bin/python scripts/count_tests.py "$reports" || status=1
exit $status
