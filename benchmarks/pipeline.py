"""Samples per second of two stages over gRPC, over twice those of one process on one thread.

torch.distributed.pipelining (gloo) runs beside them: the best of GPipe and 1F1B, with 4 and 8
micro-batches. Every process has one thread. See pipeline_worker.py for what they do.
"""

import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from _compare import Effort, Ratio, seconds_of, summary
from _pool import free_ports, write_pool
from pipeline_worker import make_work

import ravnest

WORKER = Path(__file__).with_name("pipeline_worker.py")


@dataclass
class Load:
    passes: int
    warmup: int
    target: float


MODELS = {
    "gpt": Load(passes=40, warmup=16, target=0.92),
    "resnet18": Load(passes=24, warmup=10, target=0.92),
    "cnn": Load(passes=3000, warmup=300, target=0.60),
}
TORCH_FORMS = [("gpipe", 4), ("gpipe", 8), ("1f1b", 4), ("1f1b", 8)]


def flags(**options: object) -> list[str]:
    return [
        part
        for name, value in options.items()
        for part in ([f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)]))
        if value is not None and value is not False
    ]


def run(commands: Sequence[list[str]], worker: Path = WORKER) -> list[dict]:
    """The processes side by side, each on one thread; what each printed at its end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = []
    try:
        for command in commands:
            at = next((i + 1 for i, part in enumerate(command) if part == "--"), 0)
            whole = [*command[: max(at - 1, 0)], sys.executable, str(worker), *command[at:]]
            running.append(subprocess.Popen(whole, stdout=subprocess.PIPE, env=environment))
        said = [process.communicate(timeout=600)[0] for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    if any(process.returncode for process in running):
        raise RuntimeError(f"[benchmarks] a process failed: {commands}")
    return [json.loads(text.splitlines()[-1]) if text.strip() else {} for text in said]


def rate(result: dict) -> float:
    return result["samples"] / result["seconds"]


@functools.cache
def gflops() -> float:
    """Of this machine on one thread."""
    a = torch.rand(1024, 1024)
    times = [seconds_of(lambda: a @ a) for _ in range(9)]
    return round(2 * 1024**3 / statistics.median(times) / 1e9, 1)


@contextlib.contextmanager
def planned(
    model: str,
    addresses: Sequence[str] = (),
    *,
    bandwidth: int = 10_000,
    clusters: int = 1,
    tied: bool = False,
    with_loss: bool = False,
) -> Iterator[tuple[str, ravnest.Plan]]:
    """A plan for two machines in a folder of its own: two stages, balanced by measured times, or
    two clusters of one stage."""
    with tempfile.TemporaryDirectory(prefix="ravnest-bench-") as folder:
        hosts = addresses or [f"127.0.0.1:{port}" for port in free_ports(2)]
        machine = {"ram": 64, "bandwidth": bandwidth, "speed": gflops()}
        nodes = write_pool(folder, hosts, machine)
        module, inputs, target, loss_of, _ = make_work(model, tied)
        args = (inputs,)
        if with_loss:
            module = ravnest.capture(module, args, loss=loss_of, target=target)
            args = (inputs, target)
        plan = ravnest.clusterize(
            module, args, pass_data=True, clusters=clusters, nodes=nodes, out=folder, verbose=False
        )
        yield folder, plan


def providers(
    model: str, folder: str, load: Load, *, prefixes: Sequence = ((), ()), **more
) -> list[dict]:
    """The reports of both machines of a plan."""
    commands = [
        [
            *prefix,
            "--",
            "stage",
            *flags(model=model, passes=load.passes, warmup=load.warmup, **more),
            *flags(name=f"node_{i}", node_data=folder),
        ]
        for i, prefix in enumerate(prefixes)
    ]
    return run(commands)


def stages(model: str, folder: str, load: Load, **more) -> dict:
    """Both stages' reports; the leaf's has the time."""
    root, leaf = providers(model, folder, load, **more)
    return {**leaf, "root": root}


def single(model: str, load: Load, tied: bool = False) -> dict:
    given = flags(model=model, passes=load.passes, warmup=load.warmup, tied=tied)
    return run([["single", *given]])[0]


def torch_pipeline(model: str, load: Load, form: tuple[str, int]) -> dict:
    given = flags(
        model=model,
        passes=load.passes,
        warmup=load.warmup,
        torch_schedule=form[0],
        micro_batches=form[1],
        rendezvous=f"tcp://127.0.0.1:{free_ports(1)[0]}",
    )
    return run([["torch", *given, *flags(rank=rank)] for rank in (0, 1)])[1]


def measure(model: str, effort: Effort) -> list[Ratio]:
    load = MODELS[model]
    rounds = 3 if effort.min_pairs < 9 else 5
    ours, theirs = [], {form: [] for form in TORCH_FORMS}
    with planned(model) as (folder, _):
        for index in range(rounds):
            twice = 2 * rate(single(model, load))
            ours.append((rate(stages(model, folder, load)), twice))
            if index < 2:
                for form, pairs in theirs.items():
                    pairs.append((rate(torch_pipeline(model, load, form)), twice))
    best = max(theirs.values(), key=lambda pairs: sum(mine / other for mine, other in pairs))
    told = {"target": load.target, "unit": "samples/s", "scale": 1.0, "at_least": True}
    ratios = [
        summary(f"pipeline/{model}", ours, **told),
        summary(f"pipeline/{model} torch", best, **told),
    ]
    if model == "gpt":
        ratios.append(measure_tied(load, rounds, told))
    return ratios


def measure_tied(load: Load, rounds: int, told: dict) -> Ratio:
    """The GPT whose two ends share a tensor: its gradients and values travel, too."""
    with planned("gpt", tied=True) as (folder, _):
        pairs = [
            (
                rate(stages("gpt", folder, load, tied=True)),
                2 * rate(single("gpt", load, tied=True)),
            )
            for _ in range(rounds)
        ]
    return summary("pipeline/gpt tied", pairs, **told)


def measure_memory(effort: Effort) -> list[Ratio]:
    """Peak of each stage's resident memory beyond that of the process before its start, over what
    the stage must hold: weights for each version, gradients, optimizer, activations in flight."""
    load = MODELS["gpt"]
    pairs: dict[str, list[tuple[float, float]]] = {"root": [], "leaf": []}
    with planned("gpt", with_loss=True) as (folder, plan):
        for _ in range(2 if effort.min_pairs < 9 else 3):
            leaf = stages("gpt", folder, load, with_loss=True)
            found = {"root": leaf["root"], "leaf": leaf}
            for name, stage in zip(found, plan.clusters[0]["stages"], strict=True):
                needed = expected_bytes(stage, found[name]["status"])
                taken = (found[name]["peak_kb"] - found[name]["fixed_kb"]) * 1024
                pairs[name].append((taken / 1e6, needed / 1e6))
                fixed = found[name]["fixed_kb"] / 1024
        print(f"  (fixed cost of a process with Python and torch: {fixed:.0f} MB)", file=sys.stderr)
    return [
        summary(f"memory/stage {name}", each, 1.15, unit="MB", scale=1.0)
        for name, each in pairs.items()
    ]


def expected_bytes(stage: dict, status: dict) -> float:
    memory = stage["memory"]
    older = status["max_delay"]  # versions besides the newest, and passes besides the current one
    each = memory["activations"] / stage["passes_in_flight"]
    return (
        memory["weights"] * (1 + older)
        + memory["gradients"]
        + memory["optimizer"]
        + each * (1 + older)
        + memory["temporary"]
    )
