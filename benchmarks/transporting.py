"""The transport against plain TCP, as transport_bench measures it: tensors, and round trips."""

import json
import subprocess
from pathlib import Path

from _compare import Effort, Ratio

PROGRAM = Path(__file__).resolve().parents[1] / "build/release/benchmarks/transport_bench"
# transport_bench's name, ours, the target, whether it is the least.
FIGURES = {
    "16 MB tensors": ("transport/16 MB", 0.85, True),
    "16 MB tensors, TCP in pieces": ("transport/16 MB, 64 KiB reads", 0.85, True),
    "4 KB round trip": ("transport/4 KB round trip", 4.0, False),
}


def measure(effort: Effort) -> list[Ratio]:
    pairs = max(effort.min_pairs, 3)
    words = [PROGRAM, "--json", "--pairs", str(pairs)]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=600).stdout
    figures = {each["name"]: each for each in map(json.loads, said.splitlines())}
    return [
        Ratio(
            name=name,
            median=figure["ratio"],
            low=figure["p10"],
            high=figure["p90"],
            target=target,
            ours=figure["ours"],
            theirs=figure["tcp"],
            unit=figure["unit"],
            pairs=pairs,
            at_least=at_least,
        )
        for figure, (name, target, at_least) in (
            (figures[theirs], ours) for theirs, ours in FIGURES.items()
        )
    ]
