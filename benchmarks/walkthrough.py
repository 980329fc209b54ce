"""How well the walkthrough learns: three scripts, as a user starts them, for each of several seeds.

    python benchmarks/walkthrough.py [--seeds 5] [--epochs 100]

Prints for every seed the accuracy of the fused model in plain PyTorch, the greatest delay that a
stage recorded against its bound, and the time. Fails where a seed stays below 96 % or a delay
reaches its bound.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _pool import free_ports, write_pool

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "walkthrough"
STAGES = 3
LEAST = 96.0
PATIENCE = 600  # seconds, for all providers of a seed


@dataclass
class Outcome:
    accuracy: float
    delays: list[int]  # greatest, from root to leaf
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.accuracy >= LEAST and all(
            delay < bound for delay, bound in zip(self.delays, bounds(), strict=True)
        )


def bounds() -> list[int]:
    """A stage with n stages from itself to the leaf has fewer than 2n updates of delay, the leaf
    none."""
    return [2 * (STAGES - stage) for stage in range(STAGES - 1)] + [1]


def script(folder: Path, *words: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said_by(process: subprocess.Popen) -> str:
    said, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:
        raise RuntimeError(f"a script ended with exit code {process.returncode}:\n{said}")
    return said


def find(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    if found is None:
        raise RuntimeError(f"expected '{pattern}' in:\n{said}")
    return found.group(1)


def run(seed: int, epochs: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="ravnest-bench-") as place:
        folder = Path(place)
        for path in EXAMPLE.glob("*.py"):
            shutil.copy(path, folder)
        machine = {"ram": 8, "bandwidth": 10}
        (folder / "node_data").mkdir()
        addresses = [f"127.0.0.1:{port}" for port in free_ports(STAGES)]
        write_pool(folder / "node_data", addresses, machine)
        said_by(script(folder, "cluster_formation.py", seed))
        start = time.monotonic()
        providers = [
            script(folder, "provider.py", f"node_{i}", epochs, seed) for i in reversed(range(3))
        ]
        said = "".join(said_by(each) for each in providers)
        seconds = time.monotonic() - start
        delays = [
            int(find(rf"\({role}\): trained .* greatest delay (\d+)", said))
            for role in ("root", "stem", "leaf")
        ]
        fused = said_by(script(folder, "evaluate.py"))
        return Outcome(float(find(r"in plain PyTorch: ([\d.]+) %", fused)), delays, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--epochs", type=int, default=100)
    flags = parser.parse_args()
    print(f"seed  accuracy  greatest delays (bounds {bounds()}, not reached)  seconds", flush=True)
    outcomes = []
    for seed in range(1, flags.seeds + 1):
        outcome = run(seed, flags.epochs)
        outcomes.append(outcome)
        verdict = "" if outcome.is_good else "   SHORT"
        print(
            f"{seed:>4}  {outcome.accuracy:>6.2f} %  {outcome.delays!s:<44}  "
            f"{outcome.seconds:>7.1f}{verdict}",
            flush=True,
        )
    good = sum(outcome.is_good for outcome in outcomes)
    print(f"{good} of {len(outcomes)} reach {LEAST:g} % with delays within their bounds")
    return 0 if good == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
