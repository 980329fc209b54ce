"""Two ways of doing one thing, timed in turns; what is told is their ratio."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass
class Ratio:
    """Ours over theirs. `low` and `high` are the 10th and 90th percentile of the pairs. The target
    is the most it should be, or the least where `at_least`."""

    name: str
    median: float
    low: float
    high: float
    target: float
    ours: float
    theirs: float
    unit: str
    pairs: int
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.median >= self.target if self.at_least else self.median <= self.target

    def to_json(self) -> dict:
        return {**asdict(self), "met": self.met}


@dataclass
class Effort:
    """Pairs are timed until there are `max_pairs`, or `seconds` have passed and there are
    `min_pairs`."""

    seconds: float = 30.0
    min_pairs: int = 9
    max_pairs: int = 1000
    warmup: int = 3


QUICK = Effort(seconds=4.0, min_pairs=5, max_pairs=200, warmup=2)


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name: str, *, ours: Callable, theirs: Callable, target: float, effort: Effort) -> Ratio:
    """Each pair runs back to back, and the order changes from pair to pair, so that a slow
    moment of the machine and what one leaves in the caches for the other weigh on both alike."""
    for _ in range(effort.warmup):
        theirs()
        ours()
    pairs = []
    collecting = gc.isenabled()
    gc.disable()
    deadline = time.perf_counter() + effort.seconds
    try:
        while len(pairs) < effort.max_pairs:
            if len(pairs) >= effort.min_pairs and time.perf_counter() > deadline:
                break
            if len(pairs) % 2:
                mine = seconds_of(ours)
                other = seconds_of(theirs)
            else:
                other = seconds_of(theirs)
                mine = seconds_of(ours)
            pairs.append((mine, other))
    finally:
        if collecting:
            gc.enable()
    return summary(name, pairs, target)


def summary(
    name: str,
    pairs: list[tuple[float, float]],
    target: float,
    *,
    unit: str = "ms",
    scale: float = 1e3,
    at_least: bool = False,
) -> Ratio:
    ratios = sorted(mine / other for mine, other in pairs)
    tenths = statistics.quantiles(ratios, n=10, method="inclusive") if ratios[1:] else ratios
    return Ratio(
        name=name,
        median=statistics.median(ratios),
        low=tenths[0],
        high=tenths[-1],
        target=target,
        ours=statistics.median(mine for mine, _ in pairs) * scale,
        theirs=statistics.median(other for _, other in pairs) * scale,
        unit=unit,
        pairs=len(pairs),
        at_least=at_least,
    )
