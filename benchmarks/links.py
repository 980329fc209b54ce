"""Two stages of the GPT on a slow link: samples per second over those on loopback.

Each stage runs in a network namespace of its own; `tc tbf` limits both ends of the link between
them. Needs root. The plan knows the link's bandwidth.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from _compare import Effort, Ratio, summary
from _pool import free_ports
from pipeline import MODELS, Load, planned, rate, stages

# What tbf lets through at once (more than a segment that the kernel has not cut yet), and how long
# a packet may wait.
SHAPE = "burst 128kb latency 400ms"


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


@contextlib.contextmanager
def namespaces(megabits: int) -> Iterator[tuple[str, str]]:
    """The names of two network namespaces with a link of this bandwidth between them."""
    names = tuple(f"ravnest-{os.getpid()}-{side}" for side in "ab")
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        there = ["type", "veth", "peer", "rn0", "netns", names[1]]
        ip("link", "add", "rn0", "netns", names[0], *there)
        for index, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", "rn0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "rn0", "up")
            shape = f"tbf rate {megabits}mbit {SHAPE}".split()
            subprocess.run(
                ["tc", "-n", name, "qdisc", "add", "dev", "rn0", "root", *shape], check=True
            )
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


def on_link(megabits: int, codec: str, load: Load) -> dict:
    hosts = [f"10.77.0.{i + 1}:{port}" for i, port in enumerate(free_ports(2))]
    with (
        namespaces(megabits) as names,
        planned("gpt", hosts, bandwidth=megabits) as (folder, _),
    ):
        prefixes = [["ip", "netns", "exec", name] for name in names]
        return stages("gpt", folder, load, prefixes=prefixes, codec=codec)


def measure_foretold(effort: Effort) -> list[Ratio]:
    """How far the simulator is off, over the fifth that it may be."""
    load = MODELS["gpt"]
    off = []
    for _ in range(2 if effort.min_pairs < 9 else 5):
        hosts = [f"10.77.0.{i + 1}:{port}" for i, port in enumerate(free_ports(2))]
        with (
            namespaces(20) as names,
            planned("gpt", hosts, bandwidth=20) as (folder, plan),
        ):
            prefixes = [["ip", "netns", "exec", name] for name in names]
            measured = rate(stages("gpt", folder, load, prefixes=prefixes))
            foretold = plan.simulate(minutes=2).samples_per_second
        print(f"  (20 Mbit/s: {measured:.2f} samples/s, {foretold:.2f} foretold)", file=sys.stderr)
        off.append((abs(measured / foretold - 1.0), 0.2))
    return [summary("link/foretold at 20 Mbit/s", off, 1.0, unit="off", scale=1.0)]


def measure(effort: Effort) -> list[Ratio]:
    if os.geteuid() != 0:
        print("  (link: needs root, for network namespaces; left out)", file=sys.stderr)
        return []
    load = MODELS["gpt"]
    pairs: dict[tuple[int, str], list] = {(100, "none"): [], (20, "int8"): []}
    with planned("gpt") as (folder, _):
        for _ in range(2 if effort.min_pairs < 9 else 5):
            loopback = rate(stages("gpt", folder, load))
            for (megabits, codec), each in pairs.items():
                each.append((rate(on_link(megabits, codec, load)), loopback))
    return [
        summary(
            f"link/{megabits} Mbit/s {codec}",
            each,
            0.95 if codec == "none" else 0.90,
            unit="samples/s",
            scale=1.0,
            at_least=True,
        )
        for (megabits, codec), each in pairs.items()
    ]
