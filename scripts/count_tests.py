"""Adds up the reports of `make test` and prints its last line; fails when anything failed.

A skipped test counts as failed: what is not run is not known to work. A part without tests of
its own to count (sanitizers, fuzzing, lint) counts as one failure when it fails.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

COUNTED = {"C++": "ctest-release.xml", "Python": "pytest.xml"}


def count(report: Path) -> tuple[int, int]:
    """Passed and failed tests of a JUnit report; none if it was not written."""
    if not report.exists():
        return 0, 0
    bad = [
        any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        for case in ElementTree.parse(report).iter("testcase")
    ]
    return bad.count(False), bad.count(True)


def main(reports: Path) -> int:
    total_passed = total_failed = 0
    for line in (reports / "summary").read_text().splitlines():
        result, _, _, name = line.split(maxsplit=3)
        passed, failed = count(reports / COUNTED[name]) if name in COUNTED else (0, 0)
        if result == "FAILED" and failed == 0:
            failed = 1
        total_passed += passed
        total_failed += failed
    print(f"{total_passed} passed, {total_failed} failed")
    return int(total_failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
