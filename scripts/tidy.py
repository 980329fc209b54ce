"""Runs clang-tidy over the sources of a build that match a pattern, two or more at a time.

    tidy.py BUILD PATTERN [clang-tidy option...]

A unity file stands for the sources that it includes: the headers that they share are read once,
and .clang-tidy's filter lets through what is found in them. It counts as where its first source
lies.

The precompiled header is left out: clang-tidy cannot use GCC's, and would read all of libtorch for
every source in its place. What was clean is not looked at again until a source, one of our headers,
or the checks change: it is remembered in build/tidy.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLEAN = ROOT / "build" / "tidy"
PRECOMPILED = re.compile(r" -Winvalid-pch -include \S+/cmake_pch\.hxx")
INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def sources_of(entry: dict) -> list[Path]:
    """The sources that are compiled as one."""
    file = Path(entry["file"])
    if file.parent.name != "Unity":
        return [file]
    return [Path(name) for name in INCLUDED.findall(file.read_text())]


def common_state(options: list[str]) -> bytes:
    headers = sorted(
        path
        for folder in ("ravnest", "python/src", "tests")
        for pattern in ("*.h", "*.inc")
        for path in (ROOT / folder).rglob(pattern)
    )
    state = hashlib.sha256(" ".join(options).encode())
    for path in [ROOT / ".clang-tidy", *headers]:
        state.update(path.read_bytes())
    return state.digest()


def check(build: Path, entry: dict, options: list[str], common: bytes) -> str:
    """What clang-tidy has to say about a source; empty when it is clean."""
    content = b"".join(source.read_bytes() for source in sources_of(entry))
    key = hashlib.sha256(common + entry["command"].encode() + content).hexdigest()
    if (CLEAN / key).exists():
        return ""
    command = ["clang-tidy-19", "-quiet", "-p", str(build), *options, entry["file"]]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        (CLEAN / key).touch()
        return ""
    return result.stdout.strip() or result.stderr.strip() or f"{entry['file']}: clang-tidy failed"


def main(build: str, pattern: str, *options: str) -> int:
    commands = json.loads((ROOT / build / "compile_commands.json").read_text())
    for entry in commands:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    wanted = re.compile(pattern)
    entries = [
        entry for entry in commands if wanted.match(os.path.relpath(sources_of(entry)[0], ROOT))
    ]
    if not entries:
        print(f"[tidy] expected sources that match {pattern} in {build}, got none")
        return 1
    database = CLEAN / build
    database.mkdir(parents=True, exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps(commands))
    common = common_state(list(options))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = list(
            pool.map(lambda entry: check(database, entry, list(options), common), entries)
        )
    print("\n".join(filter(None, findings)), end="\n" if any(findings) else "")
    return int(any(findings))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
