"""Adds up JUnit reports and prints the last line of `make test`; fails when a test failed."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(report: Path) -> tuple[int, int]:
    """Passed and failed tests of a report; a report that is not there is one failure."""
    if not report.exists():
        return 0, 1
    passed = failed = 0
    for case in ElementTree.parse(report).iter("testcase"):
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        failed += bad
        passed += not bad
    return passed, failed


counts = [count(Path(name)) for name in sys.argv[1:]]
total_passed = sum(passed for passed, _ in counts)
total_failed = sum(failed for _, failed in counts)
print(f"{total_passed} passed, {total_failed} failed")
sys.exit(total_failed > 0)
