"""The digits walkthrough on three providers: an epoch's time over that of one process on one
thread, the seconds from the last provider's start (its imports apart) to the first update, and
those from Ctrl-C on one of them to the end of the last."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
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
PATIENCE = 60.0  # seconds; whatever takes longer hangs


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


def seconds_to_end(folder: str, victim: int) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    losses = Path(folder, "losses.txt")
    losses.unlink(missing_ok=True)
    providers = [
        subprocess.Popen(
            [sys.executable, WORKER, *flags(name=f"node_{i}", node_data=folder, epochs=100_000)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i in range(3)
    ]
    try:
        deadline = time.monotonic() + PATIENCE
        while not losses.exists() or losses.stat().st_size == 0:
            if time.monotonic() > deadline or any(each.poll() is not None for each in providers):
                raise RuntimeError("[benchmarks] expected three providers that train.")
            time.sleep(0.01)
        start = time.perf_counter()
        providers[victim].send_signal(signal.SIGINT)
        for each in providers:
            each.wait(PATIENCE)
        return time.perf_counter() - start
    finally:
        for each in providers:
            each.kill()
            each.wait()


def measure_end(effort: Effort) -> list[Ratio]:
    """The ratio is over the two seconds that it may take."""
    with planned() as folder:
        count = 3 if effort.min_pairs < 9 else 9
        pairs = [(seconds_to_end(folder, i % 3), 2.0) for i in range(count)]
    return [summary("end/Ctrl-C", pairs, 1.0)]
