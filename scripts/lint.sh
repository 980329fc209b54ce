#!/usr/bin/env bash
# Layout (clang-format, ruff) and names (clang-tidy). With --fix it lays out in place instead.
#
# clang-tidy runs all checks of .clang-tidy on the libraries without libtorch. In the tests, and in
# sources that see torch and take long to parse, it looks at names only.
set -uo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(find ravnest python/src tests benchmarks examples -name '*.cpp' -o -name '*.h' | sort)
python_files=(python tests benchmarks examples scripts)

if [[ ${1:-} == --fix ]]; then
  clang-format-19 -i "${sources[@]}"
  .venv/bin/ruff check --fix "${python_files[@]}"
  .venv/bin/ruff format "${python_files[@]}"
  exit
fi

names='--checks=-*,readability-identifier-naming'
failed=0
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    echo "[lint] $name: clean ($(( SECONDS - start )) s)"
  else
    echo "[lint] $name: FAILED"
    failed=1
  fi
}

tidy() { .venv/bin/python scripts/tidy.py "$@"; }

check clang-format clang-format-19 --dry-run -Werror "${sources[@]}"
check "ruff check" .venv/bin/ruff check --quiet "${python_files[@]}"
check "ruff format" .venv/bin/ruff format --quiet --check "${python_files[@]}"
check "clang-tidy" tidy build/asan 'ravnest/'
check "clang-tidy, names in tests" tidy build/asan '(tests|benchmarks)/' "$names"
check "clang-tidy, names in torch users" \
  tidy build/release '(ravnest/(engine|provider|cli)|python/src|tests/(engine|provider))/' "$names" --extra-arg=-w
exit $failed
