"""`ravnest submit job.toml`: trains what a file describes, and feeds it until it is trained.

    server = "192.168.1.10:7777"    # without one, this machine trains
    name = "digits"
    model = "digits.pt2"            # captured with its loss; or entry = "train.py:make"
    out = "trained_state_dict.pt"   # gets the weights, where it is given

    [data]                          # of a model
    file = "digits.safetensors"
    inputs = ["images"]             # names of tensors, or { argument = "name" }
    target = "labels"
    batch = 64
    shuffle = true
    validation = 0.2                # share of the samples: the last ones

    [fit]                           # parameters of ravnest.fit, by their names
    epochs = 30

Paths are relative to the file. An entry is a function that gives fit's arguments as a dict.
"""

import argparse
import importlib.util
import inspect
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ravnest import _C
from ravnest.fit import fit
from ravnest.program import Program
from ravnest.seed import current_seed

_OURS = {"model", "train_loader", "val_loader", "criterion", "server", "token", "name", "job"}
_OURS |= {"callbacks", "on_submit", "quiet"}
_FIT = inspect.signature(fit).parameters.keys() - _OURS
_ENTRY = {"model", "train_loader", "val_loader", "criterion", "callbacks"}
FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Table:
    """A table of the file: every key is known and of its type."""

    def __init__(self, values: Any, place: str, known: dict[str, type | tuple]):
        self._place = place
        if not isinstance(values, dict):
            raise ValueError(f"[submit] expected {place} to be a table, got {values!r}.")
        for key, value in values.items():
            if key not in known:
                raise ValueError(
                    f"[submit] expected {place} to have {', '.join(known)}, got '{key}'."
                )
            is_flag = isinstance(value, bool)
            if not isinstance(value, known[key]) or is_flag and known[key] is not bool:
                raise ValueError(f"[submit] expected another '{key}' in {place}, got {value!r}.")
        self._values = values

    def find(self, key: str, default: Any = None) -> Any:
        return self._values.get(key, default)

    def get(self, key: str) -> Any:
        if key not in self._values:
            raise ValueError(f"[submit] expected '{key}' in {self._place}, got none.")
        return self._values[key]


