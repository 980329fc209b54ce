"""What averaging between clusters costs the training: time for a sample with it, over without it.

Two clusters of one provider each train the GPT, each on one thread, and average every 16 updates.
The first averaging, at which clusters wait for each other, is not timed; nor is the last. The slow
link is that of links.py, which needs root.
"""

import os
import sys

from _compare import Effort, Ratio, summary
from _pool import free_ports
from links import namespaces
from pipeline import Load, planned, providers, rate

EVERY = 16
NEVER = 1_000_000
# From the middle between the first and the second averaging on, for three of them.
LOAD = Load(passes=EVERY * 9 // 2 + 5, warmup=EVERY * 3 // 2, target=1.10)
MEGABITS = 100
SLOW = {
    # How it averages there: the most that training may slow down, over loopback. What many do is
    # shown beside what is wanted.
    ("overlapped", "int8"): 1.15,
    ("blocking", "none"): 1.15,
}


def train(folder: str, **more) -> float:
    """Seconds for a sample, both clusters together."""
    return 1 / sum(rate(report) for report in providers("gpt", folder, LOAD, **more))


def on_link(averaging: str, codec: str) -> float:
    hosts = [f"10.77.0.{i + 1}:{port}" for i, port in enumerate(free_ports(2))]
    with (
        namespaces(MEGABITS) as names,
        planned("gpt", hosts, bandwidth=MEGABITS, clusters=2) as (folder, _),
    ):
        return train(
            folder,
            prefixes=[["ip", "netns", "exec", name] for name in names],
            reduce_factor=EVERY,
            averaging=averaging,
            averaging_codec=codec,
        )


def measure(effort: Effort) -> list[Ratio]:
    is_root = os.geteuid() == 0
    if not is_root:
        print("  (averaging on a link: needs root; left out)", file=sys.stderr)
    beside: list[tuple[float, float]] = []
    slow: dict[tuple[str, str], list] = {key: [] for key in SLOW} if is_root else {}
    with planned("gpt", clusters=2) as (folder, _):
        for _ in range(1 if effort.min_pairs < 9 else 5):
            never = train(folder, reduce_factor=NEVER)
            often = train(folder, reduce_factor=EVERY)
            beside.append((often, never))
            for (averaging, codec), pairs in slow.items():
                pairs.append((on_link(averaging, codec), often))
    return [
        summary("averaging/beside training", beside, LOAD.target),
        *(
            summary(f"averaging/{MEGABITS} Mbit/s {' '.join(key)}", pairs, SLOW[key])
            for key, pairs in slow.items()
        ),
    ]
