#!/usr/bin/env bash
# All tests of a finished build (`make test`): C++, Python, the torch-free part under ASan and UBSan,
# a minute of fuzzing, the linters. All parts run, then it says how many passed.
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

part "C++" run_ctest release
part "Python" .venv/bin/python -m pytest -q --junit-xml="$reports/pytest.xml"
part "C++ with ASan and UBSan" run_ctest asan
part "fuzzing" env FUZZ_SECONDS=60 scripts/fuzz.sh
part "lint" scripts/lint.sh

echo
cat "$reports/summary"
.venv/bin/python scripts/count_tests.py "$reports" || status=1
exit $status
