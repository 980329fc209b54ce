"""The planner: how fast it is, and how much better than parts of equal size.

    python benchmarks/planning.py [--json]

Three machines with RAM 4:8:16 and speed 1:2:4: the slowest stage of our plan over that of
the same order of machines with parameters split equally, which is what the Python Ravnest
does. And the time to plan for 3, 100 and 10,000 machines and to simulate 1,000.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import torch  # noqa: E402
import zoo  # noqa: E402

import ravnest  # noqa: E402

COMMAND = ROOT / ".venv/bin/ravnest"
SPEEDS = (25, 50, 100)  # GFLOP/s


def three_machines():
    return {
        str(i): {
            "IP": f"node-{i}:1",
            "benchmarks": {"ram": 4 * 2**i, "bandwidth": 1000, "speed": SPEEDS[i]},
        }
        for i in range(3)
    }


def random_pool(count):
    """Machines that are all different: the hardest for the planner."""
    draw = random.Random(1)
    return {
        str(i): {
            "IP": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}:8080",
            "benchmarks": {
                "ram": round(draw.uniform(2, 64), 2),
                "bandwidth": round(draw.uniform(5, 1000), 1),
                "speed": round(draw.uniform(10, 900), 1),
            },
        }
        for i in range(count)
    }


def flops_of(program):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stage.pt2"
        program.save(file)
        found = json.loads(subprocess.check_output([COMMAND, "inspect", file, "--json"]))
    return found["flops"]["forward"] + found["flops"]["backward"]


def equal_parameter_cuts(program):
    """Ops before which a third and two thirds of the parameters have been used."""
    sizes = [
        sum(p.numel() for p in part.parameters().values())
        for part in program.slice(list(range(1, program.num_ops)))
    ]
    total = sum(sizes)
    cuts = []
    so_far = 0
    for index, size in enumerate(sizes):
        so_far += size
        if so_far >= total * (len(cuts) + 1) / 3 and len(cuts) < 2 and index + 1 < len(sizes):
            cuts.append(index + 1)
    return cuts


def against_equal_parameters(name, model, inputs):
    program = ravnest.capture(model.train(), (inputs,))
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool.json"
        pool.write_text(json.dumps(three_machines()))
        plan = ravnest.clusterize(program, nodes=pool, out=None, verbose=False)
    ours = max(s["forward_seconds"] + s["backward_seconds"] for s in plan.clusters[0]["stages"])
    stages = program.slice(equal_parameter_cuts(program))
    theirs = max(
        flops_of(stage) / (speed * 1e9) for stage, speed in zip(stages, SPEEDS, strict=True)
    )
    return {
        "what": f"slowest stage, {name}",
        "ratio": ours / theirs,
        "target": 0.6,
        "ours_s": ours,
        "theirs_s": theirs,
    }


def timed(arguments):
    """Seconds, and the most memory that was seen in use."""
    start = time.perf_counter()
    process = subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            most = max(most, int(status.split("VmHWM:")[1].split()[0]))
        except (OSError, IndexError):
            pass
        time.sleep(0.002)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise RuntimeError(f"ravnest ended with {process.returncode}")
    return seconds, most / 1024


def times(folder):
    model = Path(folder) / "model.pt2"
    deep = torch.nn.Sequential(
        *(
            torch.nn.Sequential(
                torch.nn.Linear(64 + 8 * (i % 5), 64 + 8 * ((i + 1) % 5)), torch.nn.ReLU()
            )
            for i in range(200)
        )
    )
    program = ravnest.capture(deep, (torch.rand(16, 64),))
    program.save(model)
    base, _ = timed(["inspect", model, "--json"])
    for machines, target in ((3, 0.2), (100, 1.0), (10_000, 10.0)):
        pool = Path(folder) / f"pool{machines}.json"
        pool.write_text(json.dumps(random_pool(machines)))
        seconds, memory = timed(
            ["clusterize", "--model", model, "--nodes", pool, "--dry-run", "--json"]
        )
        yield {
            "what": f"plan, {machines} machines, {program.num_ops} operators",
            "seconds": seconds - base,
            "target": target,
            "memory_mb": memory,
        }
    pool = Path(folder) / "pool1000.json"
    pool.write_text(json.dumps(random_pool(1000)))
    planning, _ = timed(["clusterize", "--model", model, "--nodes", pool, "--dry-run", "--json"])
    seconds, memory = timed(
        ["simulate", "--model", model, "--nodes", pool, "--minutes", 10, "--json"]
    )
    yield {
        "what": "simulate 10 minutes of 1,000 machines",
        "seconds": seconds - planning,
        "target": 30.0,
        "memory_mb": memory,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = [
        against_equal_parameters(
            "ResNet-50", zoo.resnet50(num_classes=10), torch.randn(16, 3, 64, 64)
        ),
        against_equal_parameters(
            "GPT",
            zoo.GPT(layers=6, width=256, heads=8, seq=128, vocab=1000),
            torch.randint(0, 1000, (16, 128)),
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        found += times(folder)
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for each in found:
        value = each.get("ratio", each.get("seconds"))
        unit = "" if "ratio" in each else " s"
        memory = f", {each['memory_mb']:.0f} MB" if "memory_mb" in each else ""
        verdict = "met" if value <= each["target"] else "SHORT"
        print(
            f"{each['what']:<44} {value:>7.3f}{unit}  (<= {each['target']}{unit}) {verdict}{memory}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
