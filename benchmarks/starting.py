"""The digits walkthrough on three providers: an epoch's time over that of one process on one
thread, and the seconds from the last provider's start (its imports apart) to the first update."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import zoo
from _compare import Effort, Ratio, summary
from _pool import free_ports, write_pool
from pipeline import flags, run

import ravnest

WORKER = Path(__file__).with_name("starting_worker.py")
EPOCHS = 30


@contextlib.contextmanager
def planned() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="ravnest-bench-") as folder:
        machine = {"ram": 16, "bandwidth": 100}
        nodes = write_pool(folder, [f"127.0.0.1:{port}" for port in free_ports(3)], machine)
        ravnest.clusterize(
            zoo.CNN_Net(), (torch.rand(64, 1, 8, 8),), nodes=nodes, out=folder, verbose=False
        )
        yield folder


def train(folder: str, epochs: int) -> list[dict]:
    return run([flags(name=f"node_{i}", node_data=folder, epochs=epochs) for i in range(3)], WORKER)


def measure_epochs(effort: Effort) -> list[Ratio]:
    pairs = []
    with planned() as folder:
        for _ in range(3 if effort.min_pairs < 9 else 7):
            alone = run([flags(epochs=EPOCHS)], WORKER)[0]["epoch"]
            pairs.append((max(each["epoch"] for each in train(folder, EPOCHS)), alone))
    return [summary("walkthrough/epoch", pairs, 1.0)]


def measure_start(effort: Effort) -> list[Ratio]:
    """The ratio is over the two seconds that it may take."""
    pairs = []
    with planned() as folder:
        for _ in range(3 if effort.min_pairs < 9 else 7):
            told = train(folder, 1)
            last = max(each["ready"] for each in told)
            pairs.append((max(each["update"] for each in told) - last, 2.0))
    return [summary("start/first update", pairs, 1.0)]
