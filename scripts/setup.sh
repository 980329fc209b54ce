#!/usr/bin/env bash
# Everything the build needs, on a bare Debian 12: packages, .venv, torch. Run again, it checks and
# returns at once; what it last installed is remembered in .venv/.setup by content.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  make git g++ cmake ninja-build ccache pkg-config binutils
  nlohmann-json3-dev libdeflate-dev libcli11-dev libgtest-dev
  libcairo2-dev fonts-dejavu-core
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libzstd-dev
  libsqlite3-dev libssl-dev libseccomp-dev libcpp-httplib-dev
  iproute2  # the tests of networks make namespaces
  chromium  # the tests of the dashboard look at it with a browser
  clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19
)

say() { printf '\033[1m[setup]\033[0m %s\n' "$*"; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

install_packages() {
  local missing=() package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      missing+=("$package")
    fi
  done
  (( ${#missing[@]} )) || return 0

  local as_root=()
  if (( EUID != 0 )); then
    command -v sudo >/dev/null ||
      fail "expected root or sudo to install packages; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
}

# The name of a Python 3.11 that can make a virtual environment and build extensions.
find_python() {
  local check='
import ensurepip, os, sys, sysconfig, venv
ok = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(not (ok and sys.version_info[:2] == (3, 11)))'
  local candidate
  for candidate in python3.11 python3 /usr/bin/python3; do
    if "$candidate" -c "$check" >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
}

make_venv() {
  local python
  python=$(find_python)
  if [[ -z $python ]]; then
    install_packages python3 python3-dev python3-venv
    python=$(find_python)
  fi
  [[ -n $python ]] || fail "expected Python 3.11 with headers and venv; Debian 12 has it as python3-dev"
  say "creating .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
}

install_packages "${packages[@]}"

if ! .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
  make_venv
fi

wanted=$(cat requirements-dev.txt scripts/setup.sh | sha256sum)
if [[ $(cat .venv/.setup 2>/dev/null) != "$wanted" ]]; then
  say "installing requirements-dev.txt"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
  echo "$wanted" >.venv/.setup
fi
