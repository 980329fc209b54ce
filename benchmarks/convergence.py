"""How fast 1, 2 and 4 clusters learn, and what rare averaging costs.

    python benchmarks/convergence.py [--task digits|sorter] [--seeds 1 2 3] [--out FOLDER]
    python benchmarks/convergence.py --only Nesterov   # again; what else is in FOLDER stays
    python benchmarks/convergence.py --task digits --batch 4   # noisier gradients
    python benchmarks/convergence.py --draw            # trains nothing

Every cluster is one provider on one thread, so that clusters of one run are equally fast and no
gradient is late: what is seen is averaging alone. Every way to train is tried at several learning
rates, and told by the one at which it ends lowest, and by the one at which it reaches a loss first:
at a single rate, whichever likes it wins. Curves show the loss of unseen data after every epoch, of
the first cluster's weights as they are then; a loss is reached where the median of three epochs is.
"final" is that of the trained weights, after the last averaging. Seconds are those of training,
without a look at unseen data. Writes convergence_<task>.json and .svg.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

import ravnest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


@dataclass
class Setting:
    """One way to train."""

    name: str
    clusters: int
    averaging: dict = field(default_factory=dict)


@dataclass
class Task:
    make_model: Callable
    data: Callable  # training set, validation set
    loss: Callable
    optimizer: str
    rates: tuple[float, ...]
    batch: int
    samples: int  # of an "epoch": a look at the unseen data follows
    epochs: int
    settings: list[Setting]


def digits_task() -> Task:
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    from zoo import CNN_Net

    def data():
        digits = datasets.load_digits()
        images = torch.tensor(digits.data, dtype=torch.float32).reshape(-1, 1, 8, 8)
        split = train_test_split(images, torch.tensor(digits.target), test_size=0.4, random_state=1)
        return TensorDataset(split[0], split[2]), TensorDataset(split[1], split[3])

    def loss(output, target):
        wanted = torch.nn.functional.one_hot(target, 10).float()
        return torch.nn.functional.mse_loss(output, wanted)

    return Task(CNN_Net, data, loss, "sgd", (0.05, 0.1, 0.2, 0.4, 0.8), 16, 1078, 40, settings())


def sorter_task() -> Task:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "sorter"))
    import task

    def data():
        whole = task.make_data()
        return (
            torch.utils.data.Subset(whole, range(0, len(whole) - 2048)),
            torch.utils.data.Subset(whole, range(len(whole) - 2048, len(whole))),
        )

    ways = settings(average_optim=True)
    return Task(task.make_model, data, task.loss_fn, "adamw", (1e-3, 2e-3), 64, 16_000, 12, ways)


ONE = "1 cluster"
TWO = "2 clusters, every 16"
NESTEROV = "2 clusters, every 160, Nesterov"


def settings(**averaging) -> list[Setting]:
    often = {"reduce_factor": 16, **averaging}
    seldom = {"reduce_factor": 160, **averaging}
    return [
        Setting(ONE, 1),
        Setting(TWO, 2, often),
        Setting("2 clusters, every 4", 2, {**often, "reduce_factor": 4}),
        Setting("4 clusters, every 16", 4, often),
        Setting("2 clusters, every 160", 2, seldom),
        Setting(NESTEROV, 2, {**seldom, "outer": "nesterov"}),
    ]


TASKS = {"digits": digits_task, "sorter": sorter_task}


class Clock:
    """Seconds from the first batch of an epoch until all of it is learned from."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        self.seconds += time.monotonic() - self._started


@dataclass
class Told:
    """A loader that tells when it is gone through."""

    loader: DataLoader
    tell: Callable[[], None]

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator:
        self.tell()
        return iter(self.loader)


@torch.no_grad()
def loss_of(task: Task, state: dict, loader: DataLoader) -> float:
    model = task.make_model().eval()
    model.load_state_dict(state)
    total = sum(task.loss(model(x), y).item() * len(x) for x, y in loader)
    return total / len(loader.dataset)


