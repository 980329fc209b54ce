"""Averaging over a ring against gloo's all_reduce, among processes of this machine.

    python benchmarks/reducing.py [--json] [--pairs N] [--size N ...] [--members N ...]

Ours moves the values over gRPC, and in the second half through c10d's Gloo (`reduce="gloo"`).
Both sides have their processes started once; then one round of ours and one of gloo take turns,
each timed in every process, and the slowest process counts. Ours is the whole round, from the
offer to the commit, with the agreement and the mean; gloo's is the sum alone, after a barrier.
Needs build/release/benchmarks/reduce_bench, or another folder by --build.

As root it also counts what two members in network namespaces of their own send, all frames and
acknowledgements included, over the least that a ring must: 2(R-1)/R of the values' width.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from _compare import Effort, Ratio, summary
from _pool import free_ports
from links import namespaces

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path("benchmarks", "reduce_bench")
TARGETS = {"grpc": 1.2, "gloo": 1.05}
SIZES = [5_000_000, 11_000_000, 100_000_000]
MEMBERS = [2, 4]
# Bytes of a value on the wire.
WIDTHS = {"none": 4, "int8": 1}
WIRE_TARGET = 1.02
WIRE_SIZE = 5_000_000
WIRE_MEGABITS = 1000


def gloo_member(rank: int, members: int, port: int, size: int, pipe) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=members
    )
    values = torch.full((size,), float(rank))
    while pipe.recv():
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(values)
        seconds = time.perf_counter() - start
        values /= members
        pipe.send(seconds)
    dist.destroy_process_group()


class Gloo:
    def __init__(self, members: int, size: int):
        context = multiprocessing.get_context("spawn")
        (port,) = free_ports(1)
        self.pipes, self.processes = [], []
        for rank in range(members):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=gloo_member, args=(rank, members, port, size, theirs), daemon=True
            )
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def round(self) -> float:
        for pipe in self.pipes:
            pipe.send(True)
        return max(pipe.recv() for pipe in self.pipes)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(False)
        for process in self.processes:
            process.join()


class Ours:
    def __init__(
        self,
        program: Path,
        hosts: Sequence[str],
        size: int,
        extra: Sequence[str],
        prefixes: Sequence[Sequence[str]] = (),
    ):
        ports = free_ports(len(hosts))
        addresses = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=True))
        self.processes = [
            subprocess.Popen(
                [*prefix, program, "--rank", str(rank), "--members", addresses]
                + ["--size", str(size), "--step", *extra],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank, prefix in enumerate(prefixes or [()] * len(hosts))
        ]

    def round(self) -> float:
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        lines = [json.loads(process.stdout.readline()) for process in self.processes]
        if any(line["members"] != len(self.processes) for line in lines):
            raise RuntimeError(f"[benchmarks] expected all members in a round, got {lines}.")
        return max(line["seconds"] for line in lines)

    def close(self) -> None:
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def measure(
    engine: str,
    members: int,
    size: int,
    *,
    effort: Effort,
    build: Path = ROOT / "build" / "release",
    extra: Sequence[str] = (),
) -> Ratio:
    pairs, warmup = effort.min_pairs, effort.warmup
    flags = [*extra, *(["--gloo"] if engine == "gloo" else [])]
    ours = Ours(build / PROGRAM, ["127.0.0.1"] * members, size, flags)
    gloo = Gloo(members, size)
    times = []
    try:
        for pair in range(-warmup, pairs):
            if pair % 2:
                mine, other = ours.round(), gloo.round()
            else:
                other, mine = gloo.round(), ours.round()
            if pair >= 0:
                times.append((mine, other))
    finally:
        ours.close()
        gloo.close()
    return summary(f"reduce/{engine}/{size / 1e6:g}M/{members}", times, TARGETS[engine])


def sent_bytes(namespace: str) -> int:
    path = "/sys/class/net/rn0/statistics/tx_bytes"
    words = ["ip", "netns", "exec", namespace, "cat", path]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def measure_wire(codec: str, effort: Effort, build: Path = ROOT / "build" / "release") -> Ratio:
    """Megabytes that each of two members sent in a round, as the kernel counted them."""
    least = WIRE_SIZE * WIDTHS[codec]  # 2(R-1)/R is 1
    with namespaces(WIRE_MEGABITS) as names:
        ours = Ours(
            build / PROGRAM,
            [f"10.77.0.{i + 1}" for i in range(len(names))],
            WIRE_SIZE,
            ["--codec", codec, "--trusted"],
            [["ip", "netns", "exec", name] for name in names],
        )
        try:
            ours.round()
            pairs = []
            for _ in range(effort.min_pairs):
                before = sum(map(sent_bytes, names))
                ours.round()
                after = sum(map(sent_bytes, names))
                pairs.append(((after - before) / len(names), least))
        finally:
            ours.close()
    return summary(f"reduce/wire bytes {codec}", pairs, WIRE_TARGET, unit="MB", scale=1e-6)


def measure_wires(effort: Effort, build: Path = ROOT / "build" / "release") -> list[Ratio]:
    if os.geteuid() != 0:
        print("  (wire bytes: needs root, for network namespaces; left out)", file=sys.stderr)
        return []
    return [measure_wire(codec, effort, build) for codec in WIDTHS]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--size", type=float, nargs="+", default=SIZES, help="floats, in turn")
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS)
    parser.add_argument("--wire", action="store_true", help="only count the bytes on the wire")
    parser.add_argument("--engine", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("extra", nargs="*", help="for reduce_bench, after --")
    return parser.parse_args()


def main() -> int:
    options = parse()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    effort = Effort(min_pairs=options.pairs, warmup=options.warmup)
    ratios = []

    def tell(ratio: Ratio) -> None:
        ratios.append(ratio)
        if not options.json:
            print(
                f"{ratio.name:<22} {ratio.median:.3f} "
                f"(10-90 %: {ratio.low:.3f}-{ratio.high:.3f}); ours {ratio.ours:.1f} {ratio.unit}, "
                f"theirs {ratio.theirs:.1f} {ratio.unit} {'met' if ratio.met else 'SHORT'}",
                flush=True,
            )

    works = itertools.product(options.engine, options.members, options.size)
    for engine, members, size in () if options.wire else works:
        given = {"effort": effort, "build": options.build, "extra": options.extra}
        tell(measure(engine, members, int(size), **given))
    for ratio in measure_wires(effort, options.build):
        tell(ratio)
    if options.json:
        print(json.dumps([ratio.to_json() for ratio in ratios], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
