"""Reading a .pt2 of 100 MB of weights over reading the file's bytes, both from warm cache.

Weights may be mapped and not read at all until they are used. So that this does not
pass for speed, the second ratio has both sides look at every weight as well.
"""

import tempfile
from pathlib import Path

import torch
from _compare import Effort, Ratio, compare
from torch import nn

import ravnest

WIDTH = 1000
LAYERS = 25  # of WIDTH x WIDTH floats: 100 MB
TARGET = 1.5


def write_model(path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    ravnest.capture(model, args=(torch.randn(2, WIDTH),)).save(path)


def total(tensors) -> float:
    return sum(tensor.detach().sum().item() for tensor in tensors)


def measure(effort: Effort) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        write_model(path)
        return [measure_reading(path, effort), measure_using(path, effort)]


def reader(path: Path):
    """Reads the file into memory that is there already."""
    buffer = bytearray(path.stat().st_size)

    def read() -> bytearray:
        with path.open("rb", buffering=0) as file:
            view, done = memoryview(buffer), 0
            while count := file.readinto(view[done:]):
                done += count
        if done != len(buffer):
            raise RuntimeError(f"[benchmarks] expected {len(buffer)} bytes, got {done}.")
        return buffer

    return read


def measure_reading(path: Path, effort: Effort) -> Ratio:
    return compare(
        "read/100MB",
        ours=lambda: ravnest.Program.load(path),
        theirs=reader(path),
        target=TARGET,
        effort=effort,
    )


def measure_using(path: Path, effort: Effort) -> Ratio:
    read = reader(path)

    def read_and_use():
        data = read()
        return total([torch.frombuffer(data, dtype=torch.float32, count=len(data) // 4)])

    return compare(
        "read/100MB_and_use",
        ours=lambda: total(ravnest.Program.load(path).parameters().values()),
        theirs=read_and_use,
        target=TARGET,
        effort=effort,
    )
