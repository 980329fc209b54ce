"""Adds up the reports of `make test`, names what failed and prints its last line.

Fails when anything failed. A skipped test counts as failed: what is not run is not known to work.
A part without tests of its own to count (fuzzing, lint) counts as one failure when it fails.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

REPORTS = {
    "C++": "ctest-release.xml",
    "Python": "pytest.xml",
    "C++ with ASan and UBSan": "ctest-asan.xml",
}
COUNTED = {"C++", "Python"}


def count(report: Path) -> tuple[int, list[str]]:
    """How many tests of a JUnit report passed, and which did not; none if it was not written."""
    if not report.exists():
        return 0, []
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        if any(case.find(tag) is not None for tag in ("failure", "error", "skipped")):
            failed.append(f"{case.get('classname')}: {case.get('name')}")
        else:
            passed += 1
    return passed, failed


def main(reports: Path) -> int:
    total_passed, all_failed = 0, []
    for line in (reports / "summary").read_text().splitlines():
        result, _, _, name = line.split(maxsplit=3)
        passed, failed = count(reports / REPORTS[name]) if name in REPORTS else (0, [])
        if result == "FAILED" and not failed:
            failed = [name]
        # A test that is repeated under the sanitizers is counted once.
        total_passed += passed if name in COUNTED else 0
        all_failed += failed
    for name in all_failed:
        print(f"FAILED     {name}")
    print(f"{total_passed} passed, {len(all_failed)} failed")
    return int(bool(all_failed))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
