"""The figures: `make bench`, or `python benchmarks/run.py --only step/cnn`.

Everything is measured side by side in one run, on one thread for each process, and told as a ratio:
ours over eager PyTorch's (over plain reading, for files; see docs/benchmarks.md). A median that
does not reach its target is short of it, and the table says so.
"""

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import averaging  # noqa: E402
import codec_loss  # noqa: E402
import links  # noqa: E402
import pipeline  # noqa: E402
import reading  # noqa: E402
import reducing  # noqa: E402
import server  # noqa: E402
import starting  # noqa: E402
import step_memory  # noqa: E402
import step_time  # noqa: E402
import torch  # noqa: E402
import transporting  # noqa: E402
from _compare import QUICK, Effort, Ratio  # noqa: E402
from steps import works  # noqa: E402


def jobs(effort: Effort) -> Iterator[tuple[str, Callable[[], list[Ratio]]]]:
    for work in works():
        yield f"step/{work.name}", lambda work=work: [step_time.measure(work, effort)]
    for work in works():
        yield f"memory/{work.name}", lambda work=work: [step_memory.measure(work, effort)]
    yield "read", lambda: reading.measure(effort)
    for model in pipeline.MODELS:
        yield f"pipeline/{model}", lambda model=model: pipeline.measure(model, effort)
    yield "memory/stage", lambda: pipeline.measure_memory(effort)
    yield "walkthrough", lambda: starting.measure_epochs(effort)
    yield "start", lambda: starting.measure_start(effort)
    yield "end", lambda: starting.measure_end(effort)
    yield "link", lambda: links.measure(effort)
    yield "codec", lambda: codec_loss.measure(effort)
    yield "transport", lambda: transporting.measure(effort)
    for engine, members, size in itertools.product(
        reducing.TARGETS, reducing.MEMBERS, reducing.SIZES
    ):
        name = f"reduce/{engine}/{size / 1e6:g}M/{members}"
        yield (
            name,
            lambda given=(engine, members, size): [reducing.measure(*given, effort=effort)],
        )
    yield "reduce/wire", lambda: reducing.measure_wires(effort)
    yield "averaging", lambda: averaging.measure(effort)
    yield "foretold", lambda: links.measure_foretold(effort)
    for name, measure in server.JOBS.items():
        yield f"server/{name}", lambda measure=measure: measure(effort)


def line(ratio: Ratio) -> str:
    spread = f"{ratio.low:.3f}-{ratio.high:.3f}"
    values = f"{ratio.ours:.2f} / {ratio.theirs:.2f} {ratio.unit}"
    verdict = "met" if ratio.met else "SHORT"
    return (
        f"{ratio.name:<26} {ratio.median:>7.3f} {spread:>13} "
        f"{('>= ' if ratio.at_least else '<= ') + format(ratio.target, '.2f'):>8} {verdict:>6} "
        f"{values:>24} {ratio.pairs:>6}"
    )


HEADER = (
    f"{'what':<26} {'ratio':>7} {'p10-p90':>13} {'target':>8} {'':>6} "
    f"{'ours / theirs':>24} {'pairs':>6}"
)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--quick", action="store_true", help="fewer pairs, wider spread")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="jobs whose name starts with NAME"
    )
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    torch.set_num_threads(1)
    chosen = [
        (name, job)
        for name, job in jobs(QUICK if options.quick else Effort())
        if not options.only or any(name.startswith(prefix) for prefix in options.only)
    ]
    if not chosen:
        names = ", ".join(name for name, _ in jobs(QUICK))
        print(f"[benchmarks] expected --only to name one of: {names}.", file=sys.stderr)
        return 2
    ratios: list[Ratio] = []
    if not options.json:
        print(HEADER)
    for _, job in chosen:
        for ratio in job():
            ratios.append(ratio)
            if not options.json:
                print(line(ratio), flush=True)
    if options.json:
        print(json.dumps([ratio.to_json() for ratio in ratios], indent=2))
    else:
        met = sum(ratio.met for ratio in ratios)
        print(f"{met} of {len(ratios)} targets met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