def train(task: Task, setting: Setting, rate: float, seed: int) -> dict:
    """Losses of unseen data by epoch, with samples, updates of a cluster, and seconds."""
    train_set, val_set = task.data()
    ravnest.set_seed(seed)
    curve: dict = {name: [] for name in ("loss", "samples", "updates", "seconds")}
    epoch_updates = -(-task.samples // task.batch) / setting.clusters
    sampler = RandomSampler(train_set, num_samples=task.samples)
    unseen = DataLoader(val_set, batch_size=256)
    clock = Clock()

    def on_epoch(run: ravnest.Run) -> None:
        curve["loss"].append(run.history["val_loss"][-1])
        curve["samples"].append(run.epoch * task.samples)
        curve["updates"].append(run.epoch * epoch_updates)
        curve["seconds"].append(clock.seconds)

    run = ravnest.fit(
        task.make_model(),
        Told(DataLoader(train_set, batch_size=task.batch, sampler=sampler), clock.start),
        criterion=task.loss,
        optimizer=task.optimizer,
        optimizer_params={"lr": rate},
        epochs=task.epochs,
        val_loader=Told(unseen, clock.stop),
        providers=setting.clusters,
        clusters=setting.clusters,
        threads=1,
        callbacks=[on_epoch],
        quiet=True,
        **setting.averaging,
    )
    curve["final"] = loss_of(task, run.state_dict(), unseen)
    print(
        f"  {setting.name}, rate {rate}, seed {seed}: {curve['final']:.5f} after "
        f"{curve['updates'][-1]:.0f} updates of a cluster, {clock.seconds:.0f} s",
        flush=True,
    )
    return curve


def smooth(losses: list[float]) -> list[float]:
    """The median of each and the two before it: dropout and batch norm make single epochs jump."""
    return [statistics.median(losses[max(0, i - 2) : i + 1]) for i in range(len(losses))]


def crossing(curve: dict, loss: float, over: str) -> float | None:
    """Where the curve first reaches this loss, between two epochs by a straight line."""
    before = None
    for value, at in zip(smooth(curve["loss"]), curve[over], strict=True):
        if value <= loss:
            if before is None:
                return at
            share = (before[0] - loss) / (before[0] - value)
            return before[1] + share * (at - before[1])
        before = (value, at)
    return None


def mean_crossing(curves: list[dict], goal: float, over: str) -> float | None:
    places = [crossing(curve, goal, over) for curve in curves]
    return None if None in places else statistics.mean(places)


def mean_final(curves: list[dict]) -> float:
    mean = statistics.mean(curve["final"] for curve in curves)
    return mean if math.isfinite(mean) else math.inf


def ratios(numerators: list, denominators: list) -> str:
    pairs = zip(numerators, denominators, strict=True)
    return ", ".join("none" if None in (a, b) else f"{a / b:.3f}" for a, b in pairs)


def best(by_rate: dict[str, list[dict]], worth: Callable[[list[dict]], float | None]) -> str:
    """The rate at which this is least."""

    def of(rate: str) -> float:
        value = worth(by_rate[rate])
        return math.inf if value is None else value

    return min(by_rate, key=of)


def tell(found: dict[str, dict[str, list[dict]]]) -> dict[str, list[dict]]:
    """Prints how low every way ends, at the rate at which it ends lowest, and how soon it reaches
    a loss, at the rate at which it is there first. Returns the curves of the latter, to be
    drawn."""
    lowest = {name: best(by_rate, mean_final) for name, by_rate in found.items()}
    goal = 2.0 * mean_final(found[ONE][lowest[ONE]])

    def updates_to_goal(curves: list[dict]) -> float | None:
        return mean_crossing(curves, goal, "updates")

    first = {name: best(by_rate, updates_to_goal) for name, by_rate in found.items()}
    print(f"{'':<32} {'rate':>6} {'final loss':>10}   {'rate':>6}   to a loss of {goal:.5f}")
    for name, by_rate in found.items():
        curves = by_rate[first[name]]
        updates = updates_to_goal(curves)
        reached = (
            "not reached by all seeds"
            if updates is None
            else f"{updates:.0f} updates of a cluster, "
            f"{mean_crossing(curves, goal, 'samples'):.0f} samples, "
            f"{mean_crossing(curves, goal, 'seconds'):.1f} s"
        )
        final = mean_final(by_rate[lowest[name]])
        print(f"{name:<32} {lowest[name]:>6} {final:10.5f}   {first[name]:>6}   {reached}")
    for name in (TWO, NESTEROV):
        needed = [
            [crossing(curve, goal, "updates") for curve in found[each][first[each]]]
            for each in (name, ONE)
        ]
        print(f"updates, {name} over one cluster, by seed: {ratios(*needed)}", end="")
        means = [updates_to_goal(found[each][first[each]]) for each in (name, ONE)]
        print(f"; of the means: {ratios(means[:1], means[1:])}")
    finals = [[curve["final"] for curve in found[name][lowest[name]]] for name in (NESTEROV, TWO)]
    mean = statistics.mean(finals[0]) / statistics.mean(finals[1])
    print(
        f"final loss, Nesterov over every 16, by seed: {ratios(*finals)}; of the means: {mean:.3f}"
    )
    return {f"{name}, rate {rate}": found[name][rate] for name, rate in first.items()}


def draw(task: str, results: dict[str, list[dict]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "ravnest"
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.2), sharey=True)
    labels = {
        "samples": "samples seen by all clusters",
        "updates": "updates of a cluster",
        "seconds": "seconds",
    }
    for axis, (over, label) in zip(axes, labels.items(), strict=True):
        for colour, (name, curves) in enumerate(results.items()):
            smoothed = [smooth(curve["loss"]) for curve in curves]
            for curve, losses in zip(curves, smoothed, strict=True):
                axis.plot(curve[over], losses, color=f"C{colour}", linewidth=0.8, alpha=0.25)
            places, middle = (
                [statistics.median(each) for each in zip(*rows, strict=True)]
                for rows in ([curve[over] for curve in curves], smoothed)
            )
            axis.plot(places, middle, color=f"C{colour}", linewidth=1.8, label=name)
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.locator_params(axis="x", nbins=5)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("loss on unseen data")
    axes[2].legend(fontsize=8, frameon=False)
    figure.suptitle(f"{task}: seeds and their median; each point of three epochs", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


Found = dict[str, dict[str, dict[str, dict]]]  # curves by setting, rate and seed


def comparable(found: Found) -> dict[str, dict[str, list[dict]]]:
    """The curves of those seeds that all have."""
    each = [set(by_seed) for by_rate in found.values() for by_seed in by_rate.values()]
    seeds = sorted(set.intersection(*each), key=int)
    print(f"seeds {', '.join(seeds)}")
    return {
        name: {rate: [by_seed[seed] for seed in seeds] for rate, by_seed in by_rate.items()}
        for name, by_rate in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=list(TASKS), action="append")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--batch", type=int, help="in place of the task's own")
    parser.add_argument("--only", default="", help="settings with this in their name")
    parser.add_argument("--draw", action="store_true", help="train nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.task or TASKS:
        task = TASKS[name]()
        if options.batch:
            task.batch, name = options.batch, f"{name}_{options.batch}"
        file = options.out / f"convergence_{name}.json"
        found: Found = json.loads(file.read_text()) if file.exists() else {}
        print(f"{name}: {task.optimizer}, rates {task.rates}, batch {task.batch}")
        for seed in options.seeds:
            for setting, rate in itertools.product(task.settings, task.rates):
                if options.only in setting.name and not options.draw:
                    curve = train(task, setting, rate, seed)
                    by_rate = found.setdefault(setting.name, {})
                    by_rate.setdefault(str(rate), {})[str(seed)] = curve
                    file.write_text(json.dumps(found))
        draw(name, tell(comparable(found)), file.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
