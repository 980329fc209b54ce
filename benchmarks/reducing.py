"""Averaging over a ring against gloo's all_reduce, among processes of this machine.

    python benchmarks/reducing.py [--json] [--pairs N] [--size N ...] [--members N ...]

Ours moves the values over gRPC, and in the second half through c10d's Gloo (`reduce="gloo"`).
Both sides have their processes started once; then one round of ours and one of gloo take turns,
each timed in every process, and the slowest process counts. Ours is the whole round, from the
offer to the commit, with the agreement and the mean; gloo's is the sum alone, after a barrier.
Needs build/release/benchmarks/reduce_bench, or another folder by --build.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

from _compare import Ratio, summary
from _pool import free_ports

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"grpc": 1.2, "gloo": 1.05}


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
    def __init__(self, program: Path, members: int, size: int, extra: list[str]):
        addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(members))
        self.processes = [
            subprocess.Popen(
                [program, "--rank", str(rank), "--members", addresses, "--size", str(size)]
                + ["--step", *extra],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(members)
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
    program: Path, engine: str, members: int, size: int, pairs: int, warmup: int, extra: list[str]
) -> Ratio:
    flags = [*extra, *(["--gloo"] if engine == "gloo" else [])]
    ours, gloo = Ours(program, members, size, flags), Gloo(members, size)
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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument(
        "--size", type=float, nargs="+", default=[5e6, 11e6, 100e6], help="floats, in turn"
    )
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--engine", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("extra", nargs="*", help="for reduce_bench, after --")
    return parser.parse_args()


def main() -> int:
    options = parse()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    program = options.build / "benchmarks" / "reduce_bench"
    ratios = []
    for engine, members, size in itertools.product(options.engine, options.members, options.size):
        ratio = measure(
            program, engine, members, int(size), options.pairs, options.warmup, options.extra
        )
        ratios.append(ratio)
        if not options.json:
            print(
                f"{ratio.name:<22} {ratio.median:.3f} of gloo "
                f"(10-90 %: {ratio.low:.3f}-{ratio.high:.3f}); ours {ratio.ours:.1f} ms, "
                f"gloo {ratio.theirs:.1f} ms {'met' if ratio.met else 'SHORT'}",
                flush=True,
            )
    if options.json:
        print(json.dumps([ratio.to_json() for ratio in ratios], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
