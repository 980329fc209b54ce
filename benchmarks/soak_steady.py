"""A long run of three providers: do memory, descriptors and threads stay what they are?

    python benchmarks/soak_steady.py [--passes 100000]

Samples every provider's process once a second. Exits with 1 where the run's second half has more
threads or descriptors at once than its first, or its last tenth 2 % and 4 MB more memory than its
second.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import pipeline
import starting

GROWTH = 1.02
LEAST_KB = 4096


def sample(pid: int) -> tuple[int, int, int]:
    """Resident kilobytes, descriptors, threads."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    return (
        int(values["VmRSS"].split()[0]),
        len(os.listdir(f"/proc/{pid}/fd")),
        int(values["Threads"]),
    )


def watch(processes: dict[str, subprocess.Popen]) -> dict[str, list[tuple[int, int, int]]]:
    samples = {name: [] for name in processes}
    while all(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            try:
                samples[name].append(sample(process.pid))
            except (OSError, KeyError):  # it has just ended
                continue
        time.sleep(1.0)
    return samples


def judge(name: str, samples: list[tuple[int, int, int]]) -> bool:
    tenth = max(len(samples) // 10, 1)
    early, late = samples[tenth : 2 * tenth], samples[-2 * tenth : -tenth]
    before = [statistics.median(each) for each in zip(*early, strict=True)]
    after = [statistics.median(each) for each in zip(*late, strict=True)]
    grew = after[0] - before[0] > LEAST_KB and after[0] > GROWTH * before[0]
    half = len(samples) // 2
    first = [max(each) for each in zip(*samples[:half], strict=True)]
    second = [max(each) for each in zip(*samples[half:], strict=True)]
    holds = not grew and second[1] <= first[1] and second[2] <= first[2]
    print(
        f"{name}: {before[0] / 1024:.1f} -> {after[0] / 1024:.1f} MB, "
        f"{first[1]} -> {second[1]} descriptors, {first[2]} -> {second[2]} threads"
        f"{'' if holds else '  GREW'}"
    )
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=100_000)
    options = parser.parse_args()
    epochs = -(-options.passes // 17)  # batches of an epoch
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with starting.planned() as folder:
        processes = {
            f"node_{i}": subprocess.Popen(
                [sys.executable, str(starting.WORKER)]
                + pipeline.flags(name=f"node_{i}", node_data=folder, epochs=epochs),
                stdout=subprocess.DEVNULL,
                env=environment,
            )
            for i in range(3)
        }
        start = time.perf_counter()
        try:
            samples = watch(processes)
            codes = [process.wait(60) for process in processes.values()]
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        print(f"{epochs * 17} passes in {time.perf_counter() - start:.0f} s, exit codes {codes}")
    held = [judge(name, each) for name, each in samples.items()]
    return 0 if all(held) and not any(codes) else 1


if __name__ == "__main__":
    sys.exit(main())