class Batches:
    """A loader over tensors, in an order of its own each time where a seed is given."""

    def __init__(self, inputs: Any, target: torch.Tensor, size: int, seed: int | None):
        self._inputs = inputs
        self._target = target
        self._size = size
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return -(-len(self._target) // self._size)

    def __iter__(self) -> Iterator:
        count = len(self._target)
        order = torch.arange(count)
        if self.generator is not None:
            order = torch.randperm(count, generator=self.generator)
        for index in order.split(self._size):
            yield _each(self._inputs, lambda x, index=index: x[index]), self._target[index]


def _each(inputs: Any, change: Callable) -> Any:
    if isinstance(inputs, dict):
        return {name: change(value) for name, value in inputs.items()}
    return tuple(change(value) for value in inputs)


def find_file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ValueError(f"[submit] expected a file '{path}', got none.")
    return path


def read_data(table: Table, folder: Path, seed: int) -> dict[str, Batches]:
    """The loaders that the file's [data] describes."""
    path = find_file(folder, table.get("file"))
    tensors = _C.read_safetensors(os.fspath(path))

    def find(name: Any) -> torch.Tensor:
        if not isinstance(name, str) or name not in tensors:
            raise ValueError(
                f"[submit] expected '{path}' to have {name!r}, got {', '.join(sorted(tensors))}."
            )
        return tensors[name]

    target = find(table.get("target"))
    inputs = _each(table.get("inputs"), find)
    count = target.shape[0] if target.dim() else 0
    for each in [target, *(inputs.values() if isinstance(inputs, dict) else inputs)]:
        if count == 0 or each.dim() == 0 or each.shape[0] != count:
            raise ValueError(
                f"[submit] expected as many samples in each tensor of '{path}', got "
                f"{count} targets and a tensor of {list(each.shape)}."
            )
    batch, share = table.get("batch"), table.find("validation", 0.0)
    if batch < 1 or not 0.0 <= share < 1.0:
        raise ValueError(
            f"[submit] expected a batch of 1 or more and a validation from 0 to 1, got {batch} and "
            f"{share}."
        )
    cut = count - round(count * share)
    if cut < 1:
        raise ValueError(f"[submit] expected samples to train with, got {count} in all.")
    order = seed if table.find("shuffle", False) else None
    first = _each(inputs, lambda x: x[:cut])
    loaders = {"train_loader": Batches(first, target[:cut], batch, order)}
    if cut < count:
        rest = _each(inputs, lambda x: x[cut:])
        loaders["val_loader"] = Batches(rest, target[cut:], batch, None)
    return loaders


def call_entry(entry: str, folder: Path) -> dict[str, Any]:
    """What the user's own function gives: arguments of fit."""
    path, colon, name = entry.rpartition(":")
    if not colon:
        raise ValueError(f"[submit] expected an entry such as 'train.py:make', got {entry!r}.")
    file = find_file(folder, path)
    sys.path.insert(0, os.fspath(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(make := getattr(module, name, None)):
        raise ValueError(f"[submit] expected a function '{name}' in '{file}', got none.")
    given = make()
    if not isinstance(given, dict) or not given.keys() <= _ENTRY:
        got = sorted(given.keys() - _ENTRY) if isinstance(given, dict) else type(given).__name__
        raise ValueError(
            f"[submit] expected '{entry}' to give a dict of {', '.join(sorted(_ENTRY))}, got {got}."
        )
    return given


def read_file(path: Path) -> Table:
    try:
        values = tomllib.loads(find_file(Path(), path).read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"[submit] expected '{path}' to be TOML: {error}.") from None
    texts = dict.fromkeys(("server", "name", "model", "entry", "out"), str)
    return Table(values, f"'{path}'", {**texts, "data": dict, "fit": dict})


def read_job(path: Path) -> tuple[dict[str, Any], Path | None]:
    """The arguments of fit, and where the weights go."""
    job = read_file(path)
    options = job.find("fit", {})
    Table(options, "[fit]", dict.fromkeys(sorted(_FIT), object))
    arguments = {**options, "server": job.find("server"), "name": job.find("name", path.stem)}
    if (job.find("model") is None) == (job.find("entry") is None):
        raise ValueError(f"[submit] expected '{path}' to have either a model or an entry.")
    if job.find("entry") is not None:
        if job.find("data") is not None:
            raise ValueError("[submit] expected no [data] beside an entry, which gives loaders.")
        arguments |= call_entry(job.get("entry"), path.parent)
    else:
        known = {"file": str, "inputs": (list, dict), "target": str, "batch": int}
        known |= {"shuffle": bool, "validation": (float, int)}
        data = Table(job.get("data"), "[data]", known)
        arguments["model"] = Program.load(find_file(path.parent, job.get("model")))
        arguments |= read_data(data, path.parent, options.get("seed", current_seed()))
    out = job.find("out")
    return arguments, None if out is None else path.parent / out


def train(flags: argparse.Namespace) -> None:
    arguments, out = read_job(flags.file)
    arguments["server"] = flags.server or arguments["server"]
    run = fit(
        **arguments,
        token=flags.token,
        job=flags.job,
        quiet=flags.quiet,
        on_submit=lambda number: print(f"job {number}", flush=True),
    )
    if out is not None:
        new = out.with_name(out.name + ".new")
        torch.save(run.state_dict(), new)
        new.replace(out)


def detach(flags: argparse.Namespace) -> int:
    """Feeds the job from a process of its own, once it has a number."""
    if not flags.server and read_file(flags.file).find("server") is None:
        raise ValueError("[submit] expected a server to detach from, got none.")
    words = [sys.executable, "-m", "ravnest.submit", os.fspath(flags.file)]
    words += ["--quiet"] if flags.quiet else []
    words += [f"--{key}={value}" for key in ("server", "job") if (value := getattr(flags, key))]
    log = flags.file.with_suffix(".log")
    with log.open("wb") as said:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | ({"RAVNEST_TOKEN": flags.token} if flags.token else {}),
            start_new_session=True,
            text=True,
        )
    line = child.stdout.readline()
    if not line:
        sys.stderr.write(log.read_text(errors="replace"))
        return child.wait()
    print(line, end="")
    print(f"fed by process {child.pid}; what it says is in {log}", file=sys.stderr)
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("ravnest submit", description="Train what a file describes")
    parser.add_argument("file", type=Path, help="job.toml; see docs/training.md")
    parser.add_argument("--server", help="HOST:PORT, in place of the file's")
    parser.add_argument("--token", help="of a requester; default: $RAVNEST_TOKEN")
    parser.add_argument("--job", type=int, help="come back to this job, which was cut off")
    parser.add_argument("--detach", action="store_true", help="return once it has its number")
    parser.add_argument("--quiet", action="store_true", help="only print the job's number")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    flags = parse(words)
    try:
        if flags.detach:
            return detach(flags)
        train(flags)
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except ValueError as error:
        print(f"ravnest: {error}", file=sys.stderr)
        return BAD_INPUT
    except (OSError, RuntimeError) as error:
        print(f"ravnest: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
